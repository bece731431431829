"""`python -m tests.chaos --rounds N`: rounds of faults on real clusters, checked after each."""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.chaos.cluster import ChaosCluster
from tests.chaos.namespaces import unavailable
from tests.chaos.rounds import OPERATIONS_MIN, Result, Round
from tests.chaos.rows import NOT_HERE, ROWS
from tests.e2e.power import build_shim, compiler
from tests.reliability import RunLog

ROUNDS_A_CLUSTER: Final = 8
"""Then a fresh one is made: its ledgers have grown."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=len(ROWS))
    parser.add_argument("--rows", default="", help="D1,D6: only these; default: all of them")
    parser.add_argument("--seed", type=int, help="default: drawn, and printed")
    parser.add_argument("--operations", type=int, default=OPERATIONS_MIN)
    parser.add_argument("--resume", action="store_true", help="go on counting where the log ends")
    parser.add_argument("--record", action="store_true", help="append to docs/reliability")
    parser.add_argument("--keep", type=Path, help="keep histories and logs of bad rounds here")
    parser.add_argument("--no-namespaces", action="store_true", help="proxies only")
    return parser.parse_args()


async def main(options: argparse.Namespace) -> int:
    rows = [row for row in options.rows.split(",") if row] or list(ROWS)
    unknown = [row for row in rows if row not in ROWS]
    if unknown:
        for row in unknown:
            print(f"{row} is not a row of this: {NOT_HERE.get(row, 'no such row')}")
        return 2
    if compiler() is None:
        print("no C compiler: the shim that slow, failing and powerless disks need is not there")
        return 2
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    why = "switched off" if options.no_namespaces else unavailable()
    log = RunLog("chaos")
    first = log.last("round") + 1 if options.resume else 1
    print(f"seed {seed}  rounds {first} to {first + options.rounds - 1}  rows {','.join(rows)}")
    print("each node in a network namespace" if why is None else f"proxies only: {why}")
    for row, where in NOT_HERE.items():
        print(f"  {row} elsewhere: {where}")
    bad = 0
    with tempfile.TemporaryDirectory(prefix="svc-chaos-") as scratch:
        shim = build_shim(Path(scratch))
        plan = schedule(rows, options.rounds, first, seed)
        for at in range(0, len(plan), ROUNDS_A_CLUSTER):
            part = plan[at : at + ROUNDS_A_CLUSTER]
            while part:
                directory = Path(scratch) / f"cluster-{part[0][0]}"
                failed = await play(part, directory, shim, seed, why is None, options, log)
                bad += failed
                shutil.rmtree(directory)
    print(f"{options.rounds} rounds, {bad} with violations")
    return 1 if bad else 0


def schedule(rows: list[str], rounds: int, first: int, seed: int) -> list[tuple[int, str]]:
    """(number, row): every row equally often, in an order of the seed's."""
    plan: list[tuple[int, str]] = []
    for number in range(first, first + rounds):
        turn, place = divmod(number - 1, len(rows))
        order = rows.copy()
        random.Random(f"{seed}/{turn}").shuffle(order)
        plan.append((number, order[place]))
    return plan


async def play(
    part: list[tuple[int, str]],
    directory: Path,
    shim: Path,
    seed: int,
    namespaces: bool,
    options: argparse.Namespace,
    log: RunLog,
) -> int:
    """Rounds on one cluster, taken from the front of `part`. Ends early after a bad one: what it
    left behind must not spoil the next. Returns how many were bad."""
    async with ChaosCluster(directory, shim, seed, namespaces=namespaces) as cluster:
        while part:
            number, row = part.pop(0)
            one = Round(cluster, row, number, seed, operations=options.operations)
            result = await one.run()
            say(result)
            if options.record:
                log.add({**result.fields(), "namespaces": namespaces})
            if result.violations:
                if options.keep is not None:
                    one.save(options.keep)
                    for path in directory.glob("*.log"):
                        shutil.copy(path, options.keep / f"round-{number}-{path.name}")
                print(cluster.log_tail(8))
                return 1
    return 0


def say(result: Result) -> None:
    verdict = "VIOLATIONS" if result.violations else "ok"
    failover = f"  failover {result.failover_ms} ms" if result.failover_ms else ""
    print(
        f"round {result.round} {result.row:<4} {verdict}  {result.ops} ops  {result.acked} acked  "
        f"{result.ambiguous} unknown  {result.seconds} s{failover}  {result.facts}",
        flush=True,
    )
    for violation in result.violations:
        print(f"    {violation}")


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main(arguments())))
    except subprocess.CalledProcessError as error:
        sys.exit(str(error))
