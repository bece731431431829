"""`python -m tests.simulation.seals --seeds 200 --start 0`.

`--mistake NAME` leaves out a rule of who performs, and `--list` names them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import replace

from tests.simulation.seals.options import HostMistake, draw
from tests.simulation.seals.world import run


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.seals", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to run")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--stop", action="store_true", help="stop at the first violation")
    parser.add_argument("--mistake", choices=[mistake.name for mistake in HostMistake])
    parser.add_argument("--list", action="store_true", help="list the mistakes")
    return parser.parse_args()


def main() -> int:
    arguments = _arguments()
    if arguments.list:
        for each in HostMistake:
            print(f"{each.name}: {each.value}")
        return 0
    mistake = None if arguments.mistake is None else HostMistake[arguments.mistake]
    began, done = time.monotonic(), 0
    counts: Counter[str] = Counter()
    found: Counter[str] = Counter()
    for seed in range(arguments.start, arguments.start + arguments.seeds):
        outcome = run(replace(draw(seed), mistake=mistake))
        done += 1
        counts.update(outcome.counts)
        counts.update(acked=outcome.acked, reads=outcome.reads)
        if outcome.violation is not None:
            found[outcome.violation.split()[0]] += 1
            print(f"seed {seed}: {outcome.violation}", flush=True)
            if arguments.stop:
                break
    told = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    seconds = time.monotonic() - began
    print(f"{done} seeds in {seconds:.1f} s: {dict(found) or 'no violation'}; {told}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
