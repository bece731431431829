"""Which nodes are places for leads, by their own word, and who of them should lead a group."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import Final

from svc_cluster.base.ids import NodeId
from svc_cluster.raft.group import RaftGroup
from svc_cluster.replica.host import Host
from svc_cluster.replica.node_questions import PLACE, Ask, overviews

PLACE_SECONDS: Final = 0.3
"""Who has not answered by then is taken for no place for leads: half of a pause of writes."""


@dataclass(frozen=True, slots=True)
class Places:
    """What some nodes have said of themselves. Who has not answered is in neither set."""

    taking: Set[NodeId]
    """They take leads now."""
    going: Set[NodeId]
    """They drain or stop, and take none from anybody."""


async def places(ask: Ask, nodes: Iterable[NodeId]) -> Places:
    """Ask them all at a time."""
    seen = await overviews(ask, nodes, PLACE, PLACE_SECONDS)
    return Places(
        taking={node for node, told in seen.items() if not told.avoids_leads},
        going={node for node, told in seen.items() if told.draining},
    )


def peers_of(host: Host, engine: RaftGroup) -> list[NodeId]:
    """The other members of a group that are there."""
    return [one for one in engine.members if one != engine.node_id and host.is_peer_up(one)]


async def successor(host: Host, engine: RaftGroup) -> NodeId | None:
    """The other member that should lead in this one's place. It takes leads, if one does, and has
    most of the log. None where no other is there that stays."""
    peers = peers_of(host, engine)
    known = await places(host.ask_any, peers)
    return max(
        (peer for peer in peers if peer not in known.going),
        key=lambda p: (p in known.taking, engine.match_index(p), -p),
        default=None,
    )
