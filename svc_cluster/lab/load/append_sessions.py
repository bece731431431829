"""Append sessions: each connection keeps a window of batches under way."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Final

from svc_cluster.base.tasks import Tasks
from svc_cluster.codec.session_frame import FrameDecoder
from svc_cluster.lab.api_client import records_path
from svc_cluster.lab.load.followers import head, open_connection, status_of
from svc_cluster.lab.load.work import Work

_AFTER_ERROR_S: Final = 0.05


class _Session:
    """One append session over HTTP/1.1, both directions at once."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._open: deque[int] = deque()
        """The batches without an acknowledgement, by number."""

    async def run(self, request: bytes) -> None:
        """Until the end of the span, or the session's. Raises OSError, EOFError."""
        reader, writer = await open_connection(self._work.access.url)
        tasks = Tasks()
        try:
            writer.write(request)
            status = await status_of(reader)
            if status != 200:
                now = self._work.clock.monotonic()
                self._work.tally.failed(f"{status}/none", now, now)
                return
            room = asyncio.Semaphore(self._work.part.window)
            tasks.spawn(self._send(writer, room), "bench session: send")
            await self._receive(reader, room)
        finally:
            await tasks.cancel_all()
            writer.close()
            for number in self._open:
                self._work.failed(number, "unanswered", unanswered=True)

    async def _send(self, writer: asyncio.StreamWriter, room: asyncio.Semaphore) -> None:
        bodies = self._work.bodies
        assert bodies is not None, "a part that appends has bodies"
        with contextlib.suppress(OSError):  # whoever receives notices it too
            while True:
                await room.acquire()
                due = await self._work.next_due()
                if due is None:
                    break
                self._open.append(self._work.sent(due))
                writer.write(bodies.next(due))
                await writer.drain()
            writer.write(b"0\r\n\r\n")
            await writer.drain()

    async def _receive(self, reader: asyncio.StreamReader, room: asyncio.Semaphore) -> None:
        decoder = FrameDecoder()
        while (size := int(await reader.readuntil(b"\r\n"), 16)) > 0:
            decoder.feed((await reader.readexactly(size + 2))[:-2])
            while (frame := decoder.next_frame()) is not None:
                if frame.is_terminal:
                    now = self._work.clock.monotonic()
                    self._work.tally.failed(f"{frame.failure()[0]}/session", now, now)
                    return
                self._work.answered(self._open.popleft())
                room.release()


async def run_session(work: Work, connection: int) -> None:
    """One session after the other until the end of the span."""
    share, clock = work.share, work.clock
    headers = work.access.headers(share.basin)
    headers |= {"content-type": work.access.session_type, "transfer-encoding": "chunked"}
    stream = share.streams[share.stream_of(connection)[0]]
    request = head(work, "POST", records_path(stream), headers)
    while clock.monotonic() < work.tally.end:
        try:
            await _Session(work).run(request)
        except (OSError, EOFError):
            now = clock.monotonic()
            work.tally.failed("connection_lost", now, now)
        if clock.monotonic() < work.tally.end:
            await asyncio.sleep(_AFTER_ERROR_S)
