"""What one client can do to the others, in a process of its own: `python -m
tests.hostile.clients.attacks NAME PORT TOKEN` plays one attack to its end and prints what it was
answered as one JSON object, status to count. Each is bounded in count and in time."""

from __future__ import annotations

import asyncio
import gzip
import json
import resource
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final

import h2.config
import h2.connection
import h2.settings

from svc_cluster.http.client import ConnectionLostError, HttpClient
from tests.hostile.clients import floods
from tests.hostile.clients.names import (
    BIG_BASIN,
    BIG_STREAM,
    LOG_RECORD_BYTES,
    LOG_RECORDS,
    LOG_STREAM,
)
from tests.hostile.scale import SCALE

CONNECTIONS: Final = 10 * SCALE
READS_AT_ONCE: Final = 100
FOLLOWERS: Final = 300 * SCALE
BOMBS: Final = 6 * SCALE
BOMB_SECONDS: Final = 1.0
BOMB_RECORDS: Final = 2_600_000
GHOSTS: Final = 300 * SCALE
GHOSTS_AT_ONCE: Final = 12
ATTACK_SECONDS: Final = 30.0 * SCALE
"""An attack that is not over by then is ended."""

_WINDOW_MAX: Final = 2**31 - 1
_FRAME_HEADER: Final = 9
_DATA, _HEADERS, _RESET, _SETTINGS, _PING = 0, 1, 3, 4, 6
_END, _ACK = 1, 1


async def big_reads(port: int, token: str) -> Counter[str]:
    """CONNECTIONS connections ask for READS_AT_ONCE records of 0.9 MB each at once, over HTTP/2
    with windows that hold nothing back."""
    found = await asyncio.gather(*(_reads_at_once(port, token) for _ in range(CONNECTIONS)))
    return sum(found, Counter())


async def _reads_at_once(port: int, token: str) -> Counter[str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=4 * 1024 * 1024)
    client = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
    client.local_settings.initial_window_size = _WINDOW_MAX
    client.initiate_connection()
    client.increment_flow_control_window(_WINDOW_MAX - 65_535)
    for number in range(READS_AT_ONCE):
        client.send_headers(
            2 * number + 1,
            [
                (":method", "GET"),
                (":scheme", "http"),
                (":authority", f"127.0.0.1:{port}"),
                (":path", f"/v1/streams/{BIG_STREAM}/records?seq_num=0&count=1"),
                ("svc-basin", BIG_BASIN),
                ("svc-format", "base64"),
                ("authorization", f"Bearer {token}"),
            ],
            end_stream=True,
        )
    writer.write(client.data_to_send())
    answers: Counter[str] = Counter()
    try:
        while answers.total() < READS_AT_ONCE:
            header = await reader.readexactly(_FRAME_HEADER)
            length, kind, flags = int.from_bytes(header[:3], "big"), header[3], header[4]
            body = await reader.readexactly(length)
            if kind in (_DATA, _HEADERS) and flags & _END:
                answers["answered"] += 1
            elif kind == _RESET:
                answers["reset"] += 1
            elif kind == _SETTINGS and not flags & _ACK:
                writer.write(b"\0\0\0\4\1\0\0\0\0")
            elif kind == _PING and not flags & _ACK:
                writer.write(b"\0\0\x08\6\1\0\0\0\0" + body)
    except (OSError, asyncio.IncompleteReadError):
        answers["closed"] += 1
    finally:
        writer.close()
    return answers


async def followers(port: int, token: str) -> Counter[str]:
    """FOLLOWERS clients follow a stream from record 0 as server-sent events, each as fast as it
    can, until it has everything."""
    found = await asyncio.gather(*(_follow(port, token) for _ in range(FOLLOWERS)))
    return Counter(found)


async def _follow(port: int, token: str) -> str:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024 * 1024)
    except OSError:
        return "refused"
    writer.write(
        f"GET /v1/streams/{LOG_STREAM}/records?seq_num=0 HTTP/1.1\r\nhost: 127.0.0.1\r\n"
        f"svc-basin: {BIG_BASIN}\r\nsvc-format: base64\r\naccept: text/event-stream\r\n"
        f"authorization: Bearer {token}\r\n\r\n".encode()
    )
    left = LOG_RECORDS * LOG_RECORD_BYTES * 4 // 3
    try:
        while left > 0:
            piece = await reader.read(256 * 1024)
            if not piece:
                return "ended"
            left -= len(piece)
    except OSError:
        return "lost"
    finally:
        writer.close()
    return "whole"


async def bombs(port: int, token: str) -> Counter[str]:
    """BOMBS bodies of 7.6 KB, one a second, that unpack to 2.6 million empty records each."""
    text = b'{"records":[' + b"{}," * (BOMB_RECORDS - 1) + b"{}]}"
    body = gzip.compress(text, 9)
    headers = {
        "content-type": "application/json",
        "content-encoding": "gzip",
        "svc-basin": BIG_BASIN,
        "authorization": f"Bearer {token}",
    }

    async def send(number: int) -> str:
        await asyncio.sleep(number * BOMB_SECONDS)
        path = f"/v1/streams/{BIG_STREAM}/records"
        return await _ask(port, "POST", path, headers, body)

    return Counter(await asyncio.gather(*map(send, range(BOMBS))))


def _never(number: int) -> tuple[str, str, dict[str, Any], str | None]:
    """Method, path, body and basin of a request whose values may not fit where they are put."""
    large = 2**64 - 1
    everything = {"prefix": ""}
    scope = {"basins": everything, "streams": everything, "ops": ["read"]}
    token = {"id": f"ghost-{number:04}", "scope": scope}
    dates = (
        *("9999-12-31T23:59:59Z",) * 8,
        "9999-12-31T23:59:59.999999999Z",
        "0001-01-01T00:00:00Z",
        "1677-09-21T00:12:43Z",
        "2262-04-11T23:47:17Z",
        "9999-12-31T23:59:59-23:59",
        "0001-01-01T00:00:00+23:59",
    )
    records = f"/v1/streams/{BIG_STREAM}/records"
    others: tuple[tuple[str, str, dict[str, Any], str | None], ...] = (
        ("POST", records, {"records": [{"timestamp": large, "body": ""}]}, BIG_BASIN),
        ("POST", records, {"records": [{"body": ""}], "match_seq_num": large}, BIG_BASIN),
        ("POST", "/v1/streams", _stream(f"g{number}", {"age": large}), BIG_BASIN),
        ("POST", "/v1/streams", _stream(f"h{number}", {"age": 2**63}), BIG_BASIN),
        ("GET", f"{records}?seq_num={large}&count={large}", {}, BIG_BASIN),
        ("GET", f"{records}?timestamp={large}&until={large}", {}, BIG_BASIN),
        ("GET", f"{records}?tail_offset={large}", {}, BIG_BASIN),
    )
    if number % 3 == 2:
        return others[number // 3 % len(others)]
    return ("POST", "/v1/access-tokens", token | {"expires_at": dates[number % len(dates)]}, None)


def _stream(name: str, retention: dict[str, int]) -> dict[str, Any]:
    config = {"retention_policy": retention, "delete_on_empty": {"min_age_secs": 2**63 - 1}}
    return {"stream": name, "config": config}


async def ghosts(port: int, token: str) -> Counter[str]:
    """GHOSTS requests whose dates and numbers are at the ends of what their types can hold."""
    numbers = iter(range(GHOSTS))
    found: Counter[str] = Counter()

    async def one_after_the_other() -> None:
        for number in numbers:
            method, path, body, basin = _never(number)
            headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
            if basin is not None:
                headers["svc-basin"] = basin
            data = b"" if method == "GET" else json.dumps(body).encode()
            found[await _ask(port, method, path, headers, data)] += 1

    await asyncio.gather(*(one_after_the_other() for _ in range(GHOSTS_AT_ONCE)))
    return found


async def _ask(port: int, method: str, path: str, headers: dict[str, str], body: bytes) -> str:
    async with HttpClient(f"http://127.0.0.1:{port}") as client:
        try:
            answer = await client.request(method, path, headers, body, timeout_s=ATTACK_SECONDS)
        except ConnectionLostError:
            return "lost"
    return str(answer.status)


ATTACKS: Final[dict[str, Callable[[int, str], Awaitable[Counter[str]]]]] = {
    "big reads": big_reads,
    "followers": followers,
    "bombs": bombs,
    "ghosts": ghosts,
    "half heads": floods.half_heads,
    "frames": floods.frames,
    "sessions": floods.sessions,
    "names": floods.names,
    "pages": floods.pages,
    "ahead": floods.ahead,
}


async def _main(name: str, port: int, token: str) -> None:
    try:
        async with asyncio.timeout(ATTACK_SECONDS):
            found = await ATTACKS[name](port, token)
    except TimeoutError:
        found = Counter({"not over in time": 1})
    print(json.dumps(found))


if __name__ == "__main__":
    _, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (_hard, _hard))
    asyncio.run(_main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
