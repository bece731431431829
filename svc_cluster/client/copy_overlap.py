"""What both ends of a copy hold is compared here, and says where a copy goes on.

A copy numbers the source's records from the one that was the source's first when it began: by that
number, its shift, it may be less than the source in all positions. The shift is kept nowhere. It is
between 0 and the number of the source's first record of now, since a first record only moves on;
and the destination's last record, if the source still has it, has the same timestamp there. So all
shifts that may be are known, and the right one is the only one by which everything that both hold
is alike.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from svc_cluster.client.copy_end import CopyEnd, CopyError
from svc_cluster.client.wire_records import RECORDS_MAX, AppendRecord, ReadRecord

_TRIM: Final = b"trim"
SHIFTS_MAX: Final = 16
"""Shifts by which everything is compared: more have a last record in common only where one record
is repeated again and again with one timestamp."""

_REMEDY: Final = "copy to another stream, or delete this one"


class DifferenceError(CopyError):
    """A record of the source is another than the one in its place at the destination."""


@dataclass(frozen=True, slots=True)
class CopyStanding:
    """How far a copy has come. `shift`: the source's number of the destination's record 0; `begin`:
    the source's number to go on at."""

    shift: int
    begin: int


@dataclass(slots=True)
class _Side:
    """One end, record by record, in the source's numbers."""

    end: CopyEnd
    shift: int
    records: AsyncIterator[ReadRecord]
    now: ReadRecord | None = None
    first: float = 0
    """What lies ahead of this one was removed, as far as is known."""

    @property
    def place(self) -> float:
        return float("inf") if self.now is None else self.now.seq_num + self.shift

    async def advance(self) -> None:
        self.now = await anext(self.records, None)

    async def has_removed(self, place: float) -> bool:
        """Whether it holds nothing of that place any more."""
        if place >= self.first:
            first = await self.end.first_from(0)
            self.first = float("inf") if first is None else first.seq_num + self.shift
        return place < self.first


class Overlap:
    """Both ends, and what they hold of each other."""

    def __init__(self, source: CopyEnd, target: CopyEnd) -> None:
        self._source = source
        self._target = target

    async def compare(
        self, end: int, shift: int, told: Callable[[str, int, int], None] = lambda *_: None
    ) -> int:
        """Return how many records are alike, all that both hold ahead of `end`. What either of them
        removes meanwhile is left out. Raises DifferenceError."""
        first = await self._source.first_from(0)
        kept = await self._target.first_from(0)
        begin = end if first is None else first.seq_num
        if kept is not None:  # a trim that was copied may hold already
            begin = max(begin, kept.seq_num + shift)
        elif begin < end:
            raise CopyError(f"{self._target.name} has removed all that was copied to it")
        compared = 0
        async with (
            aclosing(_one_by_one(self._source.pages(begin, end))) as ours,
            aclosing(_one_by_one(self._target.pages(begin - shift, end - shift))) as theirs,
        ):
            here, there = _Side(self._source, 0, ours), _Side(self._target, shift, theirs)
            await here.advance()
            await there.advance()
            while (place := min(here.place, there.place)) < end:
                if here.now is not None and there.now is not None and here.place == there.place:
                    if not _is_same(here.now, there.now, shift):
                        raise self._difference(int(place), shift)
                    await here.advance()
                    await there.advance()
                    compared += 1
                    if compared % RECORDS_MAX == 0:
                        told("compared", int(place) + 1, end)
                    continue
                holds, lacks = (here, there) if here.place < there.place else (there, here)
                if not await lacks.has_removed(place):
                    raise self._difference(int(place), shift)
                await holds.advance()
        told("compared", end, end)
        return compared

    def _difference(self, place: int, shift: int) -> DifferenceError:
        return DifferenceError(
            f"{self._target.name} is no copy: record {place} of the source is another than record "
            f"{place - shift} there"
        )

    async def standing(self, end: int) -> CopyStanding:
        """How far the copy of what the source holds ahead of `end` has come. Raises CopyError for a
        destination that holds something else, or of which it cannot be told."""
        there = await self._target.tail()
        first = await self._source.first_from(0)
        begin = end if first is None else min(first.seq_num, end)
        if there == 0:
            return CopyStanding(begin, begin)
        last = await self._target.first_from(there - 1)
        if last is None:
            if there != begin:
                raise CopyError(
                    f"{self._target.name} has had {there} records and holds none of them, so that "
                    f"it cannot be told whether they are the source's: {_REMEDY}"
                )
            return CopyStanding(0, there)  # the next one has the number that it has in the source
        if first is None:
            raise self._unknown(there, begin)
        shifts, difference = [], None
        async with aclosing(self._shifts(first, last, end)) as found:
            async for shift in found:
                try:
                    if await self.compare(there + shift, shift):
                        shifts.append(shift)
                except DifferenceError as cause:
                    difference = cause
        if len(shifts) > 1:
            raise self._ambiguous(there)
        if not shifts:
            raise difference or self._unknown(there, first.seq_num)
        (shift,) = shifts
        # Ahead of the source's first record there may have been another one that was the same as
        # the last one here. Then the shift counts only where the destination is what a copy that
        # began now would have made of it.
        may_be_removed = there <= first.seq_num and first.timestamp == last.timestamp
        if may_be_removed and shift != first.seq_num:
            raise CopyError(
                f"{self._target.name} holds {there} records, and where they end in the source "
                f"cannot be told: it begins at record {first.seq_num} now, with the timestamp that "
                f"the last of them has, and may have had the same one before: {_REMEDY}"
            )
        return CopyStanding(shift, there + shift)

    async def _shifts(
        self, first: ReadRecord, last: ReadRecord, end: int
    ) -> AsyncGenerator[int, None]:
        """Yield each shift by which the destination's last record is one of the source's. `first`:
        the source's."""
        lowest = max(last.seq_num, first.seq_num)
        highest = min(last.seq_num + first.seq_num, end - 1)
        at = await self._source.first_from(lowest)
        if at is None or at.timestamp > last.timestamp:
            return
        # those of its timestamp begin behind the lowest, or are where it is
        pages = (
            self._source.at_timestamp(last.timestamp)
            if at.timestamp < last.timestamp
            else self._source.pages(lowest, highest + 1)
        )
        found = 0
        async with aclosing(_one_by_one(pages)) as records:
            async for record in records:
                if record.seq_num > highest or record.timestamp > last.timestamp:
                    return
                shift = record.seq_num - last.seq_num
                if _is_same(record, last, shift):
                    found += 1
                    if found > SHIFTS_MAX:
                        raise self._ambiguous(last.seq_num + 1)
                    yield shift

    def _unknown(self, there: int, first: int) -> CopyError:
        if first == 0:
            return CopyError(
                f"{self._target.name} holds {there} records that are not the first ones of the "
                f"source: {_REMEDY}"
            )
        return CopyError(
            f"{self._target.name} holds {there} records, the last of which is none that the source "
            f"holds from its first one, {first}, on, so that there is no place to go on at: "
            f"{_REMEDY}"
        )

    def _ambiguous(self, there: int) -> CopyError:
        return CopyError(
            f"{self._target.name} holds {there} records, and where they end in the source cannot "
            f"be told, since records are repeated there with one timestamp: {_REMEDY}"
        )


async def _one_by_one(
    pages: AsyncGenerator[list[ReadRecord], None],
) -> AsyncGenerator[ReadRecord, None]:
    async with aclosing(pages):
        async for page in pages:
            for record in page:
                yield record


def moved(record: ReadRecord, shift: int) -> AppendRecord:
    """The record as it is appended. A trim names a position, which moves with the others."""
    body = record.body
    if record.is_command and record.headers[0][1] == _TRIM and shift:
        kept = int.from_bytes(body, "big")
        body = max(0, kept - shift).to_bytes(8, "big")
    return AppendRecord(body, record.headers, record.timestamp)


def _is_same(source: ReadRecord, target: ReadRecord, shift: int) -> bool:
    wanted = moved(source, shift)
    return (
        target.seq_num + shift == source.seq_num
        and target.timestamp == source.timestamp
        and list(target.headers) == list(wanted.headers)
        and target.body == wanted.body
    )
