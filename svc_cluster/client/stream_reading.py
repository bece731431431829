"""Streams are read here, to the tail in pages and beyond it by a follower. That goes on where it
was when its server ends."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from svc_cluster.client.client_errors import (
    PASSING_EVENTS,
    AnswerRefusedError,
    AwayError,
    ClientError,
)
from svc_cluster.client.definite_append import RetryPatience
from svc_cluster.client.service_client import ServiceClient, StreamTail, shaped
from svc_cluster.client.stream_key import asks_for_key, key_advice
from svc_cluster.client.wire_records import RECORDS_MAX, ReadRecord, decode_batch

EVENT_BYTES_MAX: Final = 16 * 1024 * 1024
"""The largest event of a followed stream: 1 MiB in base64, with room for many headers."""


@dataclass(frozen=True, slots=True)
class StreamStart:
    """A StreamStart is where a read begins. The `kind` is seq_num, timestamp or tail_offset."""

    kind: str
    value: int

    def query(self, *more: str) -> str:
        """Return it as a query, with what else is in it."""
        return "&".join([f"{self.kind}={self.value}", *more])


@dataclass(frozen=True, slots=True)
class StreamBounds:
    """The StreamBounds say where a read ends, None: nowhere. `until`: before this Unix
    millisecond."""

    count: int | None = None
    metered_bytes: int | None = None
    until: int | None = None

    @property
    def is_reached(self) -> bool:
        return self.count == 0 or self.metered_bytes == 0

    def query(self, *, page: bool) -> list[str]:
        """Return the bounds as they are asked for; of one `page` the count is always bounded."""
        parts = []
        if self.count is not None or page:
            parts.append(f"count={RECORDS_MAX if self.count is None else self.count}")
        if self.metered_bytes is not None:
            parts.append(f"bytes={self.metered_bytes}")
        if self.until is not None:
            parts.append(f"until={self.until}")
        return parts

    def behind(self, records: list[ReadRecord]) -> StreamBounds:
        """Return what is left of the bounds behind these records."""
        count, size = self.count, self.metered_bytes
        if count is not None:
            count = max(0, count - len(records))
        if size is not None:
            size = max(0, size - sum(record.metered_bytes() for record in records))
        return replace(self, count=count, metered_bytes=size)


async def read_pages(
    client: ServiceClient,
    basin: str,
    stream: str,
    start: StreamStart,
    bounds: StreamBounds,
    patience: RetryPatience,
    *,
    clamp: bool = False,
) -> AsyncGenerator[list[ReadRecord], None]:
    """Yield what the stream has from `start` on, until its tail or the bounds; what fails for a
    moment is asked again. Raises ClientError."""
    options = ["clamp=true"] if clamp else []
    is_first = True
    while not bounds.is_reached:
        try:
            page = await client.read(basin, stream, start.query(*bounds.query(page=True), *options))
        except AnswerRefusedError as refused:
            if refused.status == 416 and (not is_first or start.kind != "timestamp"):
                if is_first and start.kind == "seq_num":
                    _refuse_beyond(refused, start)
                return
            if not refused.is_passing or not await patience.wait():
                raise
            continue
        except AwayError:
            if is_first or not await patience.wait():
                raise
            continue
        patience.renew()
        if not page:
            return
        yield page
        is_first = False
        bounds = bounds.behind(page)
        start = StreamStart("seq_num", page[-1].seq_num + 1)


class _BeyondTail(msgspec.Struct):
    tail: StreamTail | None = None


def _refuse_beyond(refused: AnswerRefusedError, start: StreamStart) -> None:
    """Raises the refusal of a start behind the tail; one at the tail has nothing to read, and is
    none."""
    try:
        told = msgspec.json.decode(refused.body, type=_BeyondTail).tail
    except msgspec.DecodeError:
        told = None
    if told is None or told.seq_num < start.value:
        raise refused


class _Ping(msgspec.Struct):
    tail: StreamTail


class _EventError(msgspec.Struct):
    code: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event of a stream of server-sent events."""

    name: str
    data: bytes


class EventParser:
    """Takes the pieces of a stream of events and gives the whole ones; holds at most one."""

    def __init__(self) -> None:
        self._left = b""

    def feed(self, piece: bytes) -> Iterator[ServerEvent]:
        """Yield the events that end in this piece. Raises ClientError for one without an end."""
        whole = self._left + piece
        *blocks, self._left = whole.split(b"\n\n")
        if len(self._left) > EVENT_BYTES_MAX:
            raise ClientError("the server sends an event without an end")
        for block in blocks:
            name, data = b"", []
            for line in block.split(b"\n"):
                key, _, value = line.partition(b":")
                value = value.removeprefix(b" ")
                if key == b"event":
                    name = value
                elif key == b"data":
                    data.append(value)
            if name or data:
                yield ServerEvent(name.decode(errors="replace"), b"\n".join(data))


class StreamFollowing:
    """Follows one stream: what is there from the start on, then what comes, each record once."""

    def __init__(
        self,
        client: ServiceClient,
        basin: str,
        stream: str,
        start: StreamStart,
        bounds: StreamBounds,
        patience: RetryPatience,
        *,
        clamp: bool = False,
    ) -> None:
        self._client = client
        self._basin = basin
        self._stream = stream
        self._start = start
        self._bounds = bounds
        self._patience = patience
        self._clamp = clamp
        self.resumed = 0
        """How often it went on behind the end of a connection."""

    async def batches(self) -> AsyncGenerator[list[ReadRecord], None]:
        """Yield the records as they come, until the bounds are reached. Raises ClientError where
        they cannot be had, and where the server is away for longer than the patience."""
        if self._start.kind == "tail_offset":
            await self._settle_start()
        has_answered = False
        while not self._bounds.is_reached:
            is_whole = False
            try:
                async with aclosing(self._connection()) as events:
                    async for event in events:
                        has_answered = True
                        self._patience.renew()
                        if event.data == b"[DONE]":
                            if await self._has_ended():
                                return
                            is_whole = True
                        if event.name == "batch":
                            records = self._new(decode_batch(event.data))
                            if records:
                                yield records
                        elif event.name == "ping":
                            self._at_tail(shaped(event.data, _Ping).tail)
                        elif event.name == "error":
                            _end(shaped(event.data, _EventError), self._client.key_option)
                last: ClientError = AwayError("the stream of records ended", sent=True)
            except AwayError as away:
                if not has_answered:
                    raise
                last = away
            except AnswerRefusedError as refused:
                if not refused.is_passing:
                    raise
                last = refused
            except msgspec.DecodeError as cause:
                raise ClientError(f"the server's answer cannot be understood: {cause}") from cause
            if is_whole:  # nothing came for as long as the server waits
                continue
            if not await self._patience.wait():
                raise last
            self.resumed += 1

    async def _connection(self) -> AsyncGenerator[ServerEvent, None]:
        """Yield the events of one connection."""
        options = ["clamp=true"] if self._clamp else []
        bounds = self._bounds.query(page=False)
        # bounds without a time to wait would end the read at the tail
        options += ["wait=60"] if bounds else []
        query = self._start.query(*bounds, *options)
        parser = EventParser()
        pieces = self._client.events(self._basin, self._stream, query)
        async with aclosing(pieces) as opened:
            async for piece in opened:
                for event in parser.feed(piece):
                    yield event

    async def _has_ended(self) -> bool:
        """Whether the server ended the read for its bounds: what comes next is there, and is not
        in them."""
        if self._bounds.is_reached:
            return True
        tail = await self._client.tail(self._basin, self._stream)
        if self._start.kind == "timestamp":
            return tail.timestamp >= self._start.value
        return tail.seq_num > self._start.value

    async def _settle_start(self) -> None:
        """Make the start a number: an offset from the tail is another place a moment later."""
        tail = await self._client.tail(self._basin, self._stream)
        self._start = StreamStart("seq_num", max(0, tail.seq_num - self._start.value))

    def _new(self, records: list[ReadRecord]) -> list[ReadRecord]:
        """Those that were not given before, and note what comes behind them."""
        if self._start.kind == "seq_num":
            records = [each for each in records if each.seq_num >= self._start.value]
        if records:
            self._start = StreamStart("seq_num", records[-1].seq_num + 1)
            self._bounds = self._bounds.behind(records)
        return records

    def _at_tail(self, tail: StreamTail) -> None:
        """A start by time becomes a number once all before the tail has come."""
        if self._start.kind != "seq_num":
            self._start = StreamStart("seq_num", tail.seq_num)


def _end(told: _EventError, key_option: str) -> None:
    """Raises what the last event of a stream says."""
    if told.code in PASSING_EVENTS:
        raise AnswerRefusedError(503, told.code, told.message)
    advice = key_advice(key_option) if asks_for_key(told.code, told.message) else ""
    raise ClientError(f"the server has ended it: {told.code}: {told.message}{advice}")
