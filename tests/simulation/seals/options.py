"""What one seed draws before it starts."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from enum import Enum

from svc_cluster.raft.raft_settings import RaftSettings
from tests.simulation.core.options import draw as draw_core

SEAL_BYTES_MAX = 150
"""A seal of as many members as there are nodes is shorter."""


class HostMistake(Enum):
    """A rule of who performs that is left out. Each value says what is done instead."""

    DESTROYED_AT_SEAL = "who is in the next configuration no more goes as soon as that is decided"
    WIPED_AS_WHOLE = "an empty disk under the old replica id is taken for a whole replica"


@dataclass(frozen=True, slots=True)
class SealOptions:
    """One run. Times are virtual seconds; means of exponential draws where they say so."""

    seed: int
    settings: RaftSettings
    node_count: int
    proposals_per_second: float
    seal_seconds: float
    """Mean time between two attempts to seal."""
    fault_seconds: float
    """Mean time between two faults."""
    apply_seconds: tuple[float, ...]
    """Longest times after which what is committed is applied: each replica draws one."""
    compacts: bool
    damages: bool
    loses_disks: bool
    asks_readiness: bool
    """Seals only for next members that are ready; otherwise for any that are up and nearly there,
    which may lose a quorum, and never the truth."""
    chaos_seconds: float
    forgets_first: bool
    """Who starts where a later configuration has surely begun is not told who the first members
    were, as the catalog does not keep that (`first_nodes_of`)."""
    quiet_seconds: float = 10.0
    mistake: HostMistake | None = None


def draw(seed: int, *, chaos_seconds: float = 12.0) -> SealOptions:
    """The options of a seed."""
    rng = random.Random(f"seals {seed}")
    settings = draw_core(seed).settings
    return SealOptions(
        seed=seed,
        settings=replace(
            settings,
            entry_bytes_max=SEAL_BYTES_MAX,
            append_batch_bytes=max(SEAL_BYTES_MAX + 1, settings.append_batch_bytes),
        ),
        node_count=rng.choice([4, 5, 5, 6]),
        proposals_per_second=rng.choice([3.0, 8.0, 20.0]),
        seal_seconds=rng.choice([0.3, 0.8, 2.0]),
        fault_seconds=rng.choice([0.2, 0.5, 1.5]),
        apply_seconds=rng.choice([(0.01,), (0.01, 0.3), (0.01, 0.01, 2.0)]),
        compacts=rng.random() < 0.5,
        damages=rng.random() < 0.6,
        loses_disks=rng.random() < 0.5,
        asks_readiness=rng.random() < 0.5,
        chaos_seconds=chaos_seconds,
        forgets_first=rng.random() < 0.5,
    )
