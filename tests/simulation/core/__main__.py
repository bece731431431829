"""`python -m tests.simulation.core --seeds 200 --start 0`.

`--resume FILE` keeps what is done in FILE and leaves it out the next time; `--record` appends the
result to docs/reliability/simulation.jsonl.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.reliability import RunLog
from tests.simulation.core.many import run_jobs
from tests.simulation.core.options import Options
from tests.simulation.record import Progress, record


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.core", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to run")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--nodes", type=int, default=None, choices=(1, 3, 5))
    parser.add_argument("--stop", action="store_true", help="stop at the first violation")
    parser.add_argument("--resume", type=Path, default=None, help="where progress is kept")
    parser.add_argument("--record", action="store_true", help="append to the results")
    return parser.parse_args()


def _virtual_s(options: Options) -> float:
    return options.chaos_seconds + options.quiet_seconds


def main() -> int:
    arguments = _arguments()
    log = RunLog("simulation", kind="core")
    progress = Progress(arguments.resume, "core")
    every = range(arguments.start, arguments.start + arguments.seeds)
    progress.leave(every)
    jobs = [(seed, arguments.nodes) for seed in every if seed not in progress.done]
    for options, outcome, wall_s in run_jobs(jobs, arguments.jobs):
        progress.note(
            options.seed,
            failed=outcome.violation is not None,
            acked=outcome.acked,
            reads=outcome.reads,
            crashes=outcome.crashes,
            virtual_s=_virtual_s(options),
            wall_s=wall_s,
        )
        if outcome.violation is not None:
            print(f"seed {options.seed}: {outcome.violation}", flush=True)
            if arguments.stop:
                break
    failures = progress.failures()
    print(
        f"{len(progress.done)} seeds in {progress.total('wall_s'):.1f} s: {len(failures)} failed,"
        f" {progress.total('acked')} acknowledged, {progress.total('reads')} reads,"
        f" {progress.total('crashes')} crashes"
    )
    if arguments.record:
        facts = {
            "virtual_s": round(progress.total("virtual_s")),
            "acked": progress.total("acked"),
            "crashes": progress.total("crashes"),
            "seconds": round(progress.total("wall_s"), 1),
        }
        print(record(log, "core", arguments.start, len(progress.done), failures, facts))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
