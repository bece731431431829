"""`python -m tests.fuzz --inputs 200000 [--target wal] [--record]`: inputs for every parser.

Guided by coverage where atheris is installed (`make fuzz` does that where it can), else by chance.
`--keep` writes what reached the most into tests/fuzz/kept, a few inputs for each target.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from typing import Final

from tests.fuzz.engine import Found, run_by_chance
from tests.fuzz.guided import run_guided
from tests.fuzz.target import Target, keep, kept
from tests.fuzz.targets import TARGETS, is_here
from tests.reliability import ROOT, RunLog

CORPORA: Final = ROOT / "build" / "fuzz"
KEPT_MAX: Final = 24
KEPT_BYTES_MAX: Final = 400


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=200_000, help="for each target")
    parser.add_argument("--target", default="", help="wal,dates: only these; default: all of them")
    parser.add_argument("--seed", type=int, help="default: drawn, and printed")
    parser.add_argument("--by-chance", action="store_true", help="without coverage")
    parser.add_argument("--record", action="store_true", help="append to docs/reliability")
    parser.add_argument("--keep", action="store_true", help="keep what reached the most")
    parser.add_argument("--list", action="store_true", help="only say which targets there are")
    return parser.parse_args()


def fuzz(target: Target, count: int, seed: int, *, guided: bool) -> Found:
    if guided:
        return run_guided(target, count, seed, CORPORA / target.name)
    return run_by_chance(target, count, seed)


def keep_some(target: Target) -> None:
    """A few short inputs of what was found to reach something, and all that were kept before."""
    found = [path.read_bytes() for path in sorted((CORPORA / target.name).glob("*"))]
    short = sorted((data for data in found if len(data) <= KEPT_BYTES_MAX), key=len)
    before = kept(target.name)
    step = max(1, len(short) // KEPT_MAX)
    keep(target.name, [*before, *short[::step][: max(0, KEPT_MAX - len(before))]])


def main() -> int:
    arguments = _arguments()
    names = [name for name in arguments.target.split(",") if name] or list(TARGETS)
    unknown = [name for name in names if name not in TARGETS]
    if unknown or arguments.list:
        print("\n".join(TARGETS) if not unknown else f"no target is called {', '.join(unknown)}")
        return 2 if unknown else 0
    seed = random.SystemRandom().randrange(10**6) if arguments.seed is None else arguments.seed
    guided = is_here("atheris") and not arguments.by_chance
    print(f"seed {seed}, {'guided by coverage' if guided else 'by chance: atheris is not here'}")
    log, faults = RunLog("fuzz"), 0
    for name in names:
        target = TARGETS[name]
        if not is_here(target.needs):
            print(f"{name}: left out, {target.needs} is not installed")
            continue
        begun = time.monotonic()
        found = fuzz(target, arguments.inputs, seed, guided=guided)
        seconds = round(time.monotonic() - begun, 1)
        print(
            f"{name}: {found.inputs} inputs in {seconds} s, {len(found.faults)} faults", flush=True
        )
        for text, data in found.faults:
            print(f"  FAULT {text}\n    {data.hex()[:2000]}", flush=True)
        faults += len(found.faults)
        if arguments.record:
            fields = {"target": name, "targets": list(TARGETS), "inputs": found.inputs}
            fields |= {"guided": guided, "seed": seed, "seconds": seconds}
            log.add(
                fields | {"faults": [f"{text}: {data.hex()[:400]}" for text, data in found.faults]}
            )
        if arguments.keep and guided:
            keep_some(target)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
