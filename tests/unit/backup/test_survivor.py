"""What is found in one directory that is left: how far its logs go, their seals, and damage."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from svc_cluster.backup.backup_errors import BackupError
from svc_cluster.backup.row_holes import UnreadableStateError
from svc_cluster.backup.surviving import SurvivingReplica
from svc_cluster.backup.survivor import Survivor
from svc_cluster.base.configuration import TERM_BITS, Configuration, GroupMember
from svc_cluster.base.ids import CATALOG_GROUP, Generation, GroupId, LogIndex, NodeId, ReplicaId
from svc_cluster.base.ids import Term as T
from svc_cluster.base.log_ops import AppendEntries, Configure, CreateReplica, LogEntry, LogOp
from svc_cluster.raft.seal import GroupSeal, encode_seal
from svc_cluster.stream import keys, rows
from svc_cluster.stream.rows import AppliedRow
from tests.unit.backup.left_directory import Rows, leave, noops, tear

GROUP, GENERATION = GroupId(5), 9
LATER = 1 << TERM_BITS
NEXT = tuple(GroupMember(NodeId(node), ReplicaId(node)) for node in (1, 2, 4))
SEAL = AppendEntries((LogEntry(LogIndex(5), T(3), encode_seal(GroupSeal(77, NEXT))),))
CREATED = CreateReplica(Generation(GENERATION))
FILLED = {b"\xf0%06d" % number: b"x" * 100 for number in range(2_000)}


def found(
    place: Path, ops: Sequence[LogOp], state: Mapping[int, Rows] | None = None
) -> tuple[SurvivingReplica, int]:
    """What is left of the group in a directory with this log, and what is applied of it."""

    async def main() -> tuple[SurvivingReplica, int]:
        await leave(place, 1, {GROUP: ops}, rows=state)
        survivor = await Survivor.open(place, place)
        try:
            group = survivor.groups[GROUP]
            return group.replica, group.machine.applied_index
        finally:
            await survivor.close()

    return asyncio.run(main())


def test_entries_behind_a_seal_that_is_over_are_applied(tmp_path: Path) -> None:
    """A node that is killed just behind a move has the seal in its log, and the next ones' entries
    behind it, which are acknowledged."""
    begun = Configuration(1, NEXT, LogIndex(5), T(3))
    last = noops(6, 10, LATER + 1)
    ops: list[LogOp] = [CREATED, noops(1, 4, 3), SEAL, Configure(begun, LogIndex(5)), last]
    replica, applied = found(tmp_path / "n1", ops)
    assert (replica.last_term, replica.last_index) == (LATER + 1, 15)
    assert applied == 15
    assert not replica.is_sealed
    assert replica.members == (1, 2, 4)


def test_a_seal_ends_what_is_applied_and_not_what_elections_go_by(tmp_path: Path) -> None:
    """No-ops may stand behind it, of later terms; it is applied as they would be."""
    replica, applied = found(tmp_path / "n1", [CREATED, noops(1, 4, 3), SEAL, noops(6, 1, 8)])
    assert replica.is_sealed
    assert applied == 5
    assert (replica.last_term, replica.last_index) == (8, 6)


def test_a_seal_that_is_applied_already_is_one(tmp_path: Path) -> None:
    """The node stopped between the applied seal and the next configuration's beginning."""
    applied_row = rows.encode_applied(AppliedRow(LogIndex(5), T(3), 0))
    state = {GENERATION: {keys.APPLIED_KEY: applied_row}}
    replica, applied = found(tmp_path / "n1", [CREATED, noops(1, 4, 3), SEAL], state)
    assert (replica.is_sealed, replica.is_whole, applied) == (True, True, 5)


def left(place: Path, state: Mapping[int, Rows] | None = None) -> None:
    """A directory whose catalog has four entries."""
    ops: list[LogOp] = [CreateReplica(Generation(1)), noops(1, 4, 3)]
    asyncio.run(leave(place, 1, {CATALOG_GROUP: ops}, rows=state))


def opened(place: Path) -> tuple[dict[GroupId, bool], set[GroupId]]:
    """Which replicas are here, and whole; which cannot be read."""

    async def main() -> tuple[dict[GroupId, bool], set[GroupId]]:
        survivor = await Survivor.open(place, place)
        try:
            whole = {group: found.replica.is_whole for group, found in survivor.groups.items()}
            return whole, set(survivor.unreadable)
        finally:
            await survivor.close()

    return asyncio.run(main())


def test_replicas_of_a_whole_directory_are_whole(tmp_path: Path) -> None:
    left(tmp_path / "n1")
    assert opened(tmp_path / "n1") == ({CATALOG_GROUP: True}, set())


def test_replicas_beside_the_mark_of_damage_are_not_whole(tmp_path: Path) -> None:
    left(tmp_path / "n1")
    (tmp_path / "n1" / "state.damaged").write_text("as exit_damaged does")
    assert opened(tmp_path / "n1") == ({CATALOG_GROUP: False}, set())


def test_replicas_of_a_store_that_cannot_be_opened_cannot_be_read(tmp_path: Path) -> None:
    left(tmp_path / "n1")
    (tmp_path / "n1" / "state" / "CURRENT").unlink()
    assert opened(tmp_path / "n1") == ({}, {CATALOG_GROUP})


def test_a_replica_with_a_damaged_block_cannot_be_read(tmp_path: Path) -> None:
    """The process goes on, so that the replica of another directory is taken."""
    left(tmp_path / "n1", {1: FILLED})
    tear(tmp_path / "n1")
    assert opened(tmp_path / "n1") == ({}, {CATALOG_GROUP})


def test_damage_that_is_met_late_names_the_directory(tmp_path: Path) -> None:
    """What was read once may be gone when the backup is made."""

    async def main() -> None:
        state = {GENERATION: FILLED}
        place = tmp_path / "n1"
        await leave(place, 1, {GROUP: [CREATED, noops(1, 4, 3)]}, rows=state)
        survivor = await Survivor.open(place, tmp_path / "named")
        try:
            tear(place)
            reader = survivor.groups[GROUP].reader
            with pytest.raises(UnreadableStateError, match=r"named.*leave this directory out"):
                list(reader.scan(b"", b"\xff\xff"))
        finally:
            await survivor.close()

    asyncio.run(main())


def test_a_note_of_another_release_is_told_with_its_directory(tmp_path: Path) -> None:
    left(tmp_path / "n1")
    (tmp_path / "n1" / "state.harmed").write_text("7 11\n")
    with pytest.raises(BackupError, match="n1: "):
        opened(tmp_path / "n1")
