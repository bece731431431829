"""How much a basin may store: by what is applied, with room for the trims that make room."""

from __future__ import annotations

import pytest

from svc_cluster.base.errors import (
    FencingTokenMismatchError,
    QuotaError,
    SeqNumMismatchError,
)
from svc_cluster.base.ids import LogIndex
from svc_cluster.model.record import CommandKind, CommandRecord, StoredBatch
from svc_cluster.stream import stream_quotas
from svc_cluster.stream.sequencer import Sequencer
from svc_cluster.stream.stream_quotas import TRIM_ROOM_BYTES
from tests.unit.stream.support import NOW, Leader, batch

MOST = 100
TEN = 10


def limited(most: int = MOST) -> Leader:
    leader = Leader()
    leader.create("s")
    leader.create("t")
    leader.sequencer = Sequencer(leader.state, stored_bytes_max=most)
    return leader


def data(size: int = TEN) -> StoredBatch:
    return batch(1, metered_bytes=size)


def commands(*kinds: CommandKind, point: int = 0, size: int = 1, records: int = 0) -> StoredBatch:
    made = tuple(
        CommandRecord(place, kind, trim_point=point if kind is CommandKind.TRIM else 0)
        for place, kind in enumerate(kinds)
    )
    return batch(records or len(kinds), metered_bytes=size, commands=made)


def stored(leader: Leader) -> int:
    reading = leader.state.usage.reading
    assert reading is not None
    return reading[1].stored_bytes


def test_a_full_basin_takes_no_more_until_there_is_room() -> None:
    """Of all its streams together, to the byte; trims are taken, also with others beside them in
    the batch only when these are trims; deleted streams count until they are purged."""
    leader = limited()
    for number in range(10):
        leader.append("st"[number % 2], data())
    assert stored(leader) == MOST
    for name in "st":
        with pytest.raises(QuotaError):
            leader.append(name, data(1))
        for refused in (
            commands(CommandKind.FENCE),
            commands(CommandKind.FENCE, CommandKind.TRIM),
            commands(CommandKind.TRIM, records=2),
        ):
            with pytest.raises(QuotaError):
                leader.append(name, refused)
    assert leader.append("s", commands(CommandKind.TRIM, point=4)).end.seq_num == 6
    assert stored(leader) == MOST - 4 * TEN + 1
    leader.append("s", data(39))
    with pytest.raises(QuotaError):
        leader.append("t", data(1))
    stream = leader.stream("s")
    leader.run(leader.sequencer.delete_stream("s", NOW))
    with pytest.raises(QuotaError):
        leader.append("t", data(1))
    leader.run(leader.sequencer.purge(stream.stream_id))
    leader.append("t", data(50))
    leader.restart()
    leader.sequencer = Sequencer(leader.state, stored_bytes_max=MOST)
    with pytest.raises(QuotaError):
        leader.append("t", data(1))


def test_other_refusals_come_first_and_a_refused_append_leaves_no_trace() -> None:
    """A condition that does not hold is told as ever; what was refused holds no place."""
    leader = limited(TEN)
    leader.append("s", data())
    with pytest.raises(SeqNumMismatchError):
        leader.append("s", data(), match=9)
    with pytest.raises(FencingTokenMismatchError):
        leader.append("s", data(), token="x")
    with pytest.raises(QuotaError):
        leader.append("s", data(), match=1)
    assert not leader.sequencer._touched_at
    assert leader.stream("s").tail_seq_num == 1


def test_what_is_in_flight_may_go_beyond_and_is_counted_once_it_is_applied() -> None:
    """The slack: what was handed out before any of it was applied."""
    leader = limited()
    pending = [leader.sequencer.append("s", data(60), None, None, NOW) for _ in range(3)]
    leader.run(*pending)
    assert stored(leader) == 180
    with pytest.raises(QuotaError):
        leader.append("s", data(1))
    leader.append("s", commands(CommandKind.TRIM, point=3))
    assert stored(leader) == 1
    assert leader.state.applied_index > LogIndex(0)


def test_trims_that_trim_nothing_are_no_way_to_store_without_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their room is more than what can be in flight, and ends."""
    assert TRIM_ROOM_BYTES > 5 * (2 * 1024 * 1024 + 64 * 1024) * 4
    monkeypatch.setattr(stream_quotas, "TRIM_ROOM_BYTES", 50)
    leader = limited()
    leader.append("s", data(MOST))
    for _ in range(5):
        leader.append("s", commands(CommandKind.TRIM, size=10))
    with pytest.raises(QuotaError):
        leader.append("s", commands(CommandKind.TRIM, size=10))
    assert stored(leader) == MOST + 50


def test_without_a_quota_nothing_is_refused() -> None:
    """As it is by default."""
    leader = Leader()
    leader.create("s")
    leader.append("s", data(1 << 20))
    leader.append("s", data(1 << 20))
    assert stored(leader) == 2 << 20
