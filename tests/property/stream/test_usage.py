"""Usage as applied against an oracle that keeps every batch and adds up, over random histories.

Entries hold several commands; minutes go forth and back; the replica restarts, and keeps the
readings of one stream only; reports come again. A second replica applies the same entries as bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from svc_cluster.base.ids import LogIndex, StreamId, TimestampMs
from svc_cluster.model.record import CommandKind, CommandRecord, StoredBatch
from svc_cluster.model.stream_config import BasinConfig, PartialStreamConfig
from svc_cluster.model.usage import (
    DAY_MINUTES,
    FINE_MINUTES,
    MINUTE_MS,
    MINUTE_SECONDS,
    REPORTER_BYTES,
    Counts,
    Readings,
    UsageReport,
    bucket_range,
    gauge_points,
    sum_by_step,
)
from svc_cluster.model.usage_table import REPORT_GIVEN_UP_SECONDS
from svc_cluster.stream import keys
from svc_cluster.stream.commands import Bootstrap, ReportUsage
from svc_cluster.stream.sequencer import Sequencer
from svc_cluster.stream.usage_rows import decode_basin_reading, decode_reading
from tests.at_once import decode_entry, encode_entry
from tests.unit.stream.support import BASIN, Replica

FIRST = 2 * FINE_MINUTES
NAMES = ("a", "b", "c")
OPS = ("list-streams", "create-stream")


@dataclass
class OracleStream:
    express: bool
    batches: list[tuple[int, int, int]] = field(default_factory=list)
    """First and end seq_num, metered bytes."""
    trim: int = 0
    tail: int = 0
    is_deleted: bool = False

    @property
    def stored(self) -> int:
        return sum(size for _, end, size in self.batches if end > self.trim)


@dataclass
class Oracle:
    streams: dict[str, OracleStream] = field(default_factory=dict)
    buckets: dict[int, Counts] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)
    last_at: dict[int, int] = field(default_factory=dict)

    def bucket(self, minute: int) -> Counts:
        return self.buckets.setdefault(minute, Counts(ops={}))

    @property
    def stored(self) -> int:
        return sum(stream.stored for stream in self.streams.values())


ACTION = st.one_of(
    st.tuples(
        st.just("append"),
        st.sampled_from(NAMES),
        st.integers(1, 4),
        st.integers(0, 60),
        st.none() | st.integers(0, 12),
        st.integers(0, 1),
    ),
    st.tuples(st.just("create"), st.sampled_from(NAMES), st.booleans()),
    st.tuples(st.just("expire"), st.sampled_from(NAMES), st.integers(0, 12)),
    st.tuples(st.just("delete"), st.sampled_from(NAMES)),
    st.tuples(st.just("purge"), st.sampled_from(NAMES)),
    st.tuples(
        st.just("report"),
        st.integers(0, 1),
        st.integers(1, 6),
        st.lists(
            st.tuples(
                st.integers(0, 3),
                st.integers(0, 5),
                st.integers(0, 5),
                st.integers(0, 99),
                st.sampled_from(OPS),
            ),
            min_size=1,
            max_size=3,
        ),
    ),
)
STEP = st.one_of(
    st.lists(ACTION, min_size=1, max_size=4),
    st.sampled_from(["restart"]),
    st.tuples(st.just("pass"), st.sampled_from([-1, 1, 2, 60, DAY_MINUTES])),
)


class Basin:
    """The code under test with the oracle beside it."""

    def __init__(self) -> None:
        self.leader = Replica(cached_max=1)
        self.other = Replica()
        self.oracle = Oracle()
        self.minute = FIRST
        self.sequencer = Sequencer(self.leader.state)
        self.apply([Bootstrap(BASIN, BasinConfig(), self.now, counts_usage=True)])

    @property
    def now(self) -> TimestampMs:
        return TimestampMs(self.minute * MINUTE_MS + 500)

    def apply(self, commands: list[Any]) -> None:
        payload = encode_entry(commands)
        self.leader.apply(decode_entry(payload))
        self.other.apply(decode_entry(payload))
        self.sequencer.reset()

    def step(self, step: Any) -> None:
        if step == "restart":
            self.leader.restart()
            self.sequencer = Sequencer(self.leader.state)
        elif step[0] == "pass":
            self.minute += step[1]
        else:
            commands = [command for action in step if (command := self.act(action)) is not None]
            if commands:
                self.apply(commands)

    def act(self, action: tuple[Any, ...]) -> Any:
        kind, *rest = action
        if kind == "report":
            return self.report(*rest)
        name = rest[0]
        stream = self.oracle.streams.get(name)
        found = self.sequencer.view.stream_by_name(name)
        match kind:
            case "create" if stream is None:
                self.oracle.streams[name] = OracleStream(rest[1])
                config = PartialStreamConfig(storage_class="express" if rest[1] else "standard")
                return self.sequencer.create_stream(name, config, self.now)
            case "append" if stream is not None and not stream.is_deleted:
                return self.append(name, stream, *rest[1:])
            case "expire" if stream is not None and not stream.is_deleted:
                trim = min(rest[1], stream.tail)
                assert found is not None
                stream.trim = max(stream.trim, trim)
                return self.sequencer.expire(found.stream_id, trim, self.now)
            case "delete" if stream is not None and not stream.is_deleted:
                stream.is_deleted = True
                return self.sequencer.delete_stream(name, self.now)
            case "purge" if stream is not None and stream.is_deleted:
                assert found is not None
                del self.oracle.streams[name]
                return self.sequencer.purge(found.stream_id, self.now)
        return None

    def append(
        self, name: str, stream: OracleStream, count: int, size: int, trim: int | None, units: int
    ) -> Any:
        metered = 8 * count + size
        commands = () if trim is None else (CommandRecord(0, CommandKind.TRIM, trim_point=trim),)
        given = StoredBatch(b"r", count, metered, commands=commands, op_units=units)
        if trim is not None:
            stream.trim = max(stream.trim, min(trim, stream.tail + 1))
        stream.batches.append((stream.tail, stream.tail + count, metered))
        stream.tail += count
        bucket = self.oracle.bucket(self.minute)
        if stream.express:
            bucket.append_bytes_express += metered
            bucket.append_ops_express += units
        else:
            bucket.append_bytes_standard += metered
            bucket.append_ops_standard += units
        return self.sequencer.append(name, given, None, None, self.now)

    def report(self, reporter: int, sequence: int, said: list[Any]) -> ReportUsage | None:
        is_new = sequence > self.oracle.last.get(reporter, 0)
        since = self.oracle.last_at.get(reporter, self.minute)
        if not is_new and self.minute - since > REPORT_GIVEN_UP_SECONDS / MINUTE_SECONDS:
            return None  # given up: nobody sends it so late
        minutes: dict[int, Counts] = {}
        for back, unary, streaming, read, op in said:
            counts = minutes.setdefault(self.minute - back, Counts(ops={}))
            counts.add(Counts(0, 0, 0, 0, unary, streaming, read, {op: 1}))
        if is_new:
            self.oracle.last[reporter] = sequence
            self.oracle.last_at[reporter] = self.minute
            for minute, counts in minutes.items():
                self.oracle.bucket(minute).add(counts)
        name = bytes([reporter]) * REPORTER_BYTES
        return ReportUsage(self.now, UsageReport(name, sequence, tuple(sorted(minutes.items()))))

    def check(self) -> None:
        state, usage = self.leader.state, self.leader.state.usage
        assert self.other.state.digest == state.digest
        rows = dict(usage.table.rows(0, 2**40, 10**6))
        newest = max(self.oracle.buckets, default=0)
        for minute, counts in self.oracle.buckets.items():
            # what is old may be gone, what is not is all there
            if minute in rows or minute > newest - FINE_MINUTES:
                assert rows[minute] == counts
        assert rows.keys() <= self.oracle.buckets.keys()
        assert usage.reading is not None
        assert usage.reading[1].stored_bytes == self.oracle.stored
        assert usage.reading[1].streams == len(self.oracle.streams)
        last = self._rows(keys.WHOLE_BASIN)[-1]
        assert decode_basin_reading(last).stored_bytes == self.oracle.stored
        for name, stream in self.oracle.streams.items():
            found = state.stream_by_name(name)
            assert found is not None
            assert usage.stream_reading(found).stored_bytes == stream.stored
            assert decode_reading(self._rows(found.stream_id)[-1]) == stream.stored

    def _rows(self, stream_id: StreamId) -> list[bytes]:
        return [value for _, value in self.leader.store.scan(*keys.readings_range(stream_id))]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEP, max_size=25))
def test_what_is_counted_and_stored_is_what_an_oracle_adds_up(steps: list[Any]) -> None:
    """All counts of every kept minute, the bytes that each stream and the basin store, and both
    replicas' digests, behind every entry."""
    basin = Basin()
    for step in steps:
        basin.step(step)
        basin.check()
    assert basin.leader.state.applied_index >= LogIndex(1)


def test_a_report_that_comes_again_counts_once() -> None:
    """The same report in two entries, one behind the other."""
    again = ("report", 0, 1, [(0, 1, 0, 0, OPS[0])])
    basin = Basin()
    for _ in range(2):
        basin.step([again])
        basin.check()


COUNTS = st.builds(
    Counts,
    *[st.integers(0, 10**6)] * 7,
    ops=st.dictionaries(st.sampled_from(OPS), st.integers(1, 9), max_size=2),
)
MINUTES = st.dictionaries(st.integers(0, 3 * DAY_MINUTES), COUNTS, max_size=30)


@settings(max_examples=200, deadline=None)
@given(MINUTES, st.sampled_from([60, 3600, 86400]), st.integers(0, 30))
def test_hours_and_days_hold_exactly_their_minutes(
    minutes: dict[int, Counts], step_seconds: int, cut: int
) -> None:
    """However the rows are handed over in steps: every bucket is the sum of the minutes that begin
    in it, and together they are the sum of all."""
    rows = sorted(minutes.items())
    buckets = sum_by_step(rows[:cut], step_seconds)
    buckets = sum_by_step(rows[cut:], step_seconds, buckets)
    expected: dict[int, Counts] = {}
    total, whole = Counts(ops={}), Counts(ops={})
    for minute, counts in rows:
        at = minute * MINUTE_SECONDS - minute * MINUTE_SECONDS % step_seconds
        expected.setdefault(at, Counts(ops={})).add(counts)
        total.add(counts)
    for counts in buckets.values():
        whole.add(counts)
    assert buckets == expected
    assert whole == total
    assert dict(rows) == minutes, "what was given is not changed"


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 10**5), st.sampled_from([60, 3600, 86400]))
def test_buckets_are_those_with_a_part_in_the_time(start: int, length: int, step: int) -> None:
    """By looking at every second of the time, or at its one instant where it is empty."""
    seconds = range(start, start + max(length, 1))
    expected = sorted(
        {second - second % step for second in seconds[::60]} | {seconds[-1] // step * step}
    )
    assert list(bucket_range(start, start + length, step)) == expected


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(st.integers(0, 20), st.integers(0, 99), max_size=6),
    st.none() | st.integers(0, 99),
    st.integers(0, 25 * 60),
    st.none() | st.integers(0, 99),
)
def test_a_gauge_has_the_last_value_of_every_step_up_to_now(
    changes: dict[int, int], before: int | None, now: int, present: int | None
) -> None:
    """Against asking, for each step, which change was the last until its end."""
    steps = range(0, 21 * 60, 60)
    told = tuple((step * 60, value) for step, value in sorted(changes.items()))
    readings = Readings(before, told, present)
    points = dict(gauge_points(readings, steps, now, 60))
    for at in steps:
        past = [value for step, value in sorted(changes.items()) if step * 60 <= at]
        value = past[-1] if past else before
        if at <= now < at + 60 and present is not None:
            value = present
        assert points.get(at) == (value if at <= now else None)
