"""Everything that can change the catalog. Wire form: codec/catalog_entry.py."""

from __future__ import annotations

from dataclasses import dataclass

from svc_cluster.base.ids import GroupId, NodeId, TimestampMs
from svc_cluster.catalog.account_usage import ReportAccountUsage
from svc_cluster.catalog.active_version import RaiseActiveVersion
from svc_cluster.catalog.group_change import ChangeCommand
from svc_cluster.catalog.location_table import SetDefaultLocation
from svc_cluster.catalog.node_facts import NO_FACTS, AnnouncedFacts
from svc_cluster.catalog.token_commands import TokenCommand
from svc_cluster.model.stream_config import BasinConfig


@dataclass(frozen=True, slots=True)
class RegisterNode:
    """A node's data directory makes itself known. The first incarnation of a node id stays: a
    directory that was emptied cannot come back under an old name."""

    node_id: NodeId
    incarnation: str
    address: str
    """Where the others reach it, by its own settings."""
    facts: AnnouncedFacts = NO_FACTS
    """What it says of itself beside that, from active version 3 on."""


@dataclass(frozen=True, slots=True)
class ReplaceNode:
    """The place of a node whose data directory is lost is given to an empty one, which recovers
    every replica that was there. Open until that registers; at most one node's is open."""

    node_id: NodeId
    ordinal: int
    """The one that follows the node's."""
    incarnation: str


@dataclass(frozen=True, slots=True)
class DrainNode:
    """A node is to give away what it has and gets nothing more; or (`drains` false) no longer."""

    node_id: NodeId
    drains: bool


@dataclass(frozen=True, slots=True)
class OpenTicket:
    """A node of this id may come to the cluster with the secret of this hash. `now_ms` is by the
    clock of the leader that says it."""

    node_id: NodeId
    secret_hash: bytes
    expires_at_ms: TimestampMs
    now_ms: TimestampMs


@dataclass(frozen=True, slots=True)
class AdmitNode:
    """A node has shown the secret of its ticket, which is spent by that."""

    node: RegisterNode
    secret_hash: bytes
    now_ms: TimestampMs


@dataclass(frozen=True, slots=True)
class RemoveNode:
    """A node that holds no replica is refused for ever, or a ticket is withdrawn."""

    node_id: NodeId


@dataclass(frozen=True, slots=True)
class CreateBasin:
    """The commit point of a basin's creation. `group_id` is the next unused one."""

    name: str
    group_id: GroupId
    replicas: tuple[NodeId, ...]
    config: BasinConfig
    created_at_ms: TimestampMs
    creation_hash: bytes = b""
    """The hash of the request that asked for it (codec/creation_hash.py); empty: nothing repeats
    it."""
    location: str = ""
    """Empty in entries from before there were locations."""
    owner: int = 0
    """Serial of the first access token, below the root's, of the chain that asked for it; 0: the
    root token, or nobody was asked for one, or it is from before this was kept."""


@dataclass(frozen=True, slots=True)
class DeleteBasin:
    """From here on the basin is deleting; its group is sealed next."""

    name: str
    deleted_at_ms: TimestampMs


@dataclass(frozen=True, slots=True)
class RemoveBasin:
    """The group is sealed: the record goes, the name is free, replicas destroy their copies."""

    group_id: GroupId


CatalogWrite = CreateBasin | DeleteBasin | TokenCommand | SetDefaultLocation
"""What a client may ask for, and ask for again."""


@dataclass(frozen=True, slots=True)
class IdempotentCatalogWrite:
    """An IdempotentCatalogWrite is a write that its client may repeat. The `write` and the answer
    by which it is known from then on take effect together or not at all. A second one with the
    same key is rejected."""

    key: bytes
    """REQUEST_KEY_BYTES of a hash: which request it is (codec/request_key.py)."""
    decided_at_ms: TimestampMs
    answer: bytes
    """What the client is told, now and whenever it repeats the request; opaque here."""
    write: CatalogWrite | None = None
    """None: the answer is a refusal, or nothing had to change."""


@dataclass(frozen=True, slots=True)
class ExpireCatalogIdempotencyKeys:
    """Forget the idempotency keys decided before `before_ms`, oldest first, at most `at_most`."""

    before_ms: TimestampMs
    at_most: int


CatalogCommand = (
    RegisterNode
    | ReplaceNode
    | DrainNode
    | OpenTicket
    | AdmitNode
    | RemoveNode
    | RemoveBasin
    | CatalogWrite
    | IdempotentCatalogWrite
    | ExpireCatalogIdempotencyKeys
    | ReportAccountUsage
    | RaiseActiveVersion
    | ChangeCommand
)
