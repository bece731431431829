"""This is what a cluster begins with: the incarnations of all of its initial nodes. The nodes agree
on these, and each has them on its disk before the first vote is given."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from svc_cluster.base.ids import NodeId
from svc_cluster.model.places import Places, is_incarnation

Members = tuple[tuple[NodeId, str], ...]
"""(node, incarnation of its data directory), each node once, in the order of the ids."""

MEMBERS_MAX: Final = 1024
RESTORED_LENGTH_MAX: Final = 64
"""The id of a restore has so many characters at most."""
ROUND_MAX: Final = 2**62
SEEDS_MAX: Final = 7
SEED_BYTES_MAX: Final = 256


UNKNOWN_HERE: Final = "the catalog here does not name the data directory of this node yet"
"""Why a node that came later is not admitted by one that has not heard of that."""


class Stage(IntEnum):
    """How far a node is. A later stage of the same round is never left for an earlier one."""

    GATHERING = 1
    """It learns who the others are."""
    DRAFTED = 2
    """It has a list on its disk, and does not know yet whether all others have the same."""
    FORMED = 3
    """All initial nodes had this list on their disks; final."""
    EXISTING = 4
    """Its directory has a log of the catalog and no list: from a version that had no formation."""


@dataclass(frozen=True, slots=True)
class Asking:
    """A node that came up with an empty directory asks to take part."""

    incarnation: str
    heard_at: float
    """When that was said last, on the hearer's monotonic clock."""
    is_now: bool
    """It was said a moment ago, and whoever said it is still there."""
    newest: int = 0
    """The newest active version that its program speaks; 0: it does not say."""


@dataclass(frozen=True, slots=True)
class FormationRecord:
    """What a node has on its disk. Being in a round, it never forms a list of an earlier one."""

    round: int = 0
    stage: Stage = Stage.GATHERING
    members: Members = ()
    """The last list that this node drafted, in whichever round; empty: none yet."""
    places: Places = ()
    """The places that were given away, as far as this node knows: lower ordinals are refused."""
    ordinal: int = 0
    """With which this directory itself takes part: above 0 it took the place of another one."""
    restored: str = ""
    """The restore that made this directory, until the cluster is formed; empty: none did."""
    begins_at: int = 0
    """The active version that the cluster begins with, which all of its initial nodes have said to
    speak; 0: the first there was."""
    joined: bool = False
    """The directory came to the cluster later, with a join token: it is none of the members."""
    seeds: tuple[tuple[NodeId, str], ...] = ()
    """Where some of the nodes were when it came: those that it asks until it has the catalog."""

    def has_seed(self, node_id: NodeId) -> bool:
        """Whether the directory came later, and was told of this node then. Who gives it its first
        catalog need not have begun the cluster."""
        return self.joined and any(node == node_id for node, _ in self.seeds)


@dataclass(frozen=True, slots=True)
class FormationReport:
    """What a node says of itself, only after it is on its disk."""

    node_id: NodeId
    incarnation: str
    round: int
    stage: Stage
    members: Members
    """The members of DRAFTED and FORMED; empty in the other stages."""
    places: Places = ()
    restored: str = ""
    """The same as in its record. Only directories of one restore form a cluster with each other."""
    newest: int = 0
    """The newest active version that its program speaks; 0: it does not say."""


def are_members(members: Members) -> bool:
    """Whether it is a list as described at `Members`."""
    ids = [node for node, _ in members]
    return (
        len(members) <= MEMBERS_MAX
        and ids == sorted(set(ids))
        and all(node > 0 for node in ids)
        and all(is_incarnation(incarnation) for _, incarnation in members)
    )


def holders(members: Members, places: Places) -> Members:
    """The incarnation that has the place of each member now."""
    taken = {place.node_id: place.incarnation for place in places}
    return tuple((node, taken.get(node, incarnation)) for node, incarnation in members)


def replaced(members: Members, earlier: Members) -> Iterable[NodeId]:
    """The nodes of `members` whose data directory is not the one of the earlier list."""
    before = dict(earlier)
    return [node for node, incarnation in members if before.get(node) != incarnation]
