"""Attacks by number: connections, streams, frames, names. Each holds what it has for a moment, so
that the most that it can cost is measured, and says what became of it."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import Counter
from collections.abc import Sequence
from typing import Final

from svc_cluster.http.client import ConnectionLostError, HttpClient
from tests.hostile.clients import raw
from tests.hostile.clients.names import AUTO_BASIN, BIG_BASIN, BIG_STREAM
from tests.hostile.scale import SCALE

HOLD_S: Final = 2.0
ENDS_S: Final = 20.0
"""A flood is over by then, or was let through."""

HALF_HEADS: Final = 1_200 * SCALE
"""Connections of each protocol."""

FLOODERS: Final = 5 * SCALE
"""Connections of each kind of flood."""

FRAMES: Final = 3_000
SESSIONS: Final = 4 * SCALE
"""Connections with a hundred sessions each; as many follow streams that they make."""

STREAMS: Final = 100
VANISHING: Final = 150 * SCALE
NAMES: Final = 100 * SCALE
NAMES_AT_ONCE: Final = 8
PAGE_LINES: Final = 10 * SCALE
UNREAD: Final = 1_000 * SCALE
NO_WINDOW: Final = b"\0\4\0\0\0\0"
"""Settings: the client takes nothing of any answer."""


async def half_heads(port: int, token: str) -> Counter[str]:
    """HALF_HEADS connections send most of the largest head there may be, and no more of it; as
    many over HTTP/2, in frames that continue each other."""
    fields = b"".join(b"x-%d: " % number + b"v" * 250 + b"\r\n" for number in range(97))
    first = b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n" + fields
    more = [(f"x-{number}", "v" * 7_000) for number in range(4)]
    encoded = raw.block(raw.head("GET", "/", f"127.0.0.1:{port}", token, *more))
    second = raw.hello() + raw.frame(raw.HEADERS, 0, 1, encoded[:16_000])
    second += raw.frame(raw.CONTINUATION, 0, 1, encoded[16_000:]) * 4
    lines = await raw.at_once(HALF_HEADS, port, first)
    lines += await raw.at_once(HALF_HEADS, port, second)
    return await _held(lines)


async def _held(lines: Sequence[raw.Line]) -> Counter[str]:
    await asyncio.sleep(HOLD_S)
    found = await raw.state_of(lines)
    for line in lines:
        line.close()
    return found


async def frames(port: int, token: str) -> Counter[str]:
    """Floods of frames that cost the sender nothing, FLOODERS connections of each kind, which take
    no answer: pings, settings, priorities, windows, data without data, and requests that are
    cancelled at once. Beside them VANISHING connections that ask for 0.9 MB and are reset."""
    path = f"/v1/streams/{BIG_STREAM}/records?seq_num=0&count=1"
    asked = raw.block(raw.head("GET", path, f"127.0.0.1:{port}", token, ("svc-basin", BIG_BASIN)))
    cancelled = b"".join(
        raw.request(number, asked) + raw.frame(raw.RESET, 0, number, bytes(4))
        for number in range(1, 2 * FRAMES, 2)
    )
    open_request = raw.request(1, asked, ends=False)
    floods = (
        raw.frame(raw.PING, 0, 0, bytes(8)) * FRAMES,
        raw.frame(raw.SETTINGS, 0, 0) * FRAMES,
        raw.frame(raw.PRIORITY, 0, 1, bytes(5)) * FRAMES,
        raw.frame(raw.WINDOW_UPDATE, 0, 0, (1).to_bytes(4)) * FRAMES,
        open_request + raw.frame(raw.DATA, 0, 1) * FRAMES,
        cancelled,
    )

    async def flood(words: bytes) -> str:
        try:
            line = await raw.Line.call(port)
        except OSError:
            return "refused"
        await line.say(raw.hello() + words)
        try:
            async with asyncio.timeout(ENDS_S):
                await line.ended()
                return "ended"
        except TimeoutError:
            return "open"
        finally:
            line.close()

    async def vanish() -> str:
        try:
            line = await raw.Line.call(port)
        except OSError:
            return "refused"
        await line.say(raw.hello() + raw.request(1, asked))
        await asyncio.sleep(0)
        line.vanish()
        return "vanished"

    attackers = [flood(words) for words in floods for _ in range(FLOODERS)]
    attackers += [vanish() for _ in range(VANISHING)]
    return Counter(await asyncio.gather(*attackers))


async def sessions(port: int, token: str) -> Counter[str]:
    """SESSIONS connections open STREAMS append sessions each and say nothing in them; as many
    follow STREAMS streams each which did not exist before."""
    authority = f"127.0.0.1:{port}"
    session = raw.block(
        raw.head(
            "POST",
            f"/v1/streams/{BIG_STREAM}/records",
            authority,
            token,
            ("svc-basin", BIG_BASIN),
            ("content-type", "s2s/proto"),
        )
    )
    silent = raw.hello()
    for number in range(STREAMS):
        silent += raw.request(2 * number + 1, session, ends=False)
    lines = await raw.at_once(SESSIONS, port, silent)
    for connection in range(SESSIONS):
        words = raw.hello()
        for number in range(STREAMS):
            path = f"/v1/streams/new-{connection}-{number}/records?seq_num=0&clamp=true"
            more = (("svc-basin", AUTO_BASIN), ("accept", "text/event-stream"))
            follower = raw.block(raw.head("GET", path, authority, token, *more))
            words += raw.request(2 * number + 1, follower)
        lines += await raw.at_once(1, port, words)
    return await _held(lines)


async def names(port: int, token: str) -> Counter[str]:
    """NAMES requests each with a token, a basin, a stream, a method, a path, a host that nobody
    knows and that never comes again: what is remembered of them has an end."""
    numbers = iter(range(NAMES))
    found: Counter[str] = Counter()
    good = {"authorization": f"Bearer {token}"}
    records = "/v1/streams/s/records?seq_num=0"

    async def work() -> None:
        async with HttpClient(f"http://127.0.0.1:{port}") as client:
            for number in numbers:
                name = f"{number}-{secrets.token_hex(8)}"
                made_up = {"authorization": f"Bearer {secrets.token_urlsafe(40)}"}
                for method, path, headers in (
                    ("GET", records, made_up | {"svc-basin": BIG_BASIN}),
                    ("GET", records, good | {"svc-basin": f"basin-{name}"}),
                    ("GET", f"/v1/streams/{name}/records", good | {"svc-basin": BIG_BASIN}),
                    (f"M{name}".upper(), "/v1/basins", good),
                    ("GET", f"/{name}/{name}?{name}={name}", good),
                    ("GET", "/v1/basins", good | {"host": f"{name}.example"}),
                ):
                    try:
                        answer = await client.request(method, path, headers, timeout_s=30.0)
                    except ConnectionLostError:
                        found["lost"] += 1
                    else:
                        found[str(answer.status)] += 1

    await asyncio.gather(*(work() for _ in range(NAMES_AT_ONCE)))
    return found


async def pages(port: int, token: str) -> Counter[str]:
    """Clients without a token ask for a page and read nothing: over HTTP/2 PAGE_LINES connections
    with a hundred streams each, which have it compressed, and over HTTP/1.1 UNREAD connections."""
    asked = raw.head("GET", "/docs", f"127.0.0.1:{port}", token)
    asked = [(name, value) for name, value in asked if name != "authorization"]
    encoded = raw.block([*asked, ("accept-encoding", "zstd")])
    second = raw.PREFACE + raw.frame(raw.SETTINGS, 0, 0, NO_WINDOW)
    second += b"".join(raw.request(2 * number + 1, encoded) for number in range(STREAMS))
    first = b"GET /docs HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
    lines = await raw.at_once(PAGE_LINES, port, second)
    lines += await raw.at_once(UNREAD, port, first)
    await asyncio.sleep(HOLD_S)
    for line in lines:
        line.close()
    return Counter({"asked": len(lines)})


async def ahead(port: int, token: str) -> Counter[str]:
    """UNREAD connections wait for records that do not come, and send the beginning of a body
    behind that: half of them in requests that only the library reads."""
    wait = (
        f"GET /v1/streams/{BIG_STREAM}/records?tail_offset=0&wait=30 HTTP/1.1\r\n"
        f"host: 127.0.0.1\r\nsvc-basin: {BIG_BASIN}\r\nauthorization: Bearer {token}\r\n"
    )
    body = b"POST /v1/basins HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 900000\r\n\r\n"
    lines = []
    for more in ("\r\n", "te: trailers\r\n\r\n"):
        lines += await raw.at_once(UNREAD // 2, port, f"{wait}{more}".encode())
    await asyncio.sleep(HOLD_S)
    for line in lines:
        line.socket.setblocking(False)
        with contextlib.suppress(OSError):
            line.socket.send(body + bytes(24_000))
    return await _held(lines)
