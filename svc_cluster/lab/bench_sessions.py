"""Append sessions for `svc-cluster bench`: each connection keeps a window of batches under way."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable
from typing import Any, Final
from urllib.parse import urlsplit

from svc_cluster.base.clock import Clock
from svc_cluster.base.tasks import Tasks
from svc_cluster.codec.session_frame import FrameDecoder, encode_frame
from svc_cluster.lab.api_client import ApiError, AppendRecord, records_path
from svc_cluster.lab.bench_load import Load, Result, Span, measure, protobuf_append, set_up

_AFTER_ERROR_S: Final = 0.05


class _Session:
    """One append session over HTTP/1.1, both directions at once."""

    def __init__(self, result: Result, clock: Clock, span: Span) -> None:
        self._result = result
        self._clock = clock
        self._span = span
        self._sent_at: deque[float] = deque()
        """When each of the batches without an acknowledgement was sent."""

    async def run(self, url: str, head: bytes, chunk: bytes, window: int, metered: int) -> None:
        """Until the end of the span, or the session's. Raises OSError, EOFError."""
        parts = urlsplit(url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
        tasks = Tasks()
        try:
            writer.write(head)
            status = int((await reader.readuntil(b"\r\n\r\n")).split(b" ")[1])
            if status != 200:
                self._result.errors[f"{status}/none"] += 1
                return
            room = asyncio.Semaphore(window)
            tasks.spawn(self._send(writer, chunk, room), "bench session: send")
            await self._receive(reader, room, metered)
        finally:
            await tasks.cancel_all()
            writer.close()

    async def _send(
        self, writer: asyncio.StreamWriter, chunk: bytes, room: asyncio.Semaphore
    ) -> None:
        with contextlib.suppress(OSError):  # whoever receives notices it too
            while self._clock.monotonic() < self._span[1]:
                await room.acquire()
                self._sent_at.append(self._clock.monotonic())
                writer.write(chunk)
                await writer.drain()
            writer.write(b"0\r\n\r\n")
            await writer.drain()

    async def _receive(
        self, reader: asyncio.StreamReader, room: asyncio.Semaphore, metered: int
    ) -> None:
        result, (begin, end) = self._result, self._span
        decoder = FrameDecoder()
        while (size := int(await reader.readuntil(b"\r\n"), 16)) > 0:
            decoder.feed((await reader.readexactly(size + 2))[:-2])
            while (frame := decoder.next_frame()) is not None:
                if frame.is_terminal:
                    result.errors[f"{frame.failure()[0]}/session"] += 1
                    return
                now = self._clock.monotonic()
                sent_at = self._sent_at.popleft()
                room.release()
                if begin <= now < end:
                    result.latencies.append(now - sent_at)
                    result.requests += 1
                    result.metered_bytes += metered


async def _sessions(
    result: Result,
    clock: Clock,
    span: Span,
    *conversation: Any,
) -> None:
    """One session after the other until the end of the span."""
    while clock.monotonic() < span[1]:
        try:
            await _Session(result, clock, span).run(*conversation)
        except (OSError, EOFError):
            result.errors["connection_lost"] += 1
        if clock.monotonic() < span[1]:
            await asyncio.sleep(_AFTER_ERROR_S)


async def run_sessions(load: Load, window: int, clock: Clock) -> Result:
    """Append identical batches. There is one session on each connection with `window` batches on
    their way. Raises ApiError for a gateway that cannot be asked, or is not a plain `http://`
    one."""
    if urlsplit(load.url).scheme != "http":
        raise ApiError("sessions are measured over http:// only")
    await set_up(load.url, load.basin, load.streams, clock)
    result = Result("session", load.connections)
    frame = encode_frame(protobuf_append([AppendRecord(b"s" * load.size)] * load.batch))
    chunk = b"%x\r\n%b\r\n" % (len(frame), frame)

    def worker(number: int, span: Span) -> Awaitable[None]:
        head = (
            f"POST {records_path(load.stream(number))} HTTP/1.1\r\nhost: bench\r\n"
            f"svc-basin: {load.basin}\r\n"
            "content-type: svcs/proto\r\ntransfer-encoding: chunked\r\n\r\n"
        ).encode()
        return _sessions(result, clock, span, load.url, head, chunk, window, load.metered_bytes)

    await measure(result, clock, load, worker)
    result.records = result.requests * load.batch
    return result
