"""`python -m tests.mutants`: plants each bug of the list in a copy of the tree, one at a time, and
runs the tests that claim to guard the rule it breaks.

Fails where a mutant survives, no longer applies, or has a guard that is red without it.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
from pathlib import Path
from typing import Final

from tests.mutants.catalogue import Mutant, MutantError, load
from tests.mutants.ledger import Ledger
from tests.mutants.runner import TOTAL_SECONDS_MAX, Outcome, run
from tests.reliability import DIRECTORY, ROOT

LEDGER: Final = DIRECTORY / "mutants.jsonl"


def _arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", default="*", help="names or a pattern of names, as `wal-*`")
    parser.add_argument("--area", action="append", help="raft, storage, ...; may be repeated")
    parser.add_argument(
        "--changed", action="store_true", help="those whose files are not as they were recorded"
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=TOTAL_SECONDS_MAX / 60,
        help="begin nothing more after this long",
    )
    parser.add_argument(
        "--attempts", type=int, default=1, help="before a fault is one; each but the last is told"
    )
    parser.add_argument("--record", action="store_true", help=f"write {LEDGER.name}")
    parser.add_argument("--list", action="store_true", help="only say which there are")
    return parser.parse_args(given)


def chosen(mutants: list[Mutant], arguments: argparse.Namespace, ledger: Ledger) -> list[Mutant]:
    return [
        mutant
        for mutant in mutants
        if fnmatch.fnmatch(mutant.name, arguments.only)
        and (not arguments.area or mutant.area in arguments.area)
        and not (arguments.changed and ledger.knows(mutant))
    ]


def summary(outcome: Outcome, *, bounded: bool) -> int:
    """Prints what came of it; returns the exit status."""
    for fault in outcome.faults:
        print(f"FAULT {fault}")
    if outcome.left:
        print(f"\n{'!' * 78}\nNOT RUN, the time was over: {len(outcome.left)} mutants\n{'!' * 78}")
        for mutant in outcome.left:
            print(f"NOT RUN {mutant.area} {mutant.name}")
    print(
        f"{len(outcome.caught)} caught, {len(outcome.faults)} faults, {len(outcome.left)} not run,"
        f" in {outcome.seconds / 60:.1f} minutes"
    )
    return 1 if outcome.faults or (outcome.left and not bounded) else 0


def main(given: list[str] | None = None, root: Path = ROOT) -> int:
    arguments = _arguments(given)
    try:
        everything = load(root / "tests" / "mutants")
    except MutantError as error:
        print(f"FAULT {error}")
        return 1
    ledger = Ledger(root / LEDGER.relative_to(ROOT), root)
    mutants = chosen(everything, arguments, ledger)
    if arguments.list:
        for mutant in mutants:
            print(f"{mutant.area:8} {mutant.name:48} {mutant.rule}")
        return 0
    outcome = run(root, mutants, seconds_max=arguments.minutes * 60, attempts=arguments.attempts)
    if arguments.record:
        ledger.write(everything, outcome.caught)
    return summary(outcome, bounded=arguments.minutes * 60 < TOTAL_SECONDS_MAX)


if __name__ == "__main__":
    sys.exit(main())
