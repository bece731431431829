"""`python -m tests.simulation.planted [--seeds 1000] [--only NAME]`: how soon is each bug noticed?

The bugs are listed in planted.md. A seed notices a bug when an invariant or the check of a history
fails in it; the same seed without the bug must pass.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from svc_cluster.raft.fixes import Fixes
from svc_cluster.replica.host import TestSwitches
from tests.simulation import lying_client as lies
from tests.simulation import lying_storage
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


def _nothing(_cluster: SimCluster) -> None:
    return


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
    switches: TestSwitches = TestSwitches()
    plant: Plant = _nothing

    def honest(self) -> Planted:
        """The same without the bug."""
        plain = replace(self.options, unsafe_skip_sync=False, unsafe_old_frames=False)
        return Planted(plain)


def _fix(options: Options, **without: bool) -> Planted:
    return Planted(options, TestSwitches(fixes=replace(Fixes(), **without)))


PLANTED: dict[str, Planted] = {
    "acknowledge before fsync": Planted(replace(POWER, unsafe_skip_sync=True)),
    "leader counts itself before its log is durable": _fix(
        replace(
            POWER,
            faults=("slow_disk", "crash_leader", "crash_most", "isolate_leader", "partition"),
            fault_pause_s=0.4,
        ),
        h3_ack_hold=False,
    ),
    "read from a deposed leader": _fix(DEPOSED, h4_read_rounds=False),
    "read at the core's applied index": Planted(
        Options(
            http=False,
            faults=("crash_leader", "store_stall"),
            fault_pause_s=1.5,
            safety_s=30.0,
            workload=WorkloadOptions(event_streams=True),
        ),
        TestSwitches(read_before_state=True),
    ),
    "old frames of a recycled segment accepted": Planted(replace(RECYCLED, unsafe_old_frames=True)),
    "trimmed records resurrected": Planted(BASE, TestSwitches(read_below_trim=True)),
    "batch of a session taken without the one before": Planted(
        SESSIONS, TestSwitches(any_ordinal=True)
    ),
    "leader forgets what others answered": Planted(RETRIES, TestSwitches(outcomes_of_term=True)),
    "report of usage counts again": Planted(REPORTS, TestSwitches(usage_twice=True)),
    "promises leave before they are durable": _fix(
        replace(POWER, faults=("crash_all", "crash_most", "crash_leader")), persist_first=False
    ),
    "follower removes a tail that is longer": _fix(
        replace(BASE, datagrams=True, faults=("clog", "crash_leader", "isolate_leader", "reset")),
        h1_normalise=False,
    ),
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


def play(planted: Planted, seed: int) -> str | None:
    """What noticed the bug: the name of the invariant, and the rule of a history check. None when
    the seed passed; raises what is no judgement."""

    async def main(cluster: SimCluster) -> None:
        planted.plant(cluster)
        await cluster.run()

    try:
        in_simulation(seed, planted.options, main, switches=planted.switches)
    except SimulationFailedError as failure:
        text = str(failure)
        _, _, what = text.partition("InvariantError: ")
        if not what:
            raise
        name, _, rest = what.partition(":")
        return f"{name} {rest.splitlines()[1].split(':')[0]}" if name == "linearizable" else name
    return None


@dataclass(frozen=True, slots=True)
class Caught:
    """`seeds`: how many it took; `by` is None when none of them noticed."""

    seeds: int
    by: str | None


def hunt(planted: Planted, seeds: int, first: int = 1) -> Caught:
    """Until a seed notices the bug and passes without it."""
    for seed in range(first, first + seeds):
        by = play(planted, seed)
        if by is not None and play(planted.honest(), seed) is None:
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
