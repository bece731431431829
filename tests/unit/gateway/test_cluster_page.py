"""What `/v1/cluster` says of each node, whether it answers or not."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

from svc_cluster.gateway.api.cluster import cluster
from svc_cluster.gateway.cluster.node_client import KnownNode, ListedNode, NodeFacts

FACTS = NodeFacts(
    version="9.9",
    groups=3,
    groups_led=1,
    groups_without_leader=0,
    groups_held=0,
    lag_entries=7,
    is_draining=False,
    wal_bytes=1,
    free_bytes=2,
    takes_appends=True,
    leads=("", "basin"),
)
SAID = {
    "version": "9.9",
    "groups": 3,
    "groups_led": 1,
    "groups_without_leader": 0,
    "groups_held": 0,
    "lag_entries": 7,
    "is_draining": False,
    "wal_bytes": 1,
    "free_bytes": 2,
    "takes_appends": True,
    "leads": ["", "basin"],
}


class Nodes:
    """Of 1 and 2 the catalog tells, of 3 and 4 it does not; 2 and 4 do not answer."""

    async def nodes(self) -> dict[int, KnownNode]:
        placed = ListedNode(host="rack", zone="east", state="draining")
        nowhere = ListedNode(state="active")
        return {
            4: KnownNode(ListedNode(), None),
            3: KnownNode(ListedNode(), FACTS),
            2: KnownNode(placed, None),
            1: KnownNode(nowhere, FACTS),
        }


def test_each_node_is_told_with_what_is_known_of_it() -> None:
    """By their ids; nothing is said of what is not known, and an empty zone is known."""
    services = SimpleNamespace(nodes=Nodes(), version="9.9")
    call: Any = SimpleNamespace(services=services)
    body = asyncio.run(cluster(call)).body
    assert isinstance(body, bytes)
    assert json.loads(body) == {
        "gateway": {"version": "9.9"},
        "nodes": [
            {"node_id": 1, "is_up": True, "host": "", "zone": "", "state": "active", **SAID},
            {
                "node_id": 2,
                "is_up": False,
                "host": "rack",
                "zone": "east",
                "state": "draining",
            },
            {"node_id": 3, "is_up": True, **SAID},
            {"node_id": 4, "is_up": False},
        ],
    }
