"""How long the planner of placement thinks about a large cluster, on paper:
`python -m tests.benchmarks.placement`, some seconds.

Three questions: a cluster in which nothing is to be done, one to which nodes were added, and one
in which some drain. Each is asked within the limits of a plan, and nothing of a plan is done.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import time
from dataclasses import replace
from typing import Any

from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.catalog.placement_loads import Load
from svc_cluster.catalog.placement_model import (
    NodeStanding,
    PlacementGroup,
    PlacementNode,
    PlacementPlan,
    Policy,
)
from svc_cluster.catalog.placement_plan import plan_steps

REPLICAS = 3
ZONES = 3
NODES_A_HOST = 2


def paper(nodes: int, groups: int, used: int) -> tuple[list[PlacementNode], list[PlacementGroup]]:
    """A cluster whose groups are spread over the first `used` nodes, by the rules."""
    names = [
        PlacementNode(
            NodeId(n + 1), f"host-{n // NODES_A_HOST}", f"zone-{n // NODES_A_HOST % ZONES}"
        )
        for n in range(nodes)
    ]
    by_zone = [[node for node in names[:used] if node.zone == f"zone-{z}"] for z in range(ZONES)]
    draw = random.Random(7)
    made = []
    for number in range(groups):
        members = tuple(zone[number % len(zone)].node_id for zone in by_zone)
        made.append(
            PlacementGroup(
                GroupId(number + 2),
                members,
                load=Load(draw.randrange(3 << 28, 5 << 28), draw.randrange(80, 130)),
                leader=members[number % REPLICAS],
            )
        )
    return names, made


def measure(
    nodes: list[PlacementNode], groups: list[PlacementGroup], policy: Policy
) -> dict[str, Any]:
    """Seconds of the processor for a plan, and for the longest of its steps. What the collector of
    garbage takes within a step, which goes by all that there is, is told apart."""
    pauses = [0.0]
    begun = 0.0

    def collected(phase: str, _: dict[str, int]) -> None:
        nonlocal begun
        if phase == "start":
            begun = time.process_time()
        else:
            pauses.append(time.process_time() - begun)

    gc.callbacks.append(collected)
    steps = plan_steps(nodes, groups, (), policy)
    began = last = time.process_time()
    longest, counted = 0.0, 1
    found: PlacementPlan | None = None
    try:
        while found is None:
            try:
                next(steps)
            except StopIteration as end:
                found = end.value
            now = time.process_time()
            longest = max(longest, now - last - sum(pauses[counted:]))
            last, counted = now, len(pauses)
    finally:
        gc.callbacks.remove(collected)
    return _figures(found, last - began, longest, max(pauses))


def _figures(
    found: PlacementPlan, seconds: float, longest: float, longest_pause: float
) -> dict[str, Any]:
    return {
        "seconds": round(seconds, 3),
        "longest_step_ms": round(longest * 1000, 2),
        "longest_collection_ms": round(longest_pause * 1000, 2),
        "changes": len(found.changes),
        "transfers": len(found.transfers),
        "has_more": found.has_more,
    }


def run(nodes: int, groups: int, changes: int) -> dict[str, Any]:
    """The three questions, and the second one for more changes than may begin at one time."""
    policy = Policy()
    many = replace(policy, changes_max=changes, incoming_max=changes)
    at_rest = paper(nodes, groups, nodes)
    grown = paper(nodes, groups, nodes * 4 // 5 // (NODES_A_HOST * ZONES) * NODES_A_HOST * ZONES)
    draining = [
        replace(node, standing=NodeStanding.DRAINING) if node.node_id % 50 == 1 else node
        for node in at_rest[0]
    ]
    return {
        "nodes": nodes,
        "groups": groups,
        "at_rest": measure(*at_rest, policy),
        "grown": measure(*grown, policy),
        f"grown_{changes}_changes": measure(*grown, many),
        "draining": measure(draining, at_rest[1], policy),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=300)
    parser.add_argument("--groups", type=int, default=100_000)
    parser.add_argument("--changes", type=int, default=10_000)
    options = parser.parse_args()
    print(json.dumps(run(options.nodes, options.groups, options.changes), indent=2))


if __name__ == "__main__":
    main()
