"""Apply: effects, rejections, write sets and digests."""

from __future__ import annotations

import pytest

from svc_cluster.base.ids import LogIndex, StreamId, Term, TimestampMs
from svc_cluster.model.record import AppendAck, Position, SequencedBatch
from svc_cluster.model.stream_config import BasinConfig, StreamConfig
from svc_cluster.stream import apply, keys
from svc_cluster.stream.apply import Applied, Rejected
from svc_cluster.stream.basin_usage import stored_metered_bytes
from svc_cluster.stream.commands import (
    BasinCommand,
    Bootstrap,
    CreateStream,
    DeleteStream,
    ExpirePrefix,
    PurgeStream,
    Seal,
)
from svc_cluster.stream.effects import RejectionReason
from tests.at_once import decode_batch
from tests.unit.stream.support import (
    BASIN,
    Leader,
    Replica,
    append_command,
    batch,
    fence,
    placement,
    reasons,
    trim,
)

MS = TimestampMs
BOOTSTRAP = Bootstrap(BASIN, BasinConfig(), MS(1))


def create(stream_id: int = 1, name: str = "s") -> CreateStream:
    return CreateStream(StreamId(stream_id), name, StreamConfig(), MS(5))


def ready() -> Replica:
    """A basin with one stream `s` of two records, timestamps 50."""
    replica = Replica()
    replica.apply([BOOTSTRAP, create()])
    planned = replica.apply([append_command(1, placement(0, 2, last=50))])
    assert reasons(planned) == [None]
    return replica


def batch_count(replica: Replica) -> int:
    return sum(key[:1] == b"\x04" for key in replica.store.values)


# -- the entry as a whole


def test_no_op_moves_the_applied_index_and_nothing_else() -> None:
    """An entry of the engine's own."""
    replica = ready()
    before = dict(replica.store.values)
    planned = replica.apply([])
    assert planned.outcomes == []
    assert planned.events == {}
    assert len(planned.write_set) == 1
    assert replica.state.applied_index == 3
    del before[keys.APPLIED_KEY]
    assert before.items() <= replica.store.values.items()


def test_entry_that_cannot_be_decoded_is_rejected_and_the_log_goes_on() -> None:
    """Poison: no effect but the index."""
    replica = ready()
    planned = replica.apply(None)
    assert planned.outcomes == [Rejected(RejectionReason.UNDECODABLE)]
    assert len(planned.write_set) == 1
    assert replica.state.applied_index == 3


def test_plan_changes_nothing_until_it_is_committed() -> None:
    """The host may write again after a stall, or plan anew."""
    replica = ready()
    stored, digest = dict(replica.store.values), replica.state.digest
    commands: list[BasinCommand] = [
        create(2, "other"),
        append_command(2),
        DeleteStream(StreamId(1), MS(9)),
    ]
    first = apply.plan(replica.state, LogIndex(3), Term(2), commands)
    assert replica.store.values == stored
    assert (replica.state.applied_index, replica.state.digest) == (2, digest)
    assert replica.state.stream_by_name("other") is None
    assert replica.state.stream(StreamId(1)).deleted_at_ms is None  # type: ignore[union-attr]
    second = apply.plan(replica.state, LogIndex(3), Term(2), commands)
    assert second.write_set.ops == first.write_set.ops
    replica.store.write(second.write_set)
    apply.commit(replica.state, second)
    assert (replica.state.applied_index, replica.state.applied_term) == (3, 2)
    assert replica.state.stream(StreamId(1)).deleted_at_ms == 9  # type: ignore[union-attr]


@pytest.mark.parametrize("log_index", [2, 4])
def test_entry_out_of_order_is_a_bug_of_the_caller(log_index: int) -> None:
    """Neither twice nor with a gap."""
    with pytest.raises(AssertionError):
        apply.plan(ready().state, LogIndex(log_index), Term(1), [])


def test_state_is_the_same_after_a_restart() -> None:
    """All of it is in the store."""
    replica = ready()
    replica.apply([append_command(1, placement(2, 3, base=50, last=60), commands=(fence("f"),))])
    old = replica.state
    replica.restart()
    new = replica.state
    assert (new.applied_index, new.applied_term) == (old.applied_index, old.applied_term)
    assert (new.digest, new.basin) == (old.digest, old.basin)
    assert new.stream_by_name("s") == old.stream_by_name("s")
    assert old.stream_by_name("s") is not None


def test_digest_depends_on_history_content_and_place() -> None:
    """What differs anywhere differs in the digest from there on."""
    one, two, three = ready(), ready(), ready()
    assert one.state.digest == two.state.digest != 0
    one.apply([append_command(1, placement(2, 1, base=50, last=60))])
    two.apply([append_command(1, placement(2, 1, base=50, last=61))])
    three.apply([])
    assert len({one.state.digest, two.state.digest, three.state.digest}) == 3
    one.apply([])
    three.apply([append_command(1, placement(2, 1, base=50, last=60))])
    assert one.state.applied_index == three.state.applied_index
    assert one.state.digest != three.state.digest


def test_digest_depends_on_the_term() -> None:
    """Two no-ops at one index are two different logs."""
    one, two = ready(), ready()
    one.apply([], Term(2))
    two.apply([], Term(3))
    assert one.state.digest != two.state.digest


def test_commands_of_one_entry_see_each_others_effects() -> None:
    """Bootstrap, create, append twice, fence and delete in one entry."""
    replica = Replica()
    planned = replica.apply(
        [
            BOOTSTRAP,
            create(),
            append_command(1, placement(0, 2, last=50), commands=(fence("a"),)),
            append_command(1, placement(2, 1, base=50, last=50), token="b"),
            append_command(1, placement(2, 1, base=50, last=50), token="a"),
            DeleteStream(StreamId(1), MS(7)),
            append_command(1, placement(3, 1, base=50, last=50)),
        ]
    )
    assert reasons(planned) == [
        None, None, None, RejectionReason.WRONG_FENCING_TOKEN,
        None, None, RejectionReason.STREAM_DELETING,
    ]  # fmt: skip
    event = planned.events[StreamId(1)]
    assert (event.created, event.deleted, event.purged) == (True, True, False)
    assert event.tail == Position(3, 50)  # type: ignore[arg-type]
    assert [b.placement.first_seq_num for b in event.batches] == [0, 2]


def test_state_of_a_stream_is_written_once_an_entry() -> None:
    """However many appends the entry has."""
    replica = ready()
    planned = replica.apply(
        [append_command(1, placement(2 + n, 1, base=50, last=50)) for n in range(20)]
    )
    written = [key for key, _, _ in planned.write_set.ops]
    assert written.count(keys.stream_key(StreamId(1))) == 1
    assert len(written) == 22


# -- appends


def test_append_stores_the_batch_and_moves_the_tail() -> None:
    """Ack, event, state and store agree."""
    replica = ready()
    place = placement(2, 3, base=50, last=70, arrival=99, metered_bytes=30)
    planned = replica.apply([append_command(1, place, start=60)])
    end = Position(5, 70)  # type: ignore[arg-type]
    assert planned.outcomes == [Applied(AppendAck(Position(2, 60), end, end))]  # type: ignore[arg-type]
    stream = replica.state.stream(StreamId(1))
    assert stream is not None
    assert (stream.tail, stream.last_arrival_ms, stream.metered_bytes_appended) == (end, 99, 39)
    stored = decode_batch(replica.store.values[keys.batch_key(StreamId(1), 4)])
    assert stored == SequencedBatch(place, b"rrr")
    assert planned.events[StreamId(1)].batches == [stored]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (append_command(2, placement(2, base=50, last=50)), RejectionReason.NO_SUCH_STREAM),
        (append_command(1, placement(1, base=50, last=50)), RejectionReason.WRONG_FIRST_SEQ_NUM),
        (append_command(1, placement(3, base=50, last=50)), RejectionReason.WRONG_FIRST_SEQ_NUM),
        (append_command(1, placement(2, base=49, last=50)), RejectionReason.WRONG_BASE_TIMESTAMP),
        (append_command(1, placement(2, base=51, last=51)), RejectionReason.WRONG_BASE_TIMESTAMP),
        (append_command(1, placement(2, base=50, last=49)), RejectionReason.MALFORMED),
        (append_command(1, placement(2, base=50, last=60), start=49), RejectionReason.MALFORMED),
        (append_command(1, placement(2, base=50, last=60), start=61), RejectionReason.MALFORMED),
        (append_command(1, placement(2, 0, base=50, last=50)), RejectionReason.MALFORMED),
        (append_command(1, placement(2, 2**64, base=50, last=50)), RejectionReason.MALFORMED),
        (
            append_command(1, placement(2, base=50, last=50, metered_bytes=2**64)),
            RejectionReason.MALFORMED,
        ),
        (
            append_command(1, placement(2, base=50, last=50), commands=(trim(9, offset=1),)),
            RejectionReason.MALFORMED,
        ),
        (
            append_command(1, placement(2, base=50, last=50), match=1),
            RejectionReason.WRONG_MATCH_SEQ_NUM,
        ),
        (
            append_command(1, placement(2, base=50, last=50), token="x"),
            RejectionReason.WRONG_FENCING_TOKEN,
        ),
        (
            append_command(1, placement(2, base=50, last=50), token="x", match=1),
            RejectionReason.WRONG_FENCING_TOKEN,
        ),
        (CreateStream(StreamId(1), "t", StreamConfig(), MS(1)), RejectionReason.WRONG_STREAM_ID),
        (CreateStream(StreamId(3), "t", StreamConfig(), MS(1)), RejectionReason.WRONG_STREAM_ID),
        (CreateStream(StreamId(2), "s", StreamConfig(), MS(1)), RejectionReason.NAME_TAKEN),
        (CreateStream(StreamId(2), "", StreamConfig(), MS(1)), RejectionReason.MALFORMED),
        (CreateStream(StreamId(2), "..", StreamConfig(), MS(1)), RejectionReason.MALFORMED),
        (ExpirePrefix(StreamId(1), 3), RejectionReason.TRIM_BEYOND_TAIL),
        (ExpirePrefix(StreamId(2), 0), RejectionReason.NO_SUCH_STREAM),
        (DeleteStream(StreamId(2), MS(1)), RejectionReason.NO_SUCH_STREAM),
        (PurgeStream(StreamId(1)), RejectionReason.STREAM_NOT_DELETING),
        (PurgeStream(StreamId(2)), RejectionReason.NO_SUCH_STREAM),
        (BOOTSTRAP, RejectionReason.ALREADY_BOOTSTRAPPED),
    ],
)
def test_broken_promise_is_rejected_without_effect(
    command: BasinCommand, reason: RejectionReason
) -> None:
    """Apply trusts no leader."""
    replica = ready()
    before = dict(replica.store.values)
    planned = replica.apply([command])
    assert reasons(planned) == [reason]
    assert planned.events == {}
    del before[keys.APPLIED_KEY]
    after = dict(replica.store.values)
    del after[keys.APPLIED_KEY]
    assert after == before


@pytest.mark.parametrize(
    "command",
    [
        create(),
        append_command(),
        Seal(MS(1)),
        ExpirePrefix(StreamId(1), 0),
        PurgeStream(StreamId(1)),
    ],
)
def test_nothing_happens_before_the_bootstrap(command: BasinCommand) -> None:
    """A replica that has not heard of its basin."""
    assert reasons(Replica().apply([command])) == [RejectionReason.NOT_BOOTSTRAPPED]


@pytest.mark.parametrize(
    "command",
    [
        create(2, "t"),
        append_command(1, placement(2, base=50, last=50)),
        Seal(MS(1)),
        BOOTSTRAP,
        ExpirePrefix(StreamId(1), 1),
        DeleteStream(StreamId(1), MS(1)),
        PurgeStream(StreamId(1)),
    ],
)
def test_everything_after_the_seal_is_rejected(command: BasinCommand) -> None:
    """In the same entry and in later ones."""
    replica = ready()
    planned = replica.apply([Seal(MS(8)), command])
    assert planned.sealed
    assert reasons(planned) == [None, RejectionReason.SEALED]
    assert replica.state.sealed
    assert reasons(replica.apply([command])) == [RejectionReason.SEALED]
    replica.restart()
    assert replica.state.sealed


# -- trims


def test_trim_keeps_a_batch_that_it_cuts_and_removes_those_below() -> None:
    """Whole batches go with the entry that trims."""
    leader = Leader()
    leader.create("s")
    for _ in range(3):
        leader.append("s", 4)
    leader.append("s", batch(1, commands=(trim(6),)))
    assert leader.stream("s").trim_point == 6
    assert [key[-1] for key in leader.store.values if key[:1] == b"\x04"] == [7, 11, 12]


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ([(0, 3)], 3),
        ([(0, 100)], 11),
        ([(2, 2**64 - 1)], 13),
        ([(0, 3), (1, 2)], 3),
        ([(0, 2), (1, 3)], 3),
        ([(0, 0)], 0),
        ([(2, 12)], 12),
    ],
)
def test_trim_point_is_clamped_behind_its_own_record(
    requests: list[tuple[int, int]], expected: int
) -> None:
    """At most the trim record itself goes, and never backwards."""
    leader = Leader()
    leader.create("s")
    leader.append("s", 10)
    commands = tuple(trim(point, offset) for offset, point in requests)
    leader.append("s", batch(3, commands=commands))
    assert leader.stream("s").trim_point == expected


def test_trim_of_everything_keeps_the_tail() -> None:
    """Sequence numbers never restart."""
    leader = Leader()
    leader.create("s")
    leader.append("s", 10)
    ack = leader.append("s", batch(1, commands=(trim(2**64 - 1),)))
    assert batch_count(leader) == 0
    assert stored_metered_bytes(leader.store, leader.stream("s")) == 0
    assert leader.stream("s").tail == ack.end
    assert leader.append("s").start.seq_num == 11
    assert stored_metered_bytes(leader.store, leader.stream("s")) == 9


def test_trim_of_an_earlier_batch_in_the_entry_leaves_the_later_ones() -> None:
    """The range delete does not reach what the same entry writes behind it."""
    leader = Leader()
    leader.create("s")
    appends = [
        leader.sequencer.append("s", given, None, None, MS(1))
        for given in (batch(2), batch(1, commands=(trim(99),)), batch(2))
    ]
    assert reasons(leader.run(*appends)) == [None] * 3
    assert [key[-1] for key in leader.store.values if key[:1] == b"\x04"] == [4]


def test_expiry_moves_the_trim_point_and_is_no_error_when_late() -> None:
    """Retention lost a race against a trim: nothing to do."""
    replica = ready()
    assert reasons(replica.apply([ExpirePrefix(StreamId(1), 2)])) == [None]
    assert batch_count(replica) == 0
    planned = replica.apply([ExpirePrefix(StreamId(1), 1)])
    assert reasons(planned) == [None]
    assert len(planned.write_set) == 1
    stream = replica.state.stream(StreamId(1))
    assert stream is not None
    assert (stream.trim_point, stream.tail_seq_num) == (2, 2)


# -- fences


def test_fence_takes_effect_behind_its_own_batch_and_in_order() -> None:
    """Its own conditions are checked against the token before it; the last of a batch stands."""
    leader = Leader()
    leader.create("s")
    leader.append("s", batch(2, commands=(fence("a"), fence("b", 1))), token="")
    assert leader.stream("s").fencing_token == "b"
    leader.append("s", batch(1, commands=(fence(""),)), token="b")
    assert leader.stream("s").fencing_token == ""
    leader.append("s", token="")


# -- deletion


def test_deleted_stream_is_listed_until_it_is_purged() -> None:
    """And then nothing of it is left but the next id."""
    replica = ready()
    planned = replica.apply([DeleteStream(StreamId(1), MS(77))])
    assert planned.events[StreamId(1)].deleted
    page, _ = replica.state.list_streams("", "", 10)
    assert [(entry.name, entry.deleted_at_ms) for entry in page] == [("s", 77)]
    assert reasons(replica.apply([DeleteStream(StreamId(1), MS(78))])) == [
        RejectionReason.STREAM_DELETING
    ]
    planned = replica.apply([PurgeStream(StreamId(1))])
    assert planned.events[StreamId(1)].purged
    assert set(replica.store.values) == {keys.APPLIED_KEY, keys.BASIN_KEY}
    assert replica.state.list_streams("", "", 10) == ([], False)
    assert replica.state.stream_by_name("s") is None


def test_name_used_again_starts_clean() -> None:
    """No records, token or trim point of the stream before, even within one entry."""
    leader = Leader()
    leader.create("s")
    leader.append("s", batch(3, commands=(fence("x"), trim(2, 1))))
    old = leader.stream("s")
    sequencer = leader.sequencer
    leader.run(
        sequencer.delete_stream("s", MS(5)),
        sequencer.purge(old.stream_id),
        sequencer.create_stream("s", None, MS(6)),
        sequencer.append("s", batch(1), 0, "", MS(7)),
    )
    new = leader.stream("s")
    assert new.stream_id == old.stream_id + 1
    assert (new.tail_seq_num, new.trim_point, new.fencing_token) == (1, 0, "")
    assert batch_count(leader) == 1
    leader.restart()
    assert leader.state.stream_by_name("s") == new
