"""The shapes of clusters in which a kind of bug shows soon, and seeds of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.simulation.cluster import SimCluster, SimulationFailedError, in_simulation
from tests.simulation.options import Options
from tests.simulation.workload import WorkloadOptions

Plant = Callable[[SimCluster], None]

BASE = Options(
    streams=1,
    http=False,
    tick_seconds=0.05,
    faults=("crash_leader", "isolate_leader", "store_stall"),
    fault_pause_s=1.5,
    safety_s=10.0,
    workload=WorkloadOptions(think_s=0.05, trim_share=0.1, event_streams=True),
)
POWER = replace(BASE, faults=("crash_all",), fault_pause_s=0.7, slow_disks=True)
DEPOSED = replace(
    BASE,
    gateways=5,
    deadline_seconds=0.5,
    faults=("isolate_leader",),
    fault_pause_s=3.0,
    safety_s=20.0,
    workload=replace(
        BASE.workload, clients=8, think_s=0.03, read_share=0.5, tail_share=0.4, follow=False
    ),
)
"""Some gateways still ask the old leader when others write through the new one."""

RECYCLED = replace(
    BASE,
    segment_bytes=16 * 1024,
    constants=(("proposer.ENTRY_BYTES_TARGET", 1),),
    flush_seconds=0.2,
    log_retention_seconds=0.2,
    log_retention_bytes=1,
    faults=("crash_all", "crash_any"),
    safety_s=20.0,
    workload=replace(BASE.workload, clients=6, think_s=0.02, batch_max=1, read_share=0.05),
)
"""Segments live many short lives, with frames of few sizes."""

FENCED = replace(BASE, workload=replace(BASE.workload, clients=6, read_share=0.1, tail_share=0.05))
CHURN = replace(BASE, workload=replace(BASE.workload, clients=1, churned_streams=2))
SESSIONS = replace(
    BASE, workload=replace(BASE.workload, clients=4, session_share=0.5, read_share=0.1)
)
RETRIES = replace(
    BASE,
    faults=("crash_leader", "isolate_leader", "gateway_crash"),
    workload=replace(BASE.workload, clients=6, think_s=0.03, retry_share=1.0, read_share=0.1),
)
REPORTS = replace(
    BASE,
    gateways=3,
    http=True,
    deadline_seconds=1.0,
    faults=("crash_leader", "isolate_leader", "reset", "clog"),
    workload=replace(BASE.workload, clients=6, read_share=0.6),
)
CALM = replace(BASE, faults=("reset",), fault_pause_s=5.0)


def nothing(_cluster: SimCluster) -> None:
    """No bug."""


@dataclass(frozen=True, slots=True)
class Scene:
    """`options` are those of the run; a seed chooses everything else. `seeds` notice the bug that
    the scene is made for (tests/mutants): one is enough, the others are there because any change of
    what is said between processes changes a seed's history."""

    options: Options
    seeds: tuple[int, ...]


SCENES: dict[str, Scene] = {
    "acknowledged before the sync": Scene(POWER, (1, 3, 8)),
    "own disk slower than a follower's": Scene(
        replace(
            POWER,
            faults=("slow_disk", "crash_leader", "crash_most", "isolate_leader", "partition"),
            fault_pause_s=0.4,
        ),
        (43, 88, 95),
    ),
    "promises before a crash": Scene(
        replace(POWER, faults=("crash_all", "crash_most", "crash_leader")), (8, 9, 12)
    ),
    "late messages": Scene(
        replace(BASE, datagrams=True, faults=("clog", "crash_leader", "isolate_leader", "reset")),
        (2, 4, 6),
    ),
    "reads from a deposed leader": Scene(DEPOSED, (2, 3, 12)),
    "reads beside a stalled store": Scene(
        Options(
            http=False,
            faults=("crash_leader", "store_stall"),
            fault_pause_s=1.5,
            safety_s=30.0,
            workload=WorkloadOptions(event_streams=True),
        ),
        (3, 18, 19),
    ),
    "recycled segments": Scene(RECYCLED, (13, 35)),
    "trims": Scene(BASE, (1, 2, 3)),
    "sessions": Scene(SESSIONS, (1, 2, 3)),
    "retries": Scene(RETRIES, (3, 7, 8)),
    "reports of usage": Scene(REPORTS, (6, 7, 20)),
}


def play(options: Options, seed: int, plant: Plant = nothing) -> str | None:
    """What noticed a bug: the name of the invariant, and the rule of a history check. None when the
    seed passed; raises what is no judgement."""

    async def main(cluster: SimCluster) -> None:
        plant(cluster)
        await cluster.run()

    try:
        in_simulation(seed, options, main)
    except SimulationFailedError as failure:
        text = str(failure)
        _, _, what = text.partition("InvariantError: ")
        if not what:
            raise
        name, _, rest = what.partition(":")
        return f"{name} {rest.splitlines()[1].split(':')[0]}" if name == "linearizable" else name
    return None
