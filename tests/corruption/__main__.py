"""Damage to real data directories: `python -m tests.corruption --trials 1000 --record`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from tests.corruption import dataset
from tests.corruption.trials import Trials
from tests.reliability import RunLog


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.corruption", description=__doc__)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--clusters", type=int, help="trials with whole clusters, of all trials")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=Path, help="a data set made before; made anew otherwise")
    parser.add_argument("--record", action="store_true", help="append to docs/reliability")
    arguments = parser.parse_args()
    log = RunLog("corruption")
    with tempfile.TemporaryDirectory(prefix="corruption-") as name:
        scratch = Path(name)
        if arguments.data is not None:
            data = dataset.load(arguments.data)
        else:
            data = dataset.make(scratch / "data", arguments.seed)
        totals = Trials(data, scratch, arguments.seed).run(
            arguments.trials, arguments.clusters, _say
        )
    row = totals.row()
    sys.stdout.write(json.dumps(row, indent=1) + "\n")
    for failure in totals.failures:
        sys.stdout.write(f"\n{failure}\n")
    if arguments.record:
        log.add({"seed": arguments.seed, **row})
    return 1 if totals.failures else 0


def _say(line: str) -> None:
    sys.stderr.write(f"\r{line}")


if __name__ == "__main__":
    raise SystemExit(main())
