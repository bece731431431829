"""What the planner of placement is given, and what it says: nodes, groups, policy, moves; values.

A node that names no host is a host of its own, and nodes that name no zone are one zone together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.catalog.placement_loads import NO_LOAD, Load

INCOMING_MAX: Final = 2
"""Replicas that one node takes in at one time."""
CHANGES_MAX: Final = 8
"""Open changes of the whole cluster."""


class NodeStanding(IntEnum):
    """What a node is to the planner."""

    ACTIVE = 0
    DRAINING = 1
    """Its replicas go elsewhere."""
    LOST = 2
    """It does not come back: its replicas are made anew elsewhere."""


class Reason(IntEnum):
    """Why something moves, what is more urgent first."""

    HOSTS = 0
    ZONES = 1
    REPAIR = 2
    DRAIN = 3
    BALANCE = 4
    LEADERS = 5


@dataclass(frozen=True, slots=True)
class PlacementNode:
    """A node as the planner sees it. Active ones that are away, or have no room, take nothing and
    keep what they have."""

    node_id: NodeId
    host: str = ""
    zone: str = ""
    standing: NodeStanding = NodeStanding.ACTIVE
    takes_more: bool = True

    @property
    def is_taking(self) -> bool:
        """Whether a replica may be placed on it."""
        return self.takes_more and self.standing is NodeStanding.ACTIVE

    @property
    def host_name(self) -> str:
        """The host; of a node that names none, something that no other node's is."""
        return self.host or f"\x00{self.node_id}"


@dataclass(frozen=True, slots=True)
class PlacementGroup:
    """A group and where its replicas are. `leader`: None where it is not known."""

    group_id: GroupId
    members: tuple[NodeId, ...]
    location: str = ""
    load: Load = NO_LOAD
    leader: NodeId | None = None
    recovering: frozenset[NodeId] = frozenset()
    """Members that are being made whole: nothing but their replacement is planned."""
    is_fixed: bool = False
    """Nothing of it is moved; it counts for the loads."""


@dataclass(frozen=True, slots=True)
class OpenChange:
    """A change that has begun and is not over; the planner counts it as done."""

    group_id: GroupId
    coming: tuple[NodeId, ...]
    members: tuple[NodeId, ...]
    """The members as they will be."""


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """One replica of a group goes from one node to another."""

    group_id: GroupId
    leaving: NodeId
    coming: NodeId
    members: tuple[NodeId, ...]
    """The members as they will be."""
    reason: Reason


@dataclass(frozen=True, slots=True)
class PlannedTransfer:
    """The lead of a group goes from one of its members to another."""

    group_id: GroupId
    giver: NodeId
    taker: NodeId
    reason: Reason = Reason.LEADERS


@dataclass(frozen=True, slots=True)
class Policy:
    """How the planner decides. Limits count what is open already."""

    zones_of: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The zones of a location; one that is not here is everywhere."""
    slack_percent: int = 5
    """Loads that differ by less than this share of their mean are even."""
    incoming_max: int = INCOMING_MAX
    changes_max: int = CHANGES_MAX
    transfers_max: int = 256

    def zones(self, location: str) -> frozenset[str]:
        """The zones that a basin of this location belongs to; empty: all."""
        return self.zones_of.get(location, frozenset())


@dataclass(frozen=True, slots=True)
class PlacementPlan:
    """What is to be begun now, in this order. Empty at a fixed point."""

    changes: tuple[PlannedChange, ...] = ()
    transfers: tuple[PlannedTransfer, ...] = ()
    has_more: bool = False
    """More is to be done than the limits let begin now."""

    @property
    def is_empty(self) -> bool:
        return not (self.changes or self.transfers or self.has_more)
