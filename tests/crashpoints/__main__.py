"""`python -m tests.crashpoints`: sweeps the crash points of every scenario."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.crashpoints.sweep import SCENARIOS, Outcome, sweep
from tests.e2e.power import build_shim, compiler
from tests.reliability import RunLog


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.crashpoints", description=__doc__)
    parser.add_argument("--stride", type=int, default=1, help="every n-th point; 1 is all of them")
    parser.add_argument("--offset", type=int, default=0)
    parser.add_argument("--scenarios", default="", help=",".join(s.name for s in SCENARIOS))
    parser.add_argument("--seed", type=int, default=0, help="which points get a power cut, and how")
    parser.add_argument("--jobs", type=int, default=2 * (os.cpu_count() or 1))
    parser.add_argument("--record", action="store_true", help="append to docs/reliability")
    return parser.parse_args()


async def main(options: argparse.Namespace) -> int:
    if compiler() is None:
        print("no C compiler: the shim that kills at the n-th call is not there")
        return 2
    wanted = [name for name in options.scenarios.split(",") if name]
    log = RunLog("crashpoints")
    bad = 0
    with tempfile.TemporaryDirectory(prefix="svc-crash-") as scratch:
        shim = build_shim(Path(scratch))
        for scenario in SCENARIOS:
            if wanted and scenario.name not in wanted:
                continue
            begin = time.monotonic()
            outcome = await sweep(
                Path(scratch),
                shim,
                scenario,
                stride=options.stride,
                offset=options.offset,
                seed=options.seed,
                jobs=options.jobs,
            )
            seconds = round(time.monotonic() - begin, 1)
            say(outcome, seconds)
            bad += len(outcome.violations)
            if options.record:
                fields = {"stride": options.stride, "seed": options.seed, "seconds": seconds}
                log.add({**outcome.fields(), **fields})
    return 1 if bad else 0


def say(outcome: Outcome, seconds: float) -> None:
    print(
        f"{outcome.scenario}: died at {outcome.covered} of {outcome.tried} points tried, of "
        f"{outcome.total}; {outcome.power_cuts} power cuts; {len(outcome.sites)} of "
        f"{len(outcome.census)} call sites; {len(outcome.violations)} violations; {seconds} s"
    )
    for site, count in sorted(outcome.census.items()):
        print(f"    {outcome.sites[site]:>5} of {count:<5} {site}")
    for violation in outcome.violations:
        print(f"  VIOLATION {violation}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(arguments())))
