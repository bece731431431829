"""What is counted of a basin's or an account's use, by the minute, and how minutes add up.

Pure. A minute is a whole number of minutes since the Unix epoch. Source: contract 13.2 and 13.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from svc_cluster.model.access import Op

MINUTE_MS: Final = 60_000
MINUTE_SECONDS: Final = 60
DAY_MINUTES: Final = 24 * 60

FINE_MINUTES: Final = 31 * DAY_MINUTES
"""Older minutes are added up by the hour as soon as there is a new one; where the log has not said
yet that they are kept so, they go. It is part of what an entry makes replicas write: ADR 0051."""

KEPT_MINUTES: Final = 91 * DAY_MINUTES
"""Hours that are older go: what a query of 90 days may ask for is there as a whole."""

HOUR_MINUTES: Final = 60


def aged_minutes(before: int, newest: int) -> range:
    """Return the minutes that have become too old for rows of their own, in whole hours. They have
    when `newest` follows `before` as the newest minute. What goes anyway is not among them."""
    first, end = ((max(at - FINE_MINUTES, 0)) // HOUR_MINUTES for at in (before, newest))
    kept = -(-max(newest - KEPT_MINUTES, 0) // HOUR_MINUTES)
    return range(max(first, kept) * HOUR_MINUTES, end * HOUR_MINUTES)


REPORTER_BYTES: Final = 16
REPORT_MINUTES_MAX: Final = 128
COUNT_MAX: Final = 2**48
"""The largest count of anything in one minute of one report; what is larger nobody has counted."""
TOTAL_MAX: Final = 2**63 - 1
"""A sum that would go beyond stays there."""

BASIN_OPS: Final = frozenset(
    op.value
    for op in (
        Op.LIST_STREAMS,
        Op.CREATE_STREAM,
        Op.DELETE_STREAM,
        Op.GET_STREAM_CONFIG,
        Op.RECONFIGURE_STREAM,
        Op.CHECK_TAIL,
        Op.BASIN_METRICS,
        Op.STREAM_METRICS,
    )
)
"""What is done to a basin other than to append and to read."""

ACCOUNT_OPS: Final = frozenset(
    op.value
    for op in (
        Op.LIST_BASINS,
        Op.CREATE_BASIN,
        Op.DELETE_BASIN,
        Op.RECONFIGURE_BASIN,
        Op.GET_BASIN_CONFIG,
        Op.ISSUE_ACCESS_TOKEN,
        Op.REVOKE_ACCESS_TOKEN,
        Op.LIST_ACCESS_TOKENS,
        Op.ACCOUNT_METRICS,
        Op.LIST_LOCATIONS,
        Op.GET_DEFAULT_LOCATION,
        Op.SET_DEFAULT_LOCATION,
    )
)
"""What is done to the account, and to a basin as a thing of the account."""

REPORT_OPS_MAX: Final = max(len(BASIN_OPS), len(ACCOUNT_OPS))
"""Operations that one minute of a report may count, each once."""


class Counts(msgspec.Struct, array_like=True):
    """What was counted in one span of time, or what is to be added to it."""

    append_ops_standard: int = 0
    append_ops_express: int = 0
    append_bytes_standard: int = 0
    """Metered."""
    append_bytes_express: int = 0
    read_ops_unary: int = 0
    read_ops_streaming: int = 0
    read_bytes: int = 0
    """Metered."""
    ops: dict[str, int] = {}
    """Other operations, by name."""

    def add(self, other: Counts) -> None:
        self.append_ops_standard = _sum(self.append_ops_standard, other.append_ops_standard)
        self.append_ops_express = _sum(self.append_ops_express, other.append_ops_express)
        self.append_bytes_standard = _sum(self.append_bytes_standard, other.append_bytes_standard)
        self.append_bytes_express = _sum(self.append_bytes_express, other.append_bytes_express)
        self.read_ops_unary = _sum(self.read_ops_unary, other.read_ops_unary)
        self.read_ops_streaming = _sum(self.read_ops_streaming, other.read_ops_streaming)
        self.read_bytes = _sum(self.read_bytes, other.read_bytes)
        for op, count in other.ops.items():
            self.ops[op] = _sum(self.ops.get(op, 0), count)

    def copy(self) -> Counts:
        return Counts(
            self.append_ops_standard,
            self.append_ops_express,
            self.append_bytes_standard,
            self.append_bytes_express,
            self.read_ops_unary,
            self.read_ops_streaming,
            self.read_bytes,
            dict(self.ops),
        )


def _sum(one: int, other: int) -> int:
    return min(one + other, TOTAL_MAX)


@dataclass(frozen=True, slots=True)
class UsageReport:
    """What one gateway counted since its last report to the same basin, or for the account.

    A report is taken once: `sequence` counts up within one life of the gateway (`reporter`), and
    only one that is higher than the last taken counts.
    """

    reporter: bytes
    """`REPORTER_BYTES` of random, made anew whenever a gateway starts."""
    sequence: int
    minutes: tuple[tuple[int, Counts], ...]
    """In order of their minutes, each once."""


def is_report(report: UsageReport, ops: frozenset[str]) -> bool:
    """Whether a gateway of ours may have written this. `ops`: those that there are at its place."""
    return (
        len(report.reporter) == REPORTER_BYTES
        and 1 <= report.sequence <= TOTAL_MAX
        and 1 <= len(report.minutes) <= REPORT_MINUTES_MAX
        and all(0 <= minute < 2**32 and _is_counted(c, ops) for minute, c in report.minutes)
    )


def _is_counted(counts: Counts, ops: frozenset[str]) -> bool:
    """Appends are not reported: those who apply them count them."""
    numbers = (counts.read_ops_unary, counts.read_ops_streaming, counts.read_bytes)
    appended = (
        counts.append_ops_standard,
        counts.append_ops_express,
        counts.append_bytes_standard,
        counts.append_bytes_express,
    )
    return (
        not any(appended)
        and counts.ops.keys() <= ops
        and all(0 <= number <= COUNT_MAX for number in (*numbers, *counts.ops.values()))
    )


CLOCK_BEHIND_MINUTES: Final = 60
"""A report that comes late keeps its minutes up to this age."""


def with_minutes_near(report: UsageReport, now_minute: int) -> UsageReport:
    """The report with minutes that can be: not ahead of now, and not older than an hour. What lies
    outside is counted at the edge, so that a gateway's clock moves nothing out of sight."""
    earliest = max(now_minute - CLOCK_BEHIND_MINUTES, 0)
    if all(earliest <= minute <= now_minute for minute, _ in report.minutes):
        return report
    placed: dict[int, Counts] = {}
    for minute, counts in report.minutes:
        at = min(max(minute, earliest), now_minute)
        placed.setdefault(at, Counts(ops={})).add(counts)
    return UsageReport(report.reporter, report.sequence, tuple(sorted(placed.items())))


def sum_by_step(
    minutes: Iterable[tuple[int, Counts]], step_seconds: int, into: dict[int, Counts] | None = None
) -> dict[int, Counts]:
    """Minutes added up to buckets of `step_seconds` (a multiple of 60), by the Unix second that a
    bucket begins at. `into`: buckets that were begun with earlier minutes."""
    assert step_seconds % MINUTE_SECONDS == 0, "buckets are made of whole minutes"
    buckets: dict[int, Counts] = {} if into is None else into
    for minute, counts in minutes:
        at = minute * MINUTE_SECONDS // step_seconds * step_seconds
        known = buckets.get(at)
        if known is None:
            buckets[at] = counts.copy()
        else:
            known.add(counts)
    return buckets


def bucket_range(start: int, end: int, step_seconds: int) -> range:
    """The Unix seconds at which the buckets begin that have a part in `[start, end)`, or hold
    `start` where that is empty."""
    first = start // step_seconds * step_seconds
    return range(first, max(end, start + 1), step_seconds)


@dataclass(frozen=True, slots=True)
class Readings:
    """Readings tell a stored amount over a time. `changes` has, in order, the last value of each
    step in which there was a change, by the Unix second that the step begins at; `before` the one
    before the first step; `now` the present one. None: there was nothing that could be read."""

    before: int | None = None
    changes: Iterable[tuple[int, int]] = ()
    now: int | None = None


def gauge_points(
    readings: Readings, steps: range, now_seconds: int, step_seconds: int
) -> Iterator[tuple[int, int]]:
    """One value a step, the last of it: as it was left before where nothing changed, as it is now
    in the step that it is now. No step that lies ahead, and none before there was anything."""
    changes = iter(readings.changes)
    change = next(changes, None)
    value = readings.before
    for at in steps:
        if at > now_seconds:
            break
        while change is not None and change[0] <= at:
            value = change[1]
            change = next(changes, None)
        if at + step_seconds > now_seconds and readings.now is not None:
            value = readings.now
        if value is not None:
            yield at, value
