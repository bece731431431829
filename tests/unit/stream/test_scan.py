"""Reads: starts, bounds, steps."""

from __future__ import annotations

import pytest

from svc_cluster.base import limits
from svc_cluster.base.errors import PastTailError
from svc_cluster.base.ids import TimestampMs
from svc_cluster.model.read_bounds import ReadBounds, ReadStart, StartKind
from svc_cluster.model.stream_config import PartialStreamConfig, Retention
from svc_cluster.stream import scan
from svc_cluster.stream.basin_usage import stored_metered_bytes
from svc_cluster.stream.scan import ReadStep, StoppedBy
from tests.unit.stream.support import NOW, Leader, batch, trim

SEQ, TIME, OFFSET, FIRST = StartKind


def filled() -> Leader:
    """Stream `s`: batches of 3, records 0..11, last timestamps 10, 20, 20, 40; tail 12, time 40."""
    leader = Leader()
    leader.create("s")
    for last in (10, 20, 20, 40):
        leader.append(
            "s", batch(timestamps=[last - 5, last - 1, last], metered_bytes=30, records=b"x" * 100)
        )
    return leader


def resolve(
    leader: Leader, kind: StartKind, value: int = 0, *, clamp: bool = False, refuse: bool = False
) -> int:
    return scan.resolve_start(
        leader.store, leader.stream("s"), ReadStart(kind, value, clamp), refuse_at_tail=refuse
    )


def read(leader: Leader, start: int, **kwargs: int) -> ReadStep:
    extra = {key: kwargs.pop(key) for key in ("max_bytes", "from_ms") if key in kwargs}
    now_ms = TimestampMs(kwargs.pop("now_ms", NOW))
    return scan.read_batches(
        leader.store, leader.stream("s"), start, ReadBounds(**kwargs), now_ms=now_ms, **extra
    )


def firsts(step: ReadStep) -> list[int]:
    return [found.placement.first_seq_num for found in step.batches]


# -- starts


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (SEQ, 0, 0),
        (SEQ, 5, 5),
        (SEQ, 12, 12),
        (OFFSET, 0, 12),
        (OFFSET, 5, 7),
        (OFFSET, 99, 0),
        (FIRST, 0, 0),
        (TIME, 0, 0),
        (TIME, 10, 0),
        (TIME, 11, 3),
        (TIME, 20, 3),
        (TIME, 21, 9),
        (TIME, 40, 9),
    ],
)
def test_start_is_resolved(kind: StartKind, value: int, expected: int) -> None:
    """A start by time is exact to the batch."""
    assert resolve(filled(), kind, value) == expected


@pytest.mark.parametrize(("kind", "value"), [(SEQ, 13), (TIME, 41)])
def test_start_beyond_the_tail_is_refused_with_the_tail_unless_clamped(
    kind: StartKind, value: int
) -> None:
    """Whether or not the reader may follow."""
    leader = filled()
    for refuse in (False, True):
        with pytest.raises(PastTailError) as refusal:
            resolve(leader, kind, value, refuse=refuse)
        assert (refusal.value.tail_seq_num, refusal.value.tail_timestamp_ms) == (12, 40)
    assert resolve(leader, kind, value, clamp=True) == 12


@pytest.mark.parametrize(("kind", "value"), [(SEQ, 12), (SEQ, 13), (OFFSET, 0), (TIME, 41)])
def test_start_at_the_tail_is_refused_where_that_is_asked_for(kind: StartKind, value: int) -> None:
    """Also when it got there by clamping."""
    with pytest.raises(PastTailError):
        resolve(filled(), kind, value, clamp=True, refuse=True)


def test_time_that_nothing_matches_is_the_tail_and_refused_as_such() -> None:
    """Time 0 on an empty stream; and where everything at that time is trimmed."""
    leader = Leader()
    leader.create("s")
    for kind in (TIME, SEQ):
        assert resolve(leader, kind, 0) == 0
        with pytest.raises(PastTailError):
            resolve(leader, kind, 0, refuse=True)
    leader = filled()
    assert resolve(leader, TIME, 40, refuse=True) == 9
    leader.append("s", batch(timestamps=[1], commands=(trim(99),)))
    assert resolve(leader, TIME, 20) == 13
    with pytest.raises(PastTailError) as refused:
        resolve(leader, TIME, 20, refuse=True)
    assert refused.value.tail_seq_num == 13


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [(SEQ, 0, 4), (SEQ, 6, 6), (OFFSET, 99, 4), (FIRST, 0, 4), (TIME, 0, 4), (TIME, 20, 4)],
)
def test_start_below_the_trim_point_moves_up_to_it(
    kind: StartKind, value: int, expected: int
) -> None:
    """Also into the middle of a batch."""
    leader = filled()
    leader.append("s", batch(timestamps=[1], commands=(trim(4),)))
    assert resolve(leader, kind, value) == expected


def test_start_by_time_looks_at_few_batches() -> None:
    """A binary search, not a scan."""
    leader = Leader()
    leader.create("s")
    for number in range(300):
        leader.append("s", batch(timestamps=[number]))
    before = leader.store.scanned
    assert resolve(leader, TIME, 217) == 217
    assert leader.store.scanned - before <= 10


# -- steps


def test_read_takes_whole_batches_from_the_one_that_holds_the_start() -> None:
    """The gateway cuts."""
    step = read(filled(), 4)
    assert (step.start_seq_num, firsts(step)) == (4, [3, 6, 9])
    assert (step.next_seq_num, step.stopped_by, step.may_have_more) == (12, StoppedBy.TAIL, False)


def test_read_at_the_tail_finds_nothing() -> None:
    """And says where to go on."""
    step = read(filled(), 12)
    assert (step.batches, step.next_seq_num, step.stopped_by) == ([], 12, StoppedBy.TAIL)


@pytest.mark.parametrize(
    ("start", "bounds", "expected"),
    [
        (0, {"count": 0}, []),
        (0, {"metered_bytes": 0}, []),
        (0, {"count": 3}, [0]),
        (0, {"count": 4}, [0, 3]),
        (2, {"count": 2}, [0, 3]),
        (2, {"count": 1}, [0]),
        (0, {"metered_bytes": 1}, [0]),
        (0, {"metered_bytes": 30}, [0]),
        (0, {"metered_bytes": 31}, [0, 3]),
        (1, {"metered_bytes": 1}, [0, 3]),
        (0, {"count": 7, "metered_bytes": 31}, [0, 3]),
        (0, {"until_ms": 0}, []),
        (0, {"until_ms": 1}, [0]),
        (0, {"until_ms": 10}, [0]),
        (0, {"until_ms": 11}, [0, 3]),
        (0, {"until_ms": 20}, [0, 3]),
        (0, {"until_ms": 21}, [0, 3, 6, 9]),
        (3, {"until_ms": 10}, []),
        (0, {"count": 1, "from_ms": 7}, [0]),
        (0, {"count": 2, "from_ms": 7}, [0, 3]),
        (0, {"metered_bytes": 30, "from_ms": 7}, [0, 3]),
    ],
)
def test_read_stops_once_its_bounds_are_surely_met(
    start: int, bounds: dict[str, int], expected: list[int]
) -> None:
    """No batch less than the bounds may need, no batch that they surely do not."""
    step = read(filled(), start, **bounds)
    assert firsts(step) == expected
    if expected != [0, 3, 6, 9]:
        assert step.stopped_by is StoppedBy.BOUNDS
        assert not step.may_have_more


def test_long_read_goes_in_steps_that_meet() -> None:
    """Each ends with the batch that fills it; together they are everything, once."""
    leader = filled()
    seen, start, steps = [], 0, 0
    while True:
        step = read(leader, start, max_bytes=150)
        seen += firsts(step)
        start, steps = step.next_seq_num, steps + 1
        if not step.may_have_more:
            break
    assert (seen, steps, start) == ([0, 3, 6, 9], 2, 12)


def test_read_begins_at_the_trim_point_and_shows_the_batch_it_cuts() -> None:
    """With the start that the gateway has to cut at."""
    leader = filled()
    leader.append("s", batch(timestamps=[1], commands=(trim(4),)))
    step = read(leader, 0)
    assert (step.start_seq_num, firsts(step)) == (4, [3, 6, 9, 12])


def test_expired_batches_are_skipped_wherever_they_lie() -> None:
    """Before retention has removed them; the tail stays."""
    leader = Leader()
    leader.create("s", PartialStreamConfig(retention=Retention(10)))
    for now in (5_000, 1_000, 6_000):
        leader.append("s", 2, now_ms=now)
    assert firsts(read(leader, 0, now_ms=10_999)) == [0, 2, 4]
    assert firsts(read(leader, 0, now_ms=11_000)) == [0, 4]
    assert firsts(read(leader, 0, now_ms=15_000)) == [4]
    step = read(leader, 0, now_ms=16_000)
    assert (step.batches, step.next_seq_num, step.stopped_by) == ([], 6, StoppedBy.TAIL)


def test_a_step_ends_after_so_many_batches_however_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And goes on behind them; the last step knows that it is at the tail."""
    monkeypatch.setattr(scan, "READ_BATCHES_MAX", 3)
    assert limits.READ_BATCHES_MAX > 3
    leader = filled()
    step = read(leader, 0)
    assert firsts(step) == [0, 3, 6]
    assert (step.stopped_by, step.next_seq_num) == (StoppedBy.SIZE, 9)
    rest = read(leader, step.next_seq_num)
    assert firsts(rest) == [9]
    assert rest.stopped_by is StoppedBy.TAIL


def test_skipping_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long expired prefix is passed in steps, too."""
    monkeypatch.setattr(scan, "READ_SKIPPED_BYTES_MAX", 150)
    assert limits.READ_SKIPPED_BYTES_MAX > 150
    leader = Leader()
    leader.create("s", PartialStreamConfig(retention=Retention(10)))
    for _ in range(5):
        leader.append("s", batch(1, records=b"x" * 100), now_ms=1_000)
    step = read(leader, 0, now_ms=99_000)
    assert (step.batches, step.may_have_more) == ([], True)
    assert 0 < step.next_seq_num < 5


def test_stored_bytes_count_what_is_left() -> None:
    """A batch that the trim point cuts counts whole."""
    leader = filled()
    assert stored_metered_bytes(leader.store, leader.stream("s")) == 120
    leader.append("s", batch(timestamps=[1], commands=(trim(4),)))
    assert stored_metered_bytes(leader.store, leader.stream("s")) == 99
