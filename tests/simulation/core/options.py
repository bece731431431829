"""What one seed draws before it starts."""

from __future__ import annotations

import random
from dataclasses import dataclass

from svc_cluster.raft.raft_settings import (
    APPEND_ENTRIES_MAX,
    IN_FLIGHT_ENTRIES_MAX,
    RaftSettings,
)


@dataclass(frozen=True, slots=True)
class Options:
    """One run: how many nodes, how bad the network is, how long it lasts (virtual seconds)."""

    seed: int
    node_count: int
    adversarial: bool
    settings: RaftSettings
    proposals_per_second: float
    fault_seconds: float
    """Mean time between two faults."""

    compacts: bool
    chaos_seconds: float
    quiet_seconds: float
    tick_seconds: tuple[float, float]
    """Shortest and longest time between two ticks of a node."""

    loses_disks: bool = False
    """Disks are lost, one at a time while the other replicas are whole."""


def draw(
    seed: int,
    *,
    node_count: int | None = None,
    adversarial: bool | None = None,
    chaos_seconds: float | None = None,
    heavy: bool = False,
) -> Options:
    """The options of a seed; what is given is not drawn. `heavy`: as older seeds were drawn, longer
    and under more load."""
    rng = random.Random(f"options {seed}")
    batch = rng.choice([64, 200, 65_536])
    small = random.Random(f"entries {seed}")
    few = small.random() < 0.4
    drawn_count = rng.choice([3, 3, 3, 5, 5, 1] if rng.random() < 0.3 else [3, 3, 5])
    drawn_adversarial = rng.random() < 0.6
    return Options(
        seed=seed,
        node_count=drawn_count if node_count is None else node_count,
        adversarial=drawn_adversarial if adversarial is None else adversarial,
        settings=RaftSettings(
            append_batch_bytes=batch,
            entry_bytes_max=48,
            in_flight_bytes_max=rng.choice([100, 1_000, 1_000_000]),
            committed_bytes_max=rng.choice([50, 100_000]),
            append_entries_max=small.choice([2, 3]) if few else APPEND_ENTRIES_MAX,
            in_flight_entries_max=small.choice([1, 4]) if few else IN_FLIGHT_ENTRIES_MAX,
        ),
        proposals_per_second=rng.choice(_load(rng, heavy=heavy)),
        fault_seconds=rng.choice([0.2, 0.5, 1.5] if heavy else [0.2, 0.4, 1.0]),
        compacts=rng.random() < 0.6,
        chaos_seconds=(20.0 if heavy else 15.0) if chaos_seconds is None else chaos_seconds,
        quiet_seconds=12.0 if heavy else 8.0,
        tick_seconds=(0.02, 0.05) if heavy or rng.random() < 0.3 else (0.05, 0.1),
    )


def _load(rng: random.Random, *, heavy: bool) -> list[float]:
    """What goes wrong does so around elections and cuts; a heavy load mostly costs time."""
    if heavy:
        return [20.0, 60.0, 200.0]
    return [1.0, 3.0, 5.0, 10.0] if rng.random() < 0.98 else [60.0, 200.0]
