"""What load has measured, in bounded memory: latencies, rates, errors, and how long nothing came.

Pure: moments are arguments. What several processes have measured adds up to what one would have,
because no figure is computed before all of it is together.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

SPAN_S_MAX: Final = 3600.0
"""Seconds that one measurement may take, which bounds what is kept of it."""
ERROR_KINDS_MAX: Final = 32
"""Kinds of error that are told apart; what comes beyond is `other`."""
MINUTE_S: Final = 60.0
_STEPS: Final = 128
"""Buckets for each doubling: none is wider than 1/128 of what it holds."""
_MICROS_MAX: Final = 2**40 - 1


def _bucket(micros: int) -> int:
    shift = max(0, micros.bit_length() - 8)
    return shift * _STEPS + (micros >> shift)


def _upper(bucket: int) -> int:
    """The largest latency of a bucket in microseconds."""
    shift = max(0, bucket // _STEPS - 1)
    return ((bucket - shift * _STEPS + 1) << shift) - 1


Figures: TypeAlias = dict[str, Any]
"""What is told of a measurement, by names with their units."""


class Latencies(msgspec.Struct):
    """Counts of latencies by size, exact to 1/128 or a microsecond; at most some 4,400 counts."""

    counts: dict[int, int] = {}
    largest_us: int = 0

    def add(self, seconds: float) -> None:
        """Count one; what is negative (no clock here goes back) is a bug of the caller."""
        assert seconds >= 0, f"a latency of {seconds} s"
        micros = min(round(seconds * 1e6), _MICROS_MAX)
        bucket = _bucket(micros)
        self.counts[bucket] = self.counts.get(bucket, 0) + 1
        self.largest_us = max(self.largest_us, micros)

    def merge(self, other: Latencies) -> None:
        for bucket, count in other.counts.items():
            self.counts[bucket] = self.counts.get(bucket, 0) + count
        self.largest_us = max(self.largest_us, other.largest_us)

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def quantile_ms(self, share: float) -> float | None:
        """The latency that `share` of all do not exceed, rounded up to its bucket's edge: never
        better than it was. None where nothing was counted."""
        total = self.total
        wanted = min(total, int(share * total) + 1)
        for bucket in sorted(self.counts):
            wanted -= self.counts[bucket]
            if wanted <= 0:
                return min(_upper(bucket), self.largest_us) / 1000
        return None


class Tally(msgspec.Struct):
    """What one part of a scenario has measured between `begin` and `end`, in seconds of one clock.

    Rates are of what was answered in the span; latencies of what was due in it, however late it
    was answered. A request that was due and never sent or answered counts with the time that it
    was waited for, which is less than its latency and never nothing.
    """

    begin: float
    end: float
    requests: int = 0
    records: int = 0
    metered_bytes: int = 0
    received_bytes: int = 0
    unsent: int = 0
    latencies: Latencies = msgspec.field(default_factory=Latencies)
    minutes: dict[int, Latencies] = {}
    """Latencies by the minute of the span in which they were due, where it has two at least."""
    errors: dict[str, int] = {}
    seen_ms: bytearray = msgspec.field(default_factory=bytearray)
    """For each millisecond of the span whether anything was answered in it, a bit each."""

    def __post_init__(self) -> None:
        assert 0 < self.end - self.begin <= SPAN_S_MAX, "the span is bounded"

    def answered(self, due: float, now: float, *, records: int = 1, metered_bytes: int = 0) -> None:
        """Count a request that went well; `due`: when it was, or should have been, sent."""
        if self.begin <= now < self.end:
            self.requests += 1
            self.records += records
            self.metered_bytes += metered_bytes
            self._see(now)
        self._late(due, now)

    def received(self, now: float, size: int) -> None:
        """Count bytes that came, of an answer that need not be at its end."""
        if self.begin <= now < self.end:
            self.received_bytes += size
            self._see(now)

    def failed(self, kind: str, due: float, now: float, *, unanswered: bool = False) -> None:
        """Count an error. `unanswered`: how long it took is a latency too, or more of one."""
        if not self.begin <= due < self.end:
            return
        if kind not in self.errors and len(self.errors) >= ERROR_KINDS_MAX:
            kind = "other"
        self.errors[kind] = self.errors.get(kind, 0) + 1
        if unanswered:
            self._late(due, now)

    def not_sent(self, due: float, now: float) -> None:
        """Count a request that was due in the span and had not been sent when it was over."""
        if self.begin <= due < self.end:
            self.unsent += 1
            self._late(due, now)

    def _late(self, due: float, now: float) -> None:
        if not self.begin <= due < self.end:
            return
        self.latencies.add(now - due)
        if self.end - self.begin >= 2 * MINUTE_S:
            minute = int((due - self.begin) // MINUTE_S)
            self.minutes.setdefault(minute, Latencies()).add(now - due)

    def _see(self, now: float) -> None:
        if not self.seen_ms:
            self.seen_ms = bytearray(int((self.end - self.begin) * 1000) // 8 + 1)
        at = min(int((now - self.begin) * 1000), len(self.seen_ms) * 8 - 1)
        self.seen_ms[at >> 3] |= 1 << (at & 7)

    def merge(self, other: Tally) -> None:
        """Add what another process has measured in the same span."""
        assert (self.begin, self.end) == (other.begin, other.end), "one span"
        self.requests += other.requests
        self.records += other.records
        self.metered_bytes += other.metered_bytes
        self.received_bytes += other.received_bytes
        self.unsent += other.unsent
        self.latencies.merge(other.latencies)
        for minute, latencies in other.minutes.items():
            self.minutes.setdefault(minute, Latencies()).merge(latencies)
        for kind, count in other.errors.items():
            self.errors[kind] = self.errors.get(kind, 0) + count
        if other.seen_ms and self.seen_ms:
            pairs = zip(self.seen_ms, other.seen_ms, strict=True)
            self.seen_ms = bytearray(a | b for a, b in pairs)
        elif other.seen_ms:
            self.seen_ms = bytearray(other.seen_ms)

    def longest_hole_ms(self) -> int:
        """The most milliseconds in a row in which nothing came, from the span's begin to its
        end."""
        length = int((self.end - self.begin) * 1000)
        longest = run = 0
        for at in range(length):
            byte = self.seen_ms[at >> 3] if self.seen_ms else 0
            run = 0 if byte >> (at & 7) & 1 else run + 1
            longest = max(longest, run)
        return longest

    def figures(self) -> Figures:
        """All of it, with units in the names."""
        seconds = self.end - self.begin
        told: Figures = {
            "requests": self.requests,
            "requests_per_s": round(self.requests / seconds, 1),
            "records_per_s": round(self.records / seconds, 1),
            "metered_mib_per_s": round(self.metered_bytes / seconds / 2**20, 3),
            "received_mib_per_s": round(self.received_bytes / seconds / 2**20, 3),
            "p50_ms": self.latencies.quantile_ms(0.5),
            "p99_ms": self.latencies.quantile_ms(0.99),
            "p99_9_ms": self.latencies.quantile_ms(0.999),
            "max_ms": self.latencies.largest_us / 1000 if self.latencies.counts else None,
            "longest_hole_ms": self.longest_hole_ms(),
            "unsent": self.unsent,
            "errors": dict(sorted(self.errors.items())),
        }
        if self.minutes:
            first, last = self.minutes[min(self.minutes)], self.minutes[max(self.minutes)]
            told["p99_ms_first_minute"] = first.quantile_ms(0.99)
            told["p99_ms_last_minute"] = last.quantile_ms(0.99)
        return told
