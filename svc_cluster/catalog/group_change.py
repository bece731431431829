"""A change of a group's members: what the catalog keeps of one that is open, and what moves it.

The catalog orders a change, lets the group's leader seal, and records what that has sealed. What a
group's members are is decided by the group's own log alone (raft/README.md); the row follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from svc_cluster.base.configuration import GroupMember, Members
from svc_cluster.base.ids import CATALOG_GROUP, GroupId, NodeId, ReplicaId, Term, TimestampMs
from svc_cluster.base.key_reader import KeyReader
from svc_cluster.base.write_set import WriteSet

PLACEMENTS: Final = b"\x05"
"""The row is absent until the first change."""

FIRST_PLACEMENT: Final = 2**32
"""Above the ids of all nodes, which are those of the replicas that a group is created with."""

REASON_BYTES_MAX: Final = 200
"""The reason that is kept with a change has so many at most."""


@dataclass(frozen=True, slots=True)
class BeginChange:
    """The group is to have its replicas on these nodes, the preferred leader first. It has no
    effect unless `configuration` is the group's and no other change is open."""

    group_id: GroupId
    configuration: int
    replicas: tuple[NodeId, ...]
    reason: str
    present: tuple[NodeId, ...] = ()
    """The members that the catalog's own group has, which no row says before its first change."""


@dataclass(frozen=True, slots=True)
class CancelChange:
    """Give a change up. `term` 0: an operator wishes it. Else the group's leader of that term says
    that no seal of this change is in the group's log and that it makes none."""

    group_id: GroupId
    change_id: int
    term: Term = Term(0)


@dataclass(frozen=True, slots=True)
class AllowSeal:
    """The group's leader of this term asks for leave to seal. Nobody seals without, and behind it
    an operator's wish alone does not give the change up."""

    group_id: GroupId
    change_id: int
    term: Term


@dataclass(frozen=True, slots=True)
class Configured:
    """The leader of `configuration` says that its first entry in it is committed. So a quorum of it
    holds all that was decided before."""

    group_id: GroupId
    configuration: int
    change_id: int


ChangeCommand = BeginChange | CancelChange | AllowSeal | Configured


@dataclass(frozen=True, slots=True)
class GroupChange:
    """It is a change of members that is open. `replica_ids` are of the `replicas`, in order."""

    change_id: int
    replicas: tuple[NodeId, ...]
    replica_ids: tuple[ReplicaId, ...]
    reason: str
    sealing_term: Term = Term(0)
    """The newest term whose leader may seal; 0: nobody may yet."""
    is_cancelled: bool = False
    """An operator wishes it given up, and nobody gets leave to seal any more."""


class GroupRow:
    """What a row says of a group's members, whichever group it is."""

    __slots__ = ()

    group_id: GroupId
    replicas: tuple[NodeId, ...]
    configuration: int
    """The newest of the group's configurations that the catalog knows to have begun."""
    replica_ids: tuple[ReplicaId, ...]
    """They are of the `replicas`, in their order; empty: each has its node's number."""
    change: GroupChange | None
    """The open change of the group's members."""
    deleted_at_ms: TimestampMs | None

    def is_on(self, node_id: NodeId) -> bool:
        """Whether a replica of the group belongs on the node, or is to."""
        change = self.change
        return node_id in self.replicas or (change is not None and node_id in change.replicas)

    @property
    def placements(self) -> tuple[ReplicaId, ...]:
        """The replica ids of the `replicas`, in their order."""
        return self.replica_ids or tuple(ReplicaId(node) for node in self.replicas)

    @property
    def members(self) -> Members:
        """The members of the group's configuration."""
        return members_of_replicas(self.replicas, self.placements)


def members_of_replicas(
    replicas: tuple[NodeId, ...], replica_ids: tuple[ReplicaId, ...]
) -> Members:
    """The replicas of a row as a configuration has them."""
    return tuple(sorted(map(GroupMember, replicas, replica_ids)))


def beginning(row: GroupRow, replicas: tuple[NodeId, ...], reason: str) -> BeginChange:
    """The command that begins a change of the row's group as it is now."""
    present = row.replicas if row.group_id == CATALOG_GROUP else ()
    return BeginChange(row.group_id, row.configuration, replicas, reason, present)


class Placements:
    """The numbers of changes and of placements, of which none is given out twice."""

    def __init__(self, reader: KeyReader) -> None:
        raw = reader.get(PLACEMENTS)
        self.next: int = FIRST_PLACEMENT if raw is None else msgspec.msgpack.decode(raw, type=int)

    def write(self, write_set: WriteSet, next_one: int) -> None:
        write_set.put(PLACEMENTS, msgspec.msgpack.encode(next_one))

    def commit(self, next_one: int | None) -> None:
        """Take over what has been written to the store; None: nothing was."""
        if next_one is not None:
            self.next = next_one
