"""Retention: what has expired, and when to look again."""

from __future__ import annotations

import pytest

from svc_cluster.base.ids import StreamId, TimestampMs
from svc_cluster.model.stream_config import PartialStreamConfig, Retention
from svc_cluster.stream import emptiness, keys, retention
from svc_cluster.stream.commands import ExpirePrefix
from svc_cluster.stream.retention import ExpiryStep
from tests.unit.stream.support import Leader, answered, batch, trim

MS = TimestampMs


def filled(*arrivals: int, age: int | None = 10) -> Leader:
    leader = Leader()
    leader.create("s", PartialStreamConfig(retention=Retention(age)))
    for arrival in arrivals:
        leader.append("s", 2, now_ms=arrival)
    return leader


def find(leader: Leader, now_ms: int) -> ExpiryStep:
    stream = leader.stream("s")
    found = retention.find_expired(leader.store, stream, MS(now_ms))
    looked_up = answered(leader, retention.look_up_expired(stream, MS(now_ms)))
    assert looked_up == found, "looked up, it is what a walk finds"
    return found


@pytest.mark.parametrize(
    ("now_ms", "trim_point", "next_due_ms"),
    [
        (10_999, None, 11_000),
        (11_000, 2, 12_000),
        (12_500, 4, 13_000),
        (13_000, 6, None),
        (99_000, 6, None),
    ],
)
def test_expired_prefix_is_found_with_the_next_due_time(
    now_ms: int, trim_point: int | None, next_due_ms: int | None
) -> None:
    """Whole batches, exactly at their age."""
    expected = None if trim_point is None else ExpirePrefix(StreamId(1), trim_point)
    assert find(filled(1_000, 2_000, 3_000), now_ms) == ExpiryStep(
        expected, None if next_due_ms is None else MS(next_due_ms)
    )


def test_batch_that_lives_on_keeps_what_is_behind_it() -> None:
    """The clock went back between two appends: nothing goes early."""
    assert find(filled(5_000, 1_000), 12_000) == ExpiryStep(None, MS(15_000))


def test_infinite_retention_and_the_empty_stream_are_never_due() -> None:
    """Look again when something is appended."""
    assert find(filled(1_000, age=None), 2**62) == ExpiryStep(None, None)
    assert find(filled(), 2**62) == ExpiryStep(None, None)


def test_expiry_is_done_in_bounded_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """One step says that there is more, the next one goes on."""
    monkeypatch.setattr(retention, "RETENTION_STEP_BATCHES_MAX", 2)
    leader = filled(*[1_000] * 5)
    trim_points = []
    for _ in range(3):
        found = find(leader, 20_000)
        assert found.command is not None
        trim_points.append(found.command.trim_point)
        leader.run(leader.sequencer.expire(found.command.stream_id, found.command.trim_point))
        if found.next_due_ms is None:
            break
        assert found.next_due_ms <= 20_000
    assert trim_points == [4, 8, 10]
    assert leader.stream("s").tail_seq_num == 10


def test_deleted_stream_has_nothing_to_expire() -> None:
    """Its records go with the purge."""
    leader = filled(1_000)
    leader.run(leader.sequencer.delete_stream("s", MS(5)))
    assert find(leader, 99_000) == ExpiryStep(None, None)


def test_empty_stream_is_due_for_deletion_after_its_minimum_age() -> None:
    """From the last append, or from the creation; never with records or without the setting."""
    leader = Leader()
    leader.create("s", PartialStreamConfig(delete_on_empty_min_age_seconds=60))
    stream = leader.stream("s")
    assert emptiness.empty_since_due(stream) == stream.created_at_ms + 60_000
    leader.append("s", now_ms=5_000_000)
    assert emptiness.empty_since_due(leader.stream("s")) is None
    leader.append("s", batch(1, commands=(trim(99),)), now_ms=6_000_000)
    assert emptiness.empty_since_due(leader.stream("s")) == 6_060_000
    leader.run(leader.sequencer.delete_stream("s", MS(5)))
    assert emptiness.empty_since_due(leader.stream("s")) is None
    assert emptiness.empty_since_due(leader.create("t")) is None


@pytest.mark.parametrize(("records", "size"), [(1, 30), (10, 1_000), (100, 100_000)])
def test_freed_bytes_are_about_what_a_removal_takes_off_the_store(records: int, size: int) -> None:
    """For a trim, an expiry and a purge, of one-record batches as of large ones: within a half."""
    leader = filled()
    for _ in range(40):
        given = batch(records, metered_bytes=size + 8 * records, records=b"x" * size)
        leader.append("s", given, now_ms=1_000)

    def stored() -> int:
        pairs = leader.store.scan(*keys.batches_range(StreamId(1)))
        return sum(len(key) + len(value) for key, value in pairs)

    freed = 0
    sequencer = leader.sequencer
    for sequence in (
        lambda: sequencer.expire(StreamId(1), 10 * records),
        lambda: sequencer.expire(StreamId(1), 30 * records),
        lambda: sequencer.delete_stream("s", MS(5)),
        lambda: sequencer.purge(StreamId(1)),
    ):
        before = stored()
        planned = leader.run(sequence())
        after = stored()
        told = sum(frees or 0 for _, _, frees in planned.write_set.freed)
        assert (before - after) / 1.5 <= told <= 1.5 * (before - after)
        freed += told
    assert freed > 40 * size


def test_freed_bytes_of_nothing_is_nothing() -> None:
    """An empty stream, and one whose records are gone already."""
    leader = filled()
    assert retention.freed_bytes(leader.store, leader.stream("s"), 0) == 0
    leader.append("s", 5, now_ms=1_000)
    leader.run(leader.sequencer.expire(StreamId(1), 5))
    assert retention.freed_bytes(leader.store, leader.stream("s"), 5) == 0
