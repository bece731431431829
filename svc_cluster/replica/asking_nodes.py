"""Which nodes came up with an empty directory, as far as anybody was told."""

from __future__ import annotations

from svc_cluster.base.ids import NodeId
from svc_cluster.model.formation import Asking
from svc_cluster.replica.host import Host
from svc_cluster.replica.node_questions import PLACE, overviews


async def asking_nodes(host: Host) -> dict[NodeId, Asking]:
    """The nodes, and what they said last. A directory that is empty knows the nodes of its settings
    alone; so a node that came later, and may lead the catalog, asks the others whom they heard."""
    found, own = dict(host.asking()), host.services.node_id
    formation = host.formation_report()
    if formation is None or own in dict(formation.members):
        return found
    others = [node for node in host.all_nodes() if node != own]
    told = await overviews(host.ask_any, others, PLACE)
    now = host.services.clock.monotonic()
    for one in (each for overview in told.values() for each in overview.asking):
        node_id = NodeId(one.node_id)
        asks = Asking(one.incarnation, now - one.seconds, one.now, one.newest)
        known = found.get(node_id)
        if known is None or (known.is_now, known.heard_at) < (asks.is_now, asks.heard_at):
            found[node_id] = asks
    return found
