"""What keeps the active version of a cluster from being raised. Pure: who speaks what is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from svc_cluster.base.ids import NodeId
from svc_cluster.model.formation import Asking
from svc_cluster.model.versions import FIRST, Spoken, release_of


@dataclass(frozen=True, slots=True)
class NodeSpeaks:
    """A node. `spoken`: by the program that runs on its data directory now; None: none is there, so
    that nobody knows which one will start. `incarnation`: empty for a node of the settings that has
    never registered."""

    node_id: NodeId
    incarnation: str
    spoken: Spoken | None


@dataclass(frozen=True, slots=True)
class Gateways:
    """The newest version that each gateway speaks which is known here, by its id. It has a lease,
    or talks to a node that says so. `unknown_seconds`: until there are no others with a lease that
    this leader may not know; 0: there are none. `silent`: nodes that have not said who talks to
    them."""

    newest: Mapping[str, int]
    unknown_seconds: float
    silent: tuple[NodeId, ...] = ()


def with_successors(
    nodes: Sequence[NodeSpeaks], asking: Mapping[NodeId, Asking]
) -> list[NodeSpeaks]:
    """The same nodes. Where one does not run on the directory that it is registered with, and an
    empty one asks for its place now, that one's program counts: a node whose disk is lost is
    replaced from a later version on than the one that it had, and would hold that up itself. Should
    the lost directory be found again, a program that is too old for the cluster is refused there.
    """
    return [
        replace(node, spoken=Spoken(FIRST, asks.newest))
        if node.incarnation
        and node.spoken is None
        and (asks := asking.get(node.node_id)) is not None
        and asks.is_now
        and asks.newest
        else node
        for node in nodes
    ]


def why_not_raised(
    version: int, own: Spoken, nodes: Sequence[NodeSpeaks], gateways: Gateways
) -> str | None:
    """Why the cluster cannot come to `version`, as one sentence; None: it can. `own`: what the
    catalog's leader speaks itself."""
    if version > own.newest:
        return (
            f"version {version} is of a later release than the one that runs: "
            f"run release {release_of(version)} on all nodes and gateways first"
        )
    for node in nodes:
        if not node.incarnation:
            return (
                f"node {node.node_id} has never registered, so nobody knows which release it will "
                "run: start it, or take it out of `nodes`"
            )
        if node.spoken is None:
            return (
                f"node {node.node_id} is not connected, so nobody knows which release it will run: "
                "start it"
            )
        if node.spoken.newest < version:
            return _too_old(f"node {node.node_id}", node.spoken.newest, version)
        if node.spoken.oldest > version:
            return f"node {node.node_id} speaks version {node.spoken.oldest} at least"
    for gateway_id, newest in sorted(gateways.newest.items()):
        if newest < version:
            return _too_old(f"the gateway {gateway_id}", newest, version)
    if gateways.silent:
        names = ", ".join(map(str, gateways.silent))
        return (
            f"node {names} does not say in time which gateways talk to it, so nobody knows what "
            "those speak: ask again"
        )
    if gateways.unknown_seconds > 0:
        return (
            "the catalog's leader is new and does not know all gateways yet: ask again in "
            f"{gateways.unknown_seconds:.1f} s"
        )
    return None


def _too_old(who: str, newest: int, version: int) -> str:
    return (
        f"{who} runs release {release_of(newest)} and speaks version {newest} at most: run "
        f"release {release_of(version)} there first"
    )
