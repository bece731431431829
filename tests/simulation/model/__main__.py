"""`python -m tests.simulation.model --runs 1000 --start 0 --steps 3000`.

`--mistake NAME` (more than once) leaves a rule out, and `--list` names them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.simulation.model.mistakes import Mistake
from tests.simulation.model.walk import Options, run


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.model", description=__doc__)
    parser.add_argument("--runs", type=int, default=1000, help="how many walks to take")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--steps", type=int, default=900, help="steps of a walk before the calm")
    parser.add_argument("--nodes", type=int, default=5, choices=(3, 4, 5))
    parser.add_argument("--seconds", type=float, default=3600.0, help="begin no walk after these")
    parser.add_argument("--stop", action="store_true", help="stop at the first violation")
    parser.add_argument("--mistake", action="append", default=[], choices=[m.name for m in Mistake])
    parser.add_argument("--list", action="store_true", help="list the mistakes")
    return parser.parse_args()


def main() -> int:
    arguments = _arguments()
    if arguments.list:
        for mistake in Mistake:
            print(f"{mistake.name}: {mistake.value}")
        return 0
    mistakes = frozenset(Mistake[name] for name in arguments.mistake)
    began, runs = time.monotonic(), 0
    counts: Counter[str] = Counter()
    found: Counter[str] = Counter()
    for seed in range(arguments.start, arguments.start + arguments.runs):
        if time.monotonic() - began > arguments.seconds:
            break
        options = Options(seed, arguments.steps, arguments.nodes, mistakes=mistakes)
        outcome = run(options)
        runs += 1
        counts.update(outcome.counts)
        if outcome.violation is not None:
            found[outcome.violation.split()[0]] += 1
            print(f"seed {seed}: {outcome.violation}", flush=True)
            if arguments.stop:
                break
    told = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    print(
        f"{runs} runs in {time.monotonic() - began:.1f} s: {dict(found) or 'no violation'}; {told}"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
