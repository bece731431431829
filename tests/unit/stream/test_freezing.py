"""A basin that is frozen refuses appends with the reason, on every replica, until it is thawed."""

from __future__ import annotations

import msgspec
import pytest

from svc_cluster.base.errors import BasinDeletionPendingError, UnavailableError
from svc_cluster.base.ids import TimestampMs
from svc_cluster.codec.entry_since import NotActiveYetError
from svc_cluster.codec.log_entry import check_written
from svc_cluster.model.stream_config import BasinConfig, NewStream
from svc_cluster.stream import rows
from svc_cluster.stream.commands import FreezeBasin
from svc_cluster.stream.effects import RejectionReason
from svc_cluster.stream.provision_rules import auto_create_stream, freeze_basin
from tests.unit.stream.support import NOW, Leader, append_command, batch, reasons

WHY = "the disk is copied"


def freeze(leader: Leader, reason: str) -> None:
    leader.run(leader.sequencer.decide(lambda view: freeze_basin(view, reason)))


def test_appends_are_refused_from_the_command_on_and_taken_again_behind_the_next() -> None:
    """Also before it is applied, by the leader that handed it out; nothing else is refused."""
    leader = Leader()
    leader.create("s")
    leader.append("s", batch())
    command = leader.sequencer.decide(lambda view: freeze_basin(view, WHY))
    assert command == FreezeBasin(WHY)
    with pytest.raises(UnavailableError, match=f"takes no appends: {WHY}"):
        leader.sequencer.append("s", batch(), None, None, NOW)
    leader.run(command)
    with pytest.raises(UnavailableError, match=WHY):
        leader.sequencer.append("s", batch(), None, None, NOW)
    leader.create("t")
    freeze(leader, "")
    leader.append("s", batch())
    assert leader.stream("s").tail_seq_num == 2


def test_no_stream_is_made_for_an_append_that_is_refused() -> None:
    """For a read it is, as ever."""
    leader = Leader(BasinConfig(create_stream_on_append=True, create_stream_on_read=True))
    freeze(leader, WHY)
    view, new = leader.sequencer.view, NewStream(None)
    with pytest.raises(UnavailableError, match=WHY):
        auto_create_stream(view, "s", new, NOW, on_read=False)
    assert auto_create_stream(view, "s", new, NOW, on_read=True) is not None


def test_what_is_said_already_takes_no_command() -> None:
    """Another reason does; a basin that is being deleted is frozen no more."""
    leader = Leader()
    view = leader.sequencer.view
    assert freeze_basin(view, "") is None
    freeze(leader, WHY)
    assert freeze_basin(view, WHY) is None
    assert freeze_basin(view, "other") == FreezeBasin("other")
    leader.run(leader.sequencer.seal(NOW))
    with pytest.raises(BasinDeletionPendingError):
        freeze_basin(view, "")


def test_apply_refuses_what_a_leader_should_have_refused() -> None:
    """The rule holds in the log: an append behind the command has no effect on any replica."""
    leader = Leader()
    leader.create("s")
    command = append_command()
    assert reasons(leader.apply([FreezeBasin(WHY), command])) == [None, RejectionReason.FROZEN]
    assert leader.stream("s").tail_seq_num == 0
    assert reasons(leader.apply([FreezeBasin(""), command])) == [None, None]
    assert leader.stream("s").tail_seq_num == 1


def test_only_the_row_of_a_basin_that_is_frozen_is_wider() -> None:
    """All others are the bytes that releases without it write, and read."""
    head = rows.BasinHead("b", BasinConfig(), TimestampMs(1), frozen=WHY)
    thawed = msgspec.structs.replace(head, frozen="")
    assert [rows.decode_basin(rows.encode_basin(each)) for each in (head, thawed)] == [head, thawed]
    widths = [len(msgspec.msgpack.decode(rows.encode_basin(each))) for each in (thawed, head)]
    assert widths == [8, 9]


def test_it_is_there_behind_a_start() -> None:
    leader = Leader()
    freeze(leader, WHY)
    leader.restart()
    assert leader.state.basin is not None and leader.state.basin.frozen == WHY


def test_the_command_is_written_from_its_version_on() -> None:
    check_written(FreezeBasin(WHY), 3)
    with pytest.raises(NotActiveYetError):
        check_written(FreezeBasin(WHY), 2)
