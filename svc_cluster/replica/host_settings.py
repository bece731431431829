"""What the replicas of a node must know of their cluster."""

from __future__ import annotations

from dataclasses import dataclass

from svc_cluster.base.ids import NodeId
from svc_cluster.codec.entry_version import Known
from svc_cluster.model.idempotency_table import IDEMPOTENCY_KEYS_MAX
from svc_cluster.model.location import LOCATIONS_DEFAULT, Location
from svc_cluster.model.quotas import UNBOUNDED, Quotas
from svc_cluster.replica.memory_budget import NODE_BYTES_MAX


@dataclass(frozen=True, slots=True)
class HostSettings:
    """What a host must know of the cluster's shape; the same on every node."""

    nodes: tuple[NodeId, ...]
    replication_factor: int
    tick_seconds: float = 0.02
    locations: tuple[Location, ...] = LOCATIONS_DEFAULT
    request_outcomes_max: int = IDEMPOTENCY_KEYS_MAX
    """The bound for one basin, and for the catalog."""
    quotas: Quotas = UNBOUNDED
    rest_seconds: float = 0.0
    """A basin that nothing has happened to for so long rests; 0: none ever does."""
    memory_bytes_max: int = NODE_BYTES_MAX
    """What the node keeps in memory on behalf of others."""
    replace_lost_nodes: bool = False
    """A node that came up empty is given its place by the catalog's leader, unasked."""
    balance_seconds: float = 0.0
    """How often the catalog's leader looks whether leads are uneven; 0: never unasked."""
    known: Known = Known()
    """What this release can apply; less in simulations of older ones."""
