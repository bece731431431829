"""`python -m tests.simulation --seed 42 [--seeds N] [--jobs 2] [--seconds 60] [--trace]`.

`--resume FILE` keeps what is done in FILE and leaves it out the next time; `--record` appends the
result to docs/reliability/simulation.jsonl.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict
from pathlib import Path

from tests.reliability import RunLog
from tests.simulation.features import counted, table
from tests.simulation.many import run_jobs
from tests.simulation.record import Progress, record

COUNTED = (
    "acked",
    "unknown",
    "refused",
    "reads",
    "crashes",
    "elections",
    "snapshots",
    "trims",
    "event_batches",
    "session_batches",
    "retries",
    "lives",
    "repaired",
    "looks",
    "rested",
    "amid_changes",
    "events",
)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds, from the first on")
    parser.add_argument("--seconds", type=float, default=60.0, help="virtual seconds under faults")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--rot", action="store_true", help="logs decay on nodes that are down")
    parser.add_argument("--trace", action="store_true", help="print every fact of the run")
    parser.add_argument("--resume", type=Path, default=None, help="where progress is kept")
    parser.add_argument("--record", action="store_true", help="append to the results")
    return parser.parse_args()


def main() -> int:
    arguments = _arguments()
    log = RunLog("simulation")
    progress = Progress(arguments.resume, "simulation")
    every = range(arguments.seed, arguments.seed + arguments.seeds)
    progress.leave(every)
    jobs = [
        (seed, arguments.seconds, arguments.trace, arguments.rot)
        for seed in every
        if seed not in progress.done
    ]
    last = time.perf_counter()
    for job, result in zip(jobs, run_jobs(jobs, arguments.jobs), strict=True):
        now = time.perf_counter()
        wall_s, last = now - last, now
        if isinstance(result, str):
            print(result, flush=True)
            progress.note(job[0], failed=True, wall_s=wall_s)
            continue
        facts = {name: value for name, value in asdict(result).items() if name in COUNTED}
        progress.note(
            job[0], failed=False, wall_s=wall_s, virtual_s=round(result.virtual_s), **facts
        )
        if len(every) <= 10:
            print(f"seed {result.seed} ok digest {result.digest:08x}: {result.options}")
            print(f"  faults {result.faults}")
    failures = progress.failures()
    wall_s, virtual_s = progress.total("wall_s"), progress.total("virtual_s")
    counts = " ".join(f"{name} {progress.total(name)}" for name in COUNTED)
    print(
        f"seeds {len(progress.done)} failed {len(failures)} virtual_s {virtual_s} {counts} "
        f"wall_s {wall_s:.1f} seeds_per_s {len(progress.done) / max(wall_s, 1e-9):.2f} "
        f"speedup {virtual_s / max(wall_s, 1e-9):.0f}"
    )
    features = counted(progress.done, rot=arguments.rot)
    if len(progress.done) > 10:
        print("\n".join(table(features, len(progress.done))))
    struck = sum(facts.get("amid_changes", 0) > 0 for facts in progress.done.values())
    print(f"in {struck} of {len(progress.done)} seeds a fault struck while members changed")
    if arguments.record:
        facts = {
            "amid_changes": struck,
            "virtual_s": virtual_s,
            "acked": progress.total("acked"),
            "crashes": progress.total("crashes"),
            "rot": arguments.rot,
            "seconds": round(wall_s, 1),
            "features": dict(sorted(features.items())),
        }
        print(record(log, "full", arguments.seed, len(progress.done), failures, facts))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
