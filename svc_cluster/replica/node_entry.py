"""How a node makes itself known: at each start, and once to a cluster that it comes to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import CATALOG_GROUP, NodeId
from svc_cluster.catalog.catalog_commands import RegisterNode
from svc_cluster.model import versions
from svc_cluster.replica.introductions import Introductions
from svc_cluster.replica.known_members import KnownMembers
from svc_cluster.replica.leader_calls import CatalogCalls
from svc_cluster.replica.newcomer import Newcomer
from svc_cluster.replica.node_questions import members_of
from svc_cluster.replica.registration import Registration

if TYPE_CHECKING:
    from svc_cluster.replica.node import ReplicaNode

Fill = Callable[[pb.Request], None]


def made_registration(
    node: ReplicaNode, ask: Callable[[Fill], Awaitable[pb.Response | None]]
) -> Registration:
    """The node's; it says all again when more of it is written."""
    config, version = node.config, node.services.version
    registration = Registration(
        config.node_id,
        node.identity.incarnation,
        config.addresses[config.node_id],
        config.facts,
        version,
        ask=ask,
        is_whole=lambda: node.is_whole(),
        log=node.log,
        may_be_removed=lambda: node.config.node_id not in members_of(node.host, CATALOG_GROUP),
        on_removed=lambda why: node.on_out(why),
    )
    schedule = version.on_active

    def active() -> None:
        schedule()
        registration.look()
        if version.active >= versions.PAYLOAD_FILES and config.wal.payload.writes:
            node.wal.payloads.begin()  # the directory's format is by now that of them

    version.on_active = active
    return registration


def made_introductions(
    node: ReplicaNode, ask: Callable[[NodeId, Fill], Awaitable[pb.Response | None]]
) -> Introductions:
    """The node's. Whom others tell of may take part, where its own catalog does not know them."""
    formation, roster = node.former.formation, node.roster

    def meet(told: Mapping[NodeId, str]) -> None:
        new = {
            other: at
            for other, at in told.items()
            if other not in roster and other not in roster.removed
        }
        formation.introduced |= new.keys()
        roster.introduce(new)

    return Introductions(
        has_catalog=lambda: bool(KnownMembers(node.host).registrations()),
        others=lambda: node.sessions,
        ask=ask,
        meet=meet,
    )


def made_entry(
    node: ReplicaNode, calls: CatalogCalls
) -> tuple[Registration, Newcomer | None, Introductions]:
    """By what the node becomes and stays one of the cluster's."""
    return (
        made_registration(node, calls.ask_around),
        made_newcomer(node, calls.ask_node),
        made_introductions(node, calls.ask_node),
    )


def made_newcomer(
    node: ReplicaNode, ask: Callable[[NodeId, Fill], Awaitable[pb.Response | None]]
) -> Newcomer | None:
    """None: the node does not come to a cluster, or was let in before."""
    config = node.config
    if config.join_token is None or not node.former.formation.is_coming:
        return None
    return Newcomer(
        RegisterNode(
            config.node_id,
            node.identity.incarnation,
            config.addresses[config.node_id],
            config.facts,
        ),
        config.join_token,
        others=lambda: node.sessions,
        ask=ask,
        offer=node.former.offer,
        on_out=lambda why: node.on_out(why),
        now=node.services.clock.monotonic,
        log=node.log,
    )
