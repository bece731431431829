"""Counts by the minute in a store, and who has reported what: the same for basins and the catalog.

Pure: reads the store, hands its changes out as part of an entry's write set. Which rows there are
depends on nothing but the entries, so that every replica has the same.
"""

from __future__ import annotations

import struct
from itertools import islice
from typing import Final

import msgspec

from svc_cluster.base.key_reader import KeyReader
from svc_cluster.base.write_set import WriteSet
from svc_cluster.model.usage import (
    DAY_MINUTES,
    FINE_MINUTES,
    HOUR_MINUTES,
    KEPT_MINUTES,
    Counts,
    UsageReport,
    aged_minutes,
)

REPORTER_KEPT_MINUTES: Final = DAY_MINUTES
"""How long a reporter that is silent is remembered. A gateway gives a report up long before."""

REPORT_GIVEN_UP_SECONDS: Final = 3600.0
"""After this long a gateway sends a report no more: nobody would know it again much later."""

PRUNED_ONE_BY_ONE_MAX: Final = 64
"""So many old rows are deleted each for itself; more, as a range."""

AGED_ROWS_MAX: Final = 480
"""So many minutes become hours with one entry at most. What is beyond them, behind a pause of more
than eight hours, stays by the minute until it goes."""

_MINUTE: Final = struct.Struct(">BQ")
_REPORTER: Final = struct.Struct(">QQ")
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Counts).decode


class UsageTable:
    """Counts by minute under one kind of key, reporters under another; each kind is one byte."""

    def __init__(self, reader: KeyReader, minutes_kind: int, reporters_kind: int) -> None:
        self.reader = reader
        self.minutes_kind = minutes_kind
        self.reporter_prefix = bytes([reporters_kind])
        self._latest: tuple[int, Counts] | None = None
        """The minute that was touched last: nearly always the one that is touched next."""

    def minute_key(self, minute: int) -> bytes:
        return _MINUTE.pack(self.minutes_kind, minute)

    def counts(self, minute: int) -> Counts | None:
        """Not to be changed."""
        latest = self._latest
        if latest is not None and latest[0] == minute:
            return latest[1]
        value = self.reader.get(self.minute_key(minute))
        return None if value is None else _decode(value)

    def rows(self, first: int, end: int, limit: int) -> list[tuple[int, Counts]]:
        """At most `limit` minutes of `[first, end)` that anything was counted in, in order."""
        pairs = self.reader.scan(self.minute_key(first), self.minute_key(end))
        return [
            (_MINUTE.unpack(key)[1], _decode(value)) for key, value in islice(pairs, max(limit, 0))
        ]

    def last_before(self, end: int) -> int | None:
        """Return the last minute before `end` that anything was counted in."""
        pairs = self.reader.scan(self.minute_key(0), self.minute_key(end), reverse=True)
        for key, _ in pairs:
            minute: int = _MINUTE.unpack(key)[1]
            return minute
        return None

    def last_sequence(self, reporter: bytes) -> int:
        """Return the sequence of the last report that was taken from it; 0 for none."""
        value = self.reader.get(self.reporter_prefix + reporter)
        if value is None:
            return 0
        sequence: int = _REPORTER.unpack(value)[0]
        return sequence

    def was_taken(self, report: UsageReport) -> bool:
        """Tells whether this report, or one behind it, was taken."""
        return report.sequence <= self.last_sequence(report.reporter)

    def commit(self, draft: UsageDraft) -> None:
        """The store holds what the draft has written."""
        if draft.latest is not None:
            self._latest = draft.latest


class UsageDraft:
    """What one log entry adds to a table."""

    __slots__ = ("_counts", "_reporters", "_table", "latest")

    def __init__(self, table: UsageTable) -> None:
        self._table = table
        self._counts: dict[int, tuple[Counts, bool]] = {}
        """By minute; and whether the store has no row of it yet."""
        self._reporters: dict[bytes, tuple[int, int]] = {}
        self.latest: tuple[int, Counts] | None = None

    def counts(self, minute: int) -> Counts:
        """To be added to."""
        known = self._counts.get(minute)
        if known is not None:
            return known[0]
        found = self._table.counts(minute)
        counts = Counts(ops={}) if found is None else found.copy()
        self._counts[minute] = (counts, found is None)
        return counts

    def take(self, report: UsageReport, now_minute: int) -> bool:
        """Count the report, unless it was counted before."""
        known = self._reporters.get(report.reporter)
        last = self._table.last_sequence(report.reporter) if known is None else known[0]
        if report.sequence <= last:
            return False
        self._reporters[report.reporter] = (report.sequence, now_minute)
        for minute, counts in report.minutes:
            self.counts(minute).add(counts)
        return True

    def write(self, write_set: WriteSet, *, keeps_hours: bool) -> None:
        """Each touched minute once, and the reporters; what has grown too old goes. Where the log
        has said so it becomes hours first."""
        table = self._table
        for minute, (counts, is_new) in self._counts.items():
            write_set.put(table.minute_key(minute), _encode(_ordered(counts)))
            if is_new and minute > FINE_MINUTES and not keeps_hours:
                cutoff = table.minute_key(minute - FINE_MINUTES)
                prune(write_set, table.reader, table.minute_key(0), cutoff)
            self.latest = (minute, counts)
        new = [minute for minute, (_, is_new) in self._counts.items() if is_new]
        if keeps_hours and new:
            self._age(write_set, max(new))
        known: list[tuple[bytes, int]] | None = None
        for reporter, (sequence, now_minute) in self._reporters.items():
            if table.last_sequence(reporter) == 0:
                # looked through once, however many are new
                known = self._known_reporters() if known is None else known
                _forget_silent(write_set, known, now_minute)
            value = _REPORTER.pack(sequence, now_minute)
            write_set.put(table.reporter_prefix + reporter, value)

    def _age(self, write_set: WriteSet, newest: int) -> None:
        """Delete what is too old at all, and make hours of what is too old for its minutes. The sum
        of an hour goes into the first minute of it. What lies ahead of the entry's own time is not
        looked at: else one row of a leader whose clock was ahead would keep all from ageing."""
        table = self._table
        before = table.last_before(newest)
        if before is None:
            return
        aged = aged_minutes(before, newest)
        if any(minute < aged.stop for minute in self._counts):
            return  # a clock that went astray: nothing is added up under what the entry writes
        if newest > KEPT_MINUTES:
            cutoff = table.minute_key(newest - KEPT_MINUTES)
            prune(write_set, table.reader, table.minute_key(0), cutoff)
        hours: dict[int, list[tuple[int, Counts]]] = {}
        for minute, counts in table.rows(aged.start, aged.stop, AGED_ROWS_MAX):
            hours.setdefault(minute // HOUR_MINUTES * HOUR_MINUTES, []).append((minute, counts))
        for hour, rows in hours.items():
            if len(rows) < 2:
                continue
            total = Counts(ops={})
            for minute, counts in rows:
                total.add(counts)
                if minute != hour:
                    write_set.delete(table.minute_key(minute))
            write_set.put(table.minute_key(hour), _encode(_ordered(total)))

    def _known_reporters(self) -> list[tuple[bytes, int]]:
        """Their keys, and the minute of the last report of each."""
        prefix = self._table.reporter_prefix
        pairs = self._table.reader.scan(prefix, bytes([prefix[0] + 1]))
        return [(key, _REPORTER.unpack(value)[1]) for key, value in pairs]


def _forget_silent(write_set: WriteSet, known: list[tuple[bytes, int]], now_minute: int) -> None:
    for key, heard_minute in known:
        if heard_minute + REPORTER_KEPT_MINUTES < now_minute:
            write_set.delete(key)


def canonical_counts(value: bytes) -> bytes:
    """A minute's row in the form of this release. Raises msgspec.DecodeError."""
    return _encode(_ordered(_decode(value)))


def _ordered(counts: Counts) -> Counts:
    if len(counts.ops) > 1:
        counts.ops = dict(sorted(counts.ops.items()))
    return counts


def prune(
    write_set: WriteSet, reader: KeyReader, start: bytes, cutoff: bytes, *, keep_last: bool = False
) -> None:
    """Delete the rows of `[start, cutoff)`; with `keep_last` all but the last of them."""
    keys = [key for key, _ in islice(reader.scan(start, cutoff), PRUNED_ONE_BY_ONE_MAX + 2)]
    if not keys:
        return
    if len(keys) <= PRUNED_ONE_BY_ONE_MAX + 1:
        for key in keys[:-1] if keep_last else keys:
            write_set.delete(key)
        return
    end = cutoff
    if keep_last:
        end = next(reader.scan(start, cutoff, reverse=True))[0]
    # the rows are small: not worth a compaction of their own
    write_set.delete_range(start, end, frees=0)
