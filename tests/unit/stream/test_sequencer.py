"""The sequencer: refusals in their order, speculation, and what it forgets.

Rules: contract 5.4 and 5.7.
"""

from __future__ import annotations

import pytest

from svc_cluster.base.errors import (
    AlreadyExistsError,
    BasinDeletionPendingError,
    FencingTokenMismatchError,
    InvalidError,
    SeqNumMismatchError,
    ServiceError,
    StreamDeletionPendingError,
    StreamNotFoundError,
    UnavailableError,
)
from svc_cluster.base.ids import LogIndex, StreamId, TimestampMs
from svc_cluster.model.record import TimestampingMode
from svc_cluster.model.stream_config import (
    BasinConfig,
    PartialStreamConfig,
    Retention,
    StreamConfig,
)
from svc_cluster.stream.sequencer import Sequencer
from tests.unit.stream.support import BASIN, NOW, Leader, Replica, batch, fence, reasons, trim

MS = TimestampMs


def with_stream(config: PartialStreamConfig | None = None) -> Leader:
    leader = Leader()
    leader.create("s", config)
    return leader


# -- refusals


def test_append_is_refused_in_the_order_of_the_contract() -> None:
    """Each refusal hides the ones behind it: remove the causes one by one."""
    leader = with_stream(PartialStreamConfig(timestamping_mode=TimestampingMode.CLIENT_REQUIRE))
    sequencer = leader.sequencer
    leader.append("s", batch(timestamps=[1]))
    leader.append("s", batch(timestamps=[1], commands=(fence("now"),)))
    with pytest.raises(StreamNotFoundError):
        sequencer.append("t", batch(), 9, "old", NOW)
    with pytest.raises(FencingTokenMismatchError) as fencing:
        sequencer.append("s", batch(), 9, "old", NOW)
    assert fencing.value.current_token == "now"
    with pytest.raises(SeqNumMismatchError) as match:
        sequencer.append("s", batch(), 9, "now", NOW)
    assert match.value.tail_seq_num == 2
    with pytest.raises(InvalidError):
        sequencer.append("s", batch(), 2, "now", NOW)
    leader.run(sequencer.append("s", batch(timestamps=[1]), 2, "now", NOW))
    leader.run(sequencer.delete_stream("s", NOW))
    with pytest.raises(StreamDeletionPendingError):
        sequencer.append("s", batch(), 9, "old", NOW)
    leader.run(sequencer.seal(NOW))
    with pytest.raises(BasinDeletionPendingError):
        sequencer.append("t", batch(), 9, "old", NOW)


def test_refusal_leaves_no_trace() -> None:
    """The next append gets the place that the refused one did not take."""
    leader = with_stream()
    for match, token in [(1, None), (None, "x")]:
        with pytest.raises(ServiceError):
            leader.sequencer.append("s", batch(5), match, token, NOW)
    assert not leader.sequencer._touched_at
    assert leader.append("s", match=0, token="").start.seq_num == 0


@pytest.mark.parametrize(
    "contradiction",
    [
        batch(0),
        batch(1, commands=(trim(0, offset=1),)),
        batch(1, metered_bytes=2**32),
    ],
)
def test_batch_that_contradicts_itself_is_refused(contradiction: object) -> None:
    """What the edge should have stopped becomes neither a command nor a fault."""
    leader = with_stream()
    with pytest.raises(InvalidError):
        leader.sequencer.append("s", contradiction, None, None, NOW)  # type: ignore[arg-type]
    assert not leader.sequencer._touched_at


def test_absent_token_always_passes() -> None:
    """Fencing is cooperative."""
    leader = with_stream()
    leader.append("s", batch(1, commands=(fence("x"),)))
    leader.append("s", token=None)
    with pytest.raises(FencingTokenMismatchError):
        leader.append("s", token="")


def test_basin_that_is_still_being_created_serves_nothing() -> None:
    """No bootstrap entry, no stream."""
    sequencer = Sequencer(Replica().state)
    with pytest.raises(UnavailableError):
        sequencer.append("s", batch(), None, None, NOW)
    with pytest.raises(UnavailableError):
        sequencer.create_stream("s", None, NOW)
    with pytest.raises(UnavailableError):
        sequencer.delete_stream("s", NOW)
    with pytest.raises(UnavailableError):
        sequencer.seal(NOW)
    assert sequencer.expire(StreamId(1), 1) is None
    assert sequencer.purge(StreamId(1)) is None


def test_sealed_basin_refuses_all_and_needs_no_second_seal() -> None:
    """Housekeeping finds nothing to do there, users get 409."""
    leader = with_stream()
    leader.append("s", 3)
    sequencer = leader.sequencer
    leader.run(sequencer.seal(NOW))
    with pytest.raises(BasinDeletionPendingError):
        sequencer.create_stream("t", None, NOW)
    with pytest.raises(BasinDeletionPendingError):
        sequencer.delete_stream("s", NOW)
    assert sequencer.seal(NOW) is None
    assert sequencer.expire(StreamId(1), 2) is None
    assert sequencer.purge(StreamId(1)) is None
    assert sequencer.bootstrap(BASIN, BasinConfig(), MS(1)) is None


# -- streams


def test_stream_config_is_resolved_against_the_basins_default() -> None:
    """Own member, else the basin's, else the system's; the cipher is the basin's."""
    default = PartialStreamConfig(storage_class="express", retention=Retention(None))
    leader = Leader(BasinConfig(default, stream_cipher="aegis-256"))
    own = PartialStreamConfig(retention=Retention(60), timestamping_uncapped=True)
    stream = leader.create("s", own)
    assert stream.config == StreamConfig(
        "express", Retention(60), TimestampingMode.CLIENT_PREFER, True, 0
    )
    assert stream.cipher == "aegis-256"
    assert leader.create("t").config.retention == Retention(None)


def test_name_is_taken_until_the_stream_is_purged() -> None:
    """Existing, deleting, gone: also while all of that is in flight."""
    leader = Leader()
    sequencer = leader.sequencer
    create = sequencer.create_stream("s", None, NOW)
    assert create is not None
    with pytest.raises(AlreadyExistsError):
        sequencer.create_stream("s", None, NOW)
    delete = sequencer.delete_stream("s", NOW)
    with pytest.raises(StreamDeletionPendingError):
        sequencer.create_stream("s", None, NOW)
    assert sequencer.delete_stream("s", NOW) is None
    purge = sequencer.purge(create.stream_id)
    with pytest.raises(StreamNotFoundError):
        sequencer.delete_stream("s", NOW)
    again = sequencer.create_stream("s", None, NOW)
    assert again is not None
    assert again.stream_id == create.stream_id + 1
    assert reasons(leader.run(create, delete, purge, again)) == [None] * 4


def test_housekeeping_asks_only_for_what_is_left_to_do() -> None:
    """No purge of the living, no expiry of what a trim in flight has taken."""
    leader = with_stream()
    stream_id = leader.stream("s").stream_id
    sequencer = leader.sequencer
    assert sequencer.purge(stream_id) is None
    leader.append("s", 10)
    appended = sequencer.append("s", batch(1, commands=(trim(5),)), None, None, NOW)
    assert sequencer.expire(stream_id, 5) is None
    expire = sequencer.expire(stream_id, 6)
    leader.run(appended, expire)
    assert leader.stream("s").trim_point == 6
    leader.run(sequencer.delete_stream("s", NOW))
    assert sequencer.expire(stream_id, 7) is None
    leader.run(sequencer.purge(stream_id))
    assert sequencer.purge(stream_id) is None


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 513])
def test_name_that_is_none_is_refused(name: str) -> None:
    """The edge checks names; one that slips through costs no assertion."""
    with pytest.raises(InvalidError):
        Leader().sequencer.create_stream(name, None, NOW)


# -- speculation


def test_conditions_are_judged_by_what_is_in_flight() -> None:
    """Tail, token and last timestamp of appends that are not even proposed."""
    leader = with_stream()
    sequencer = leader.sequencer
    first = sequencer.append("s", batch(timestamps=[500], commands=(fence("t"),)), 0, "", NOW)
    with pytest.raises(SeqNumMismatchError):
        sequencer.append("s", batch(), 0, None, NOW)
    with pytest.raises(FencingTokenMismatchError):
        sequencer.append("s", batch(), 1, "", NOW)
    second = sequencer.append("s", batch(timestamps=[400]), 1, "t", NOW)
    assert second.placement.base_timestamp_ms == second.placement.last_timestamp_ms == 500
    assert reasons(leader.run(first, second)) == [None, None]


def test_reset_drops_everything_not_applied() -> None:
    """Leadership is lost and the proposals with it."""
    leader = with_stream()
    leader.append("s", 2)
    sequencer = leader.sequencer
    sequencer.append("s", batch(1, commands=(fence("t"), trim(1))), None, None, NOW)
    sequencer.create_stream("t", None, NOW)
    sequencer.proposed(LogIndex(9))
    sequencer.create_stream("u", None, NOW)
    sequencer.delete_stream("s", NOW)
    sequencer.seal(NOW)
    sequencer.reset()
    assert not sequencer._touched_at
    assert leader.append("s", match=2, token="").start.seq_num == 2
    assert leader.create("t").stream_id == 2


def test_overlay_holds_what_is_in_flight_and_no_more() -> None:
    """Each applied entry frees what no later command has touched."""
    leader = Leader()
    for name in "abc":
        leader.create(name)
    sequencer = leader.sequencer
    entries = []
    for number, name in enumerate(["a", "b", "a", "c"]):
        entries.append(sequencer.append(name, batch(), None, None, NOW))
        sequencer.proposed(LogIndex(5 + number))
    assert len(sequencer._touched_at) == 3
    held = []
    for number, command in enumerate(entries):
        assert reasons(leader.apply([command])) == [None]
        sequencer.applied(LogIndex(5 + number))
        held.append(len(sequencer._touched_at))
    assert held == [3, 2, 1, 0]
    assert leader.append("a", match=2).start.seq_num == 2


def test_command_not_yet_proposed_outlives_what_is_applied() -> None:
    """The older entry on the same stream does not take the newer change along."""
    leader = with_stream()
    sequencer = leader.sequencer
    first = sequencer.append("s", batch(), None, None, NOW)
    sequencer.proposed(LogIndex(3))
    second = sequencer.append("s", batch(), None, None, NOW)
    leader.apply([first])
    sequencer.applied(LogIndex(3))
    with pytest.raises(SeqNumMismatchError) as match:
        sequencer.append("s", batch(), 1, None, NOW)
    assert match.value.tail_seq_num == 2
    assert reasons(leader.run(second)) == [None]


def test_ack_names_the_first_records_own_timestamp() -> None:
    """Start is the first record, end lies behind the last."""
    leader = with_stream()
    ack = leader.append("s", batch(timestamps=[10, 30, 20]), now_ms=100)
    assert (ack.start.seq_num, ack.start.timestamp_ms) == (0, 10)
    assert (ack.end.seq_num, ack.end.timestamp_ms) == (3, 30)
    assert ack.tail == ack.end
