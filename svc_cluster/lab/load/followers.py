"""Answers that go on: followers, who tell how late records come, and reads of all in a session.

Nothing is parsed but what is looked for, so that a process follows thousands. What a socket brings
is read as it comes, and the service waits where that is too slow.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from svc_cluster.lab.api_client import records_path
from svc_cluster.lab.load.requests import StampReader
from svc_cluster.lab.load.work import Work

_AFTER_ERROR_S: Final = 0.05
_READ_BYTES: Final = 1024 * 1024

Piece = Callable[[bytes], None]


async def open_connection(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to where the URL points. Raises OSError."""
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    return await asyncio.open_connection(
        parts.hostname,
        parts.port or (443 if secure else 80),
        limit=2 * _READ_BYTES,
        ssl=ssl.create_default_context() if secure else None,
    )


def head(work: Work, method: str, target: str, headers: dict[str, str]) -> bytes:
    """A request's head."""
    host = urlsplit(work.access.url).netloc
    lines = [f"{method} {target} HTTP/1.1", f"host: {host}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def status_of(reader: asyncio.StreamReader) -> int:
    """The status of an answer, whose head is taken. Raises EOFError, OSError."""
    return int((await reader.readuntil(b"\r\n\r\n")).split(b" ")[1])


async def _answer(work: Work, request: bytes, on_piece: Piece) -> bool:
    """Hand over one answer's bytes. Returns whether it was of 200, and not cut short. Raises
    EOFError, OSError."""
    async with work.connecting:
        reader, writer = await open_connection(work.access.url)
    left = work.tally.end - work.clock.monotonic()
    try:
        async with asyncio.timeout(max(0.0, left)):
            async with work.connecting:
                writer.write(request)
                status = await status_of(reader)
            if status != 200:
                now = work.clock.monotonic()
                work.tally.failed(f"{status}/-", now, now)
                return False
            while piece := await reader.read(_READ_BYTES):
                on_piece(piece)
    except TimeoutError:
        return False
    finally:
        writer.close()
    return True


async def run_follower(work: Work, connection: int) -> None:
    """Follow one stream from its tail to the end of the span. Each stamped record is a request that
    was due when its stamp says."""
    share, tally = work.share, work.tally
    number = share.stream_of(connection)[0]
    json = share.part.encoding == "json"
    headers = work.access.headers(share.basin)
    if json:
        headers |= work.access.format_header | {"accept": "text/event-stream"}
    else:
        headers["content-type"] = work.access.session_type
    target = f"{records_path(share.streams[number])}?seq_num={share.tails[number]}"
    request = head(work, "GET", target, headers)

    def seen(piece: bytes) -> None:
        now = work.clock.monotonic()
        tally.received(now, len(piece))
        for due in stamps.feed(piece):
            tally.answered(due, max(now, due))

    while work.clock.monotonic() < tally.end:
        stamps = StampReader(share.part.encoding)
        try:
            await _answer(work, request, seen)
        except (OSError, EOFError):
            now = work.clock.monotonic()
            tally.failed("connection_lost", now, now)
        if work.clock.monotonic() < tally.end:
            await asyncio.sleep(_AFTER_ERROR_S)


async def run_session_reads(work: Work, connection: int) -> None:
    """Read all that one stream holds in a session, again and again: a request is the whole of
    it."""
    share, tally = work.share, work.tally
    number = share.stream_of(connection)[0]
    headers = work.access.headers(share.basin) | {"content-type": work.access.session_type}
    headers["connection"] = "close"
    tail = share.tails[number]
    target = f"{records_path(share.streams[number])}?seq_num=0&count={tail}"
    request = head(work, "GET", target, headers)

    def seen(piece: bytes) -> None:
        tally.received(work.clock.monotonic(), len(piece))

    while (due := work.clock.monotonic()) < tally.end:
        try:
            if await _answer(work, request, seen):
                tally.answered(due, work.clock.monotonic(), records=tail)
        except (OSError, EOFError):
            now = work.clock.monotonic()
            tally.failed("connection_lost", due, now)
            await asyncio.sleep(_AFTER_ERROR_S)
