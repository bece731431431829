"""The records of a file or a pipe, in batches: full ones from what waits, small ones from what
comes now and then."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final

from svc_cluster.base.tasks import start_task
from svc_cluster.cli.data.record_text import LINE_BYTES_MAX, RecordFormat, parse_line
from svc_cluster.client.client_errors import ClientError
from svc_cluster.client.wire_records import METERED_BYTES_MAX, RECORDS_MAX, AppendRecord

STANDARD_INPUT: Final = "standard input"
_READ_BYTES: Final = 256 * 1024


@dataclass(slots=True)
class Batch:
    """Records of one append, and how many lines were read until behind them."""

    records: list[AppendRecord] = field(default_factory=list)
    metered_bytes: int = 0
    lines: int = 0

    def takes(self, record: AppendRecord) -> bool:
        """Whether there is room for one more."""
        size = self.metered_bytes + record.metered_bytes()
        return len(self.records) < RECORDS_MAX and size <= METERED_BYTES_MAX

    def add(self, record: AppendRecord) -> None:
        self.records.append(record)
        self.metered_bytes += record.metered_bytes()


class RecordInput:
    """Reads records from an open file. It holds one batch that is being filled, one read of the
    file, and the beginning of one line."""

    def __init__(
        self, handle: int, form: RecordFormat, linger_s: float, name: str = STANDARD_INPUT
    ) -> None:
        """`linger_s`: how long the first record of a batch waits for others. `name`: what it is
        called where it cannot be read."""
        self._handle = handle
        self._form = form
        self._linger_s = linger_s
        self._name = name
        self._beginning = b""
        self._waiting: list[bytes] = []
        self._lines = 0
        self._has_ended = False
        self._stopped = asyncio.Event()
        self._reading: asyncio.Task[bytes] | None = None

    @property
    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    def stop(self) -> None:
        """Read no more: what was read is the last batch."""
        self._stopped.set()

    async def batches(self) -> AsyncIterator[Batch]:
        """Yield batches until the input ends or is stopped. Raises ClientError for a line that is
        no record, behind a batch with those before it."""
        try:
            fault: ClientError | None = None
            while fault is None:
                batch, fault = await self._fill()
                if batch.records:
                    yield batch
                elif fault is None:
                    return
            raise fault
        finally:
            if self._reading is not None:
                self._reading.cancel()

    async def _fill(self) -> tuple[Batch, ClientError | None]:
        """The next batch, empty at the end, and what is wrong behind it."""
        batch = Batch(lines=self._lines)
        deadline: float | None = None
        while True:
            while self._waiting:
                try:
                    record = parse_line(self._waiting[-1], self._form, self._lines + 1)
                except ClientError as cause:
                    return batch, cause
                if not batch.takes(record):
                    return batch, None
                batch.add(record)
                self._waiting.pop()
                self._lines += 1
                batch.lines = self._lines
            if self._has_ended:
                return batch, None
            if batch.records and deadline is None:
                deadline = asyncio.get_running_loop().time() + self._linger_s
            try:
                if not await self._more(deadline):
                    return batch, None
            except ClientError as cause:
                return batch, cause

    async def _more(self, deadline: float | None) -> bool:
        """Wait for lines; False when there are none until the deadline."""
        if self._reading is None:
            self._reading = start_task(_read_some(self._handle), "read input")
        left = None
        if deadline is not None:
            left = max(0.0, deadline - asyncio.get_running_loop().time())
        stopping = start_task(self._stopped.wait(), "wait for the end")
        try:
            await asyncio.wait(
                {self._reading, stopping}, timeout=left, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            stopping.cancel()
        if self._reading.done():
            reading, self._reading = self._reading, None
            try:
                piece = reading.result()
            except OSError as cause:
                raise ClientError(f"{self._name} cannot be read: {cause.strerror}") from cause
        elif self._stopped.is_set():
            piece = b""
        else:
            return False
        self._take(piece)
        return True

    def _take(self, piece: bytes) -> None:
        """Cut what was read into lines; nothing means the end."""
        self._has_ended = not piece or self._stopped.is_set()
        *lines, self._beginning = (self._beginning + piece).split(b"\n")
        if self._has_ended and self._beginning and not piece:
            # a last line without an end is one, unless it was interrupted in the middle
            lines += [] if self._stopped.is_set() else [self._beginning]
        most = METERED_BYTES_MAX if self._form is RecordFormat.TEXT else LINE_BYTES_MAX
        if len(self._beginning) > most:
            raise ClientError(
                f"line {self._lines + len(lines) + 1} has more than {most} bytes: a record has "
                f"{METERED_BYTES_MAX} at most"
            )
        self._waiting = lines[::-1]


async def _read_some(handle: int) -> bytes:
    """What is there, as soon as something is; empty at the end. The file stays blocking: it may be
    the terminal that others write to."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(handle, ready.set)
    except OSError:  # a plain file is always ready
        return os.read(handle, _READ_BYTES)
    try:
        await ready.wait()
        return os.read(handle, _READ_BYTES)
    finally:
        loop.remove_reader(handle)
