"""A stream is copied from one server to another here, in pages, and compared at the end.

The destination itself says how far a copy came: what it holds is compared with the source's
records at its two ends, and the copy goes on behind it. Every append names the position that its
first record gets, so that nothing is copied twice, whatever becomes of an answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from svc_cluster.base.tasks import start_task
from svc_cluster.client.client_errors import (
    AnswerRefusedError,
    AwayError,
    ClientError,
    OutcomeUnknownError,
)
from svc_cluster.client.definite_append import DefiniteAppender, RetryPatience
from svc_cluster.client.service_client import ServiceClient, shaped
from svc_cluster.client.stream_reading import StreamBounds, StreamStart, read_pages
from svc_cluster.client.wire_records import AppendRecord, ReadRecord, stream_path

_TRIM: Final = b"trim"
_ATTEMPTS_MAX: Final = 20
"""Attempts to append one page, whatever the destination says."""

KEEPS_TIMESTAMPS: Final = {"mode": "client-require", "uncapped": True}
"""The timestamping of a destination while records are copied: they keep the source's."""


class CopyError(ClientError):
    """The copy cannot be made, or is not one."""


@dataclass(frozen=True, slots=True)
class CopyEnd:
    """One end of a copy: a stream of a server, and how what fails is tried again."""

    client: ServiceClient
    basin: str
    stream: str
    patience: RetryPatience

    @property
    def name(self) -> str:
        return f"{self.client.address.url} {self.basin}/{self.stream}"

    def pages(self, seq_num: int, end: int) -> AsyncIterator[list[ReadRecord]]:
        """Yield the records from a number on, to before another."""
        bounds = StreamBounds(count=max(0, end - seq_num))
        start = StreamStart("seq_num", seq_num)
        return read_pages(
            self.client, self.basin, self.stream, start, bounds, self.patience, clamp=True
        )

    async def first_from(self, seq_num: int) -> ReadRecord | None:
        """Return the first record that is there from a number on."""
        bounds = StreamBounds(count=1)
        start = StreamStart("seq_num", seq_num)
        try:
            async for page in read_pages(
                self.client, self.basin, self.stream, start, bounds, self.patience, clamp=True
            ):
                return page[0]
        except AnswerRefusedError as refused:
            if refused.status != 416:
                raise
        return None

    async def tail(self) -> int:
        """Return the number that the next record gets."""
        while True:
            try:
                return (await self.client.tail(self.basin, self.stream)).seq_num
            except (AwayError, AnswerRefusedError) as cause:
                passes = isinstance(cause, AwayError) or cause.is_passing
                if not passes or not await self.patience.wait():
                    raise


@dataclass(frozen=True, slots=True)
class CopiedStream:
    """What was copied. `shift`: the source's number of the destination's record 0."""

    copied: int
    resumed_at: int
    shift: int
    tail: int
    """The source's when the copy began: what came later is not in it."""
    compared: int


class StreamCopy:
    """One stream on its way."""

    def __init__(
        self,
        source: CopyEnd,
        target: CopyEnd,
        new_token: Callable[[], str],
        told: Callable[[str, int, int], None],
    ) -> None:
        """`told` is called with what is being done, how far it has come and how far it goes."""
        self._source = source
        self._target = target
        self._told = told
        self._new_token = new_token

    async def run(self) -> CopiedStream:
        """Copy what the source holds now and compare it. Raises ClientError; to be run again then,
        it goes on where it was."""
        end = await self._source.tail()
        before = await self._target_config()
        if before is not None:
            await self._standing(end)  # what is not a copy is left as it is
        config = await self._prepare()
        try:
            shift, begin = await self._standing(end)
            copied = await self._copy(begin, end, shift)
            compared = await self._compare(end, shift)
        except CopyError:
            if before is not None:
                await self._configure(before)
            raise
        # only now: until here the timestamps are the source's whatever its mode is
        await self._configure(config)
        return CopiedStream(copied, begin - shift, shift, end, compared)

    async def _configure(self, config: dict[str, object]) -> None:
        await self._target.client.call(
            "PATCH",
            stream_path(self._target.stream),
            basin=self._target.basin,
            body=msgspec.json.encode(config),
        )

    async def _target_config(self) -> dict[str, object] | None:
        """The configuration of the destination's stream; None where there is none yet."""
        try:
            answer = await self._target.client.call(
                "GET", stream_path(self._target.stream), basin=self._target.basin
            )
        except AnswerRefusedError as refused:
            if refused.status != 404:
                raise
            return None
        return shaped(answer.body, dict[str, object])

    async def _prepare(self) -> dict[str, object]:
        """Make the destination's stream, so that it takes the source's timestamps. Returns the
        configuration that it gets in the end."""
        answer = await self._source.client.call(
            "GET", stream_path(self._source.stream), basin=self._source.basin
        )
        config = shaped(answer.body, dict[str, object])
        while_copied = config | {
            "timestamping": KEEPS_TIMESTAMPS,
            "delete_on_empty": {"min_age_secs": 0},
        }
        await self._target.client.call(
            "PUT",
            stream_path(self._target.stream),
            basin=self._target.basin,
            body=msgspec.json.encode(while_copied),
        )
        return config

    async def _standing(self, end: int) -> tuple[int, int]:
        """The shift, and the source's number to go on at. Raises CopyError for a destination that
        holds something else."""
        there = await self._target.tail()
        first = await self._source.first_from(0)
        if there == 0:
            begin = end if first is None else min(first.seq_num, end)
            return begin, begin
        last = await self._target.first_from(there - 1)
        shifts = {0} if first is None else {0, first.seq_num}
        for shift in sorted(shifts):
            if there + shift > end:
                continue
            same = await self._source.first_from(there - 1 + shift)
            if last is None:
                # nothing is left there to be compared: then nothing may be left of it here either
                if first is None or first.seq_num >= there + shift:
                    return shift, there + shift
            elif same is not None and _is_same(same, last, shift):
                return shift, there + shift
        raise CopyError(
            f"{self._target.name} holds {there} records that are not the first ones of the source: "
            "copy to another stream, or delete this one"
        )

    async def _copy(self, begin: int, end: int, shift: int) -> int:
        """Append from `begin` to before `end`; the next page is read while one is appended."""
        pages = aiter(self._source.pages(begin, end))
        place = begin
        reading = start_task(_next(pages), "read the next page")
        try:
            while (page := await reading) is not None:
                reading = start_task(_next(pages), "read the next page")
                if page[0].seq_num != place:
                    raise CopyError(
                        f"the source has removed its records {place} to {page[0].seq_num - 1} "
                        "meanwhile: positions cannot be kept, copy to an empty stream"
                    )
                await self._append([_moved(record, shift) for record in page], place - shift)
                place = page[-1].seq_num + 1
                self._told("copied", place, end)
        finally:
            reading.cancel()
        return place - begin

    async def _append(self, records: list[AppendRecord], at: int) -> None:
        """Append records that get the numbers from `at` on, once."""
        appender = DefiniteAppender(
            self._target.client,
            self._target.basin,
            self._target.stream,
            self._target.patience,
            self._new_token,
        )
        for _ in range(_ATTEMPTS_MAX):
            try:
                await appender.append(records, match_seq_num=at)
            except OutcomeUnknownError:
                # a server that knows no request tokens: its tail knows
                there = await self._target.tail()
            except AnswerRefusedError as refused:
                if refused.status != 412:
                    raise
                there = await self._target.tail()
            else:
                return
            if there == at + len(records):
                return  # an attempt whose answer was lost; what it holds is compared at the end
            if there != at:
                break
        raise CopyError(f"somebody else appends to {self._target.name}: its tail is not {at}")

    async def _compare(self, end: int, shift: int) -> int:
        """Read both from their beginnings and return how many records are alike."""
        first = await self._source.first_from(0)
        begin = end if first is None else first.seq_num
        kept = await self._target.first_from(max(0, begin - shift))
        if kept is not None:  # a trim that was copied may hold already
            begin = max(begin, kept.seq_num + shift)
        theirs = _one_by_one(self._target.pages(begin - shift, end - shift))
        compared = 0
        async for page in self._source.pages(begin, end):
            for record in page:
                other = await anext(theirs, None)
                if other is None or not _is_same(record, other, shift):
                    raise CopyError(
                        f"{self._target.name} is no copy: record {record.seq_num} of the source is "
                        f"another than record {record.seq_num - shift} there"
                    )
                compared += 1
            self._told("compared", page[-1].seq_num + 1, end)
        return compared


async def _next(pages: AsyncIterator[list[ReadRecord]]) -> list[ReadRecord] | None:
    return await anext(pages, None)


async def _one_by_one(pages: AsyncIterator[list[ReadRecord]]) -> AsyncIterator[ReadRecord]:
    async for page in pages:
        for record in page:
            yield record


def _moved(record: ReadRecord, shift: int) -> AppendRecord:
    """The record as it is appended. A trim names a position, which moves with the others."""
    body = record.body
    if record.is_command and record.headers[0][1] == _TRIM and shift:
        kept = int.from_bytes(body, "big")
        body = max(0, kept - shift).to_bytes(8, "big")
    return AppendRecord(body, record.headers, record.timestamp)


def _is_same(source: ReadRecord, target: ReadRecord, shift: int) -> bool:
    moved = _moved(source, shift)
    return (
        target.seq_num + shift == source.seq_num
        and target.timestamp == source.timestamp
        and list(target.headers) == list(moved.headers)
        and target.body == moved.body
    )
