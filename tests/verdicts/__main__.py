"""`python -m tests.verdicts --histories 500 [--first SEED] [--record]`.

Every tenth history has a planted violation. Fails where the checker and the search say different
things, where one of them takes a lie or refuses the truth, and where the search gives up.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from tests.reliability import RunLog
from tests.verdicts import by_checker, search
from tests.verdicts.plant import planted
from tests.verdicts.world import World

EVERY: Final = 10
"""One history in so many has a violation."""


@dataclass(slots=True)
class Tally:
    histories: int = 0
    planted: int = 0
    operations: int = 0
    undecided: int = 0
    disagreements: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)

    def fields(self) -> dict[str, Any]:
        return {
            "histories": self.histories,
            "planted": self.planted,
            "operations": self.operations,
            "undecided": self.undecided,
            "disagreements": self.disagreements,
            "kinds": dict(sorted(self.kinds.items())),
        }


def judge_both(seed: int, tally: Tally, operations: int) -> None:
    history = World(seed, operations=operations).history()
    if seed % EVERY == 0:
        history = planted(history, seed // EVERY)
        tally.planted += 1
        tally.kinds[history.planted] += 1
    tally.histories += 1
    tally.operations += len(history.events)
    one, other = by_checker.judge(history), search.judge(history)
    tally.undecided += other is None
    truth = not history.planted
    if one != truth or other != truth:
        tally.disagreements.append(
            f"seed {seed} ({history.planted or 'true'}): the checker says {one}, the search {other}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.verdicts", description=__doc__)
    parser.add_argument("--histories", type=int, default=500)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--operations", type=int, default=120, help="of each history")
    parser.add_argument("--record", action="store_true", help="append to docs/reliability")
    arguments = parser.parse_args()
    log, tally, begun = RunLog("verdicts"), Tally(), time.monotonic()
    seeds = range(arguments.first, arguments.first + arguments.histories)
    for seed in seeds:
        judge_both(seed, tally, arguments.operations)
    seconds = round(time.monotonic() - begun, 1)
    for text in tally.disagreements:
        print(f"DISAGREEMENT {text}")
    print(
        f"{tally.histories} histories, {tally.planted} with a planted violation, "
        f"{tally.operations} operations: {len(tally.disagreements)} disagreements, "
        f"{tally.undecided} undecided, in {seconds} s"
    )
    for kind, count in sorted(tally.kinds.items()):
        print(f"  {count:>4} {kind}")
    if arguments.record:
        log.add({"seeds": [seeds.start, seeds.stop], "seconds": seconds, **tally.fields()})
    return 1 if tally.disagreements or tally.undecided else 0


if __name__ == "__main__":
    sys.exit(main())
