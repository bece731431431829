"""What a request may put into an entry of the log, and how several share one."""

from __future__ import annotations

import pytest

from svc_cluster.base.clock import SystemClock
from svc_cluster.base.errors import InvalidError, ServiceError
from svc_cluster.base.ids import TimestampMs
from svc_cluster.codec.log_entry import encode_command, join_commands
from svc_cluster.model.stream_config import NewStream
from svc_cluster.raft.group import ENTRY_BYTES_MAX
from svc_cluster.replica import proposer
from svc_cluster.replica.append import COMMAND_BYTES
from svc_cluster.replica.proposer import ENTRY_BYTES_TARGET
from svc_cluster.stream import provision_rules
from svc_cluster.stream.commands import BasinCommand
from tests.unit.replica.leading import FAR, STREAM, Answer, Rig, played
from tests.unit.stream.support import batch

Told = list[tuple[object, ServiceError | None]]


def _append(rig: Rig, byte_count: int) -> list[Answer]:
    answers: list[Answer] = []
    rig.replica.appender.append(
        STREAM,
        batch(records=bytes(byte_count)),
        None,
        None,
        FAR,
        lambda ack, error: answers.append((ack, error)),
    )
    return answers


def _create(rig: Rig, name: str, byte_count: int) -> Told:
    """Ask for a stream, by a command of more bytes than are said."""
    told: Told = []
    sequencer = rig.replica.sequencer

    def sequence(now_ms: TimestampMs) -> BasinCommand | None:
        new = NewStream(None)
        return sequencer.decide(
            lambda view: provision_rules.create_stream(view, name, new, bytes(byte_count), now_ms)
        )

    rig.replica.appender.change(sequence, FAR, lambda *one: told.append(one), COMMAND_BYTES)
    return told


async def _committed(rig: Rig) -> None:
    for _ in range(4):
        await rig.settle()
        await rig.answer()


def test_an_append_larger_than_an_entry_harms_no_other() -> None:
    """It is refused without effect; what stands before and behind it in the queue is acknowledged,
    one behind the other, and the group still leads."""

    async def body(rig: Rig) -> None:
        first, large, second = rig.submit(), _append(rig, 2_900_000), rig.submit()
        await _committed(rig)
        [(nothing, refusal)] = large
        assert nothing is None
        assert isinstance(refusal, InvalidError) and not refusal.may_have_taken_effect
        acks = [told[0][0] for told in (first, second)]
        assert [ack and (ack.start.seq_num, ack.end.seq_num) for ack in acks] == [(0, 1), (1, 2)]
        assert rig.group.is_serving and not rig.group.fault

    played(body)


def test_a_change_larger_than_an_entry_leaves_nothing() -> None:
    """The stream is not there behind the refusal, its name is free, and the group goes on."""

    async def body(rig: Rig) -> None:
        large = _create(rig, "wanted", 2_600_000)
        await _committed(rig)
        [(nothing, refusal)] = large
        assert nothing is None
        assert isinstance(refusal, InvalidError) and not refusal.may_have_taken_effect
        assert rig.replica.state.stream_by_name("wanted") is None
        again = _create(rig, "wanted", 32)
        await _committed(rig)
        assert [error for _, error in again] == [None]
        assert rig.replica.state.stream_by_name("wanted") is not None
        assert rig.group.is_serving and not rig.group.fault

    played(body)


@pytest.mark.parametrize("byte_count", [ENTRY_BYTES_TARGET - 100, ENTRY_BYTES_TARGET + 100])
def test_commands_that_do_not_fit_together_have_an_entry_each(byte_count: int) -> None:
    """Each has more bytes than its request said. All are done, in their order, none twice."""

    async def body(rig: Rig) -> None:
        before = rig.group.engine.last_index
        told = [_create(rig, f"large{number}", byte_count) for number in range(3)]
        told.append(_create(rig, "small", 32))
        for _ in range(4):
            await _committed(rig)
        assert [[error for _, error in one] for one in told] == [[None]] * 4
        found = [rig.replica.state.stream_by_name(f"large{number}") for number in range(3)]
        ids = [stream.stream_id for stream in found if stream is not None]
        assert len(ids) == 3 and ids == sorted(ids)
        assert rig.group.engine.last_index - before in (3, 4)
        assert rig.group.is_serving and not rig.group.fault

    played(body)


def test_the_bound_is_that_of_the_whole_entry() -> None:
    """An append whose entry has just ENTRY_BYTES_MAX is acknowledged; one byte more is refused."""

    async def body(rig: Rig) -> None:
        made = rig.replica.sequencer.append(
            STREAM, batch(records=bytes(2_100_000)), None, None, SystemClock().wall_ms()
        )
        rig.replica.sequencer.reset()
        beside = len(join_commands([encode_command(made)])) - 2_100_000
        fitting = _append(rig, ENTRY_BYTES_MAX - beside)
        await _committed(rig)
        over = _append(rig, ENTRY_BYTES_MAX - beside + 1)
        await _committed(rig)
        assert [error for _, error in fitting] == [None]
        assert [type(error) for _, error in over] == [InvalidError]
        assert rig.group.is_serving and not rig.group.fault

    played(body)


def test_the_group_itself_takes_no_larger_entry() -> None:
    """Whoever proposes past the queue hears the same, and the group goes on."""

    async def body(rig: Rig) -> None:
        before = rig.group.engine.last_index
        with pytest.raises(InvalidError):
            rig.group.propose(bytes(ENTRY_BYTES_MAX + 1), FAR, lambda plan, error: None)
        assert rig.group.engine.last_index == before
        assert rig.group.is_serving and not rig.group.fault

    played(body)


def test_an_entry_takes_a_command_however_small_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of some appends has an entry of its own, and all are acknowledged."""
    monkeypatch.setattr(proposer, "ENTRY_BYTES_TARGET", 1)

    async def body(rig: Rig) -> None:
        before = rig.group.engine.last_index
        answers = [rig.submit() for _ in range(3)]
        for _ in range(3):
            await _committed(rig)
        assert [[error for _, error in one] for one in answers] == [[None]] * 3
        assert rig.group.engine.last_index == before + 3

    played(body)
