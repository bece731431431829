"""What is told of single requests goes to the log here, beside the event loop: a log that nobody
reads delays no request."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Final

from svc_cluster.base.log import get_logger
from svc_cluster.base.tasks import Tasks
from svc_cluster.gateway.request.request_log import SLOW, RequestLine, RequestLog

WRITE_SECONDS: Final = 0.5
"""From one look at what there is to write to the next."""
CLOSE_SECONDS: Final = 2.0
"""How long the end of the process waits for the last lines."""

log = get_logger("requests")


class RequestLogWriter:
    """Takes the lines of one gateway's requests away, and writes them."""

    def __init__(self, requests: RequestLog) -> None:
        self._requests = requests
        self._tasks = Tasks()

    def start(self) -> None:
        self._tasks.spawn(self._run(), "write the request log")

    async def close(self) -> None:
        """Write what there is, or give up after CLOSE_SECONDS."""
        await self._tasks.cancel_all()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._write(), CLOSE_SECONDS)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(WRITE_SECONDS)
            await self._write()

    async def _write(self) -> None:
        """Return once it is written, in a thread that holds up nobody: not even the process's
        end."""
        lines, left_out = self._requests.take()
        if not lines and not left_out:
            return
        loop = asyncio.get_running_loop()
        written = asyncio.Event()

        def work() -> None:
            _emit(lines, left_out)
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(written.set)

        threading.Thread(target=work, name="request log", daemon=True).start()
        await written.wait()


def _emit(lines: list[RequestLine], left_out: int) -> None:
    for line in lines:
        tell = log.warning if line.event == SLOW else log.info
        tell(line.event, **line.fields)
    if left_out:
        log.warning("request_lines_left_out", count=left_out)
