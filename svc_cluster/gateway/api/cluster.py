"""The cluster as a whole: its nodes as they are now, and what was done through this gateway."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from svc_cluster.codec.json_body import encode_object
from svc_cluster.gateway.access.authorization import require_everything
from svc_cluster.gateway.api.context import Call
from svc_cluster.gateway.cluster.node_client import KnownNode
from svc_cluster.http.message import Response, json_response
from svc_cluster.model.access import Op

EVENTS_MAX: Final = 200
"""Events in one answer."""


async def cluster(call: Call) -> Response:
    """Every node, also those that do not answer."""
    nodes = call.services.nodes
    found = {} if nodes is None else await nodes.nodes()
    told = {
        "gateway": {"version": call.services.version},
        "nodes": [_told(node_id, known) for node_id, known in sorted(found.items())],
    }
    return json_response(200, encode_object(told))


async def activity(call: Call) -> Response:
    """The newest events of this gateway's audit log. They name streams and access tokens, so that
    only who may see all of those is told."""
    require_everything(call.caller.grant, Op.LIST_BASINS, Op.LIST_ACCESS_TOKENS)
    events = call.services.audit.recent(EVENTS_MAX)
    return json_response(200, encode_object({"events": events}))


def _told(node_id: int, known: KnownNode) -> dict[str, object]:
    told: dict[str, object] = {"node_id": node_id, "is_up": known.facts is not None}
    if known.standing.state:
        told |= asdict(known.standing)
    if known.facts is not None:
        told |= asdict(known.facts)
    return told
