"""`python -m tests.simulation.planted [--seeds 1000] [--only NAME]`: how soon is each bug noticed?

The bugs are around the real objects and listed in planted.md; those in the code itself are in
tests/mutants. A seed notices a bug when an invariant or the check of a history fails in it; the
same seed without the bug must pass.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from dataclasses import dataclass, field, replace

from tests.simulation import lying_client as lies
from tests.simulation import lying_storage
from tests.simulation.cluster import SimCluster
from tests.simulation.options import Options
from tests.simulation.scenes import BASE, CALM, CHURN, FENCED, POWER, Plant, nothing, play


def _client(bug: type[lies.HonestClient]) -> Plant:
    def plant(cluster: SimCluster) -> None:
        cluster.apis[:] = [
            bug(api, random.Random(f"{cluster.seed}/lies {number}"))
            for number, api in enumerate(cluster.apis)
        ]

    return plant


def _store(bug: type[lying_storage.StoreBug]) -> Plant:
    def plant(cluster: SimCluster) -> None:
        bug(cluster.nodes[0])

    return plant


def _disks(cluster: SimCluster) -> None:
    for node in cluster.nodes:
        node.disk.switches.lies = True


@dataclass(frozen=True, slots=True)
class Planted:
    """`options` are those of the run; the seed chooses everything else."""

    options: Options = field(default_factory=lambda: BASE)
    plant: Plant = nothing


PLANTED: dict[str, Planted] = {
    "append is never sent": Planted(plant=_client(lies.NeverSent)),
    "append is carried out twice": Planted(plant=_client(lies.SentTwice)),
    "half a batch": Planted(plant=_client(lies.HalfBatch)),
    "records in another order": Planted(plant=_client(lies.OtherOrder)),
    "two batches exchange their places": Planted(plant=_client(lies.Exchanged)),
    "acknowledged for another place": Planted(plant=_client(lies.OtherPlace)),
    "refusal of what took effect": Planted(plant=_client(lies.FalseRefusal)),
    "match ignored": Planted(plant=_client(lies.MatchIgnored)),
    "token ignored": Planted(FENCED, plant=_client(lies.TokenIgnored)),
    "refusal reports the token before": Planted(FENCED, plant=_client(lies.OldTokenReported)),
    "refusal reports an old tail": Planted(plant=_client(lies.OldTailReported)),
    "old tail": Planted(plant=_client(lies.OldTail)),
    "old read": Planted(plant=_client(lies.OldRead)),
    "read without its last record": Planted(plant=_client(lies.LastRecordLeftOut)),
    "timestamp differs between reads": Planted(plant=_client(lies.OtherTimestamp)),
    "trim is not carried out": Planted(plant=_client(lies.TrimNotDone)),
    "trim removes one record too many": Planted(plant=_client(lies.TrimTooFar)),
    "event stream leaves out a batch": Planted(
        replace(BASE, http=True), plant=_client(lies.EventGap)
    ),
    "event stream repeats a batch": Planted(
        replace(BASE, http=True), plant=_client(lies.EventTwice)
    ),
    "deleted stream is still there": Planted(CHURN, plant=_client(lies.NotDeleted)),
    "one replica loses a batch": Planted(CALM, plant=_store(lying_storage.LosesBatch)),
    "one replica keeps what was trimmed": Planted(CALM, plant=_store(lying_storage.KeepsTrimmed)),
    "one bit of a stored batch changes": Planted(CALM, plant=_store(lying_storage.FlipsBit)),
    "disk lies about its syncs": Planted(POWER, plant=_disks),
}


@dataclass(frozen=True, slots=True)
class Caught:
    """`seeds`: how many it took; `by` is None when none of them noticed."""

    seeds: int
    by: str | None


def hunt(planted: Planted, seeds: int, first: int = 1) -> Caught:
    """Until a seed notices the bug and passes without it."""
    for seed in range(first, first + seeds):
        by = play(planted.options, seed, planted.plant)
        if by is not None and play(planted.options, seed) is None:
            return Caught(seed - first + 1, by)
    return Caught(seeds, None)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.planted", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000, help="at most so many for each bug")
    parser.add_argument("--only", default="", help="only bugs with this in their name")
    arguments = parser.parse_args()
    missed = 0
    names = [name for name in PLANTED if arguments.only in name]
    for name in names:
        began = time.process_time()
        caught = hunt(PLANTED[name], arguments.seeds)
        took = time.process_time() - began
        missed += caught.by is None
        how = "NOT CAUGHT" if caught.by is None else f"by {caught.by}"
        print(f"{name:48} {caught.seeds:5} seeds  {how}  ({took:.1f} s)", flush=True)
    print(f"{len(names) - missed} of {len(names)} caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
