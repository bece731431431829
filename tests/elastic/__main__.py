"""`python -m tests.elastic`: a cluster grows, loses a node, shrinks and is restarted under load.

With `--release 0.2` it begins with that release, and is upgraded to this one under the same load.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from pathlib import Path

from tests.compatibility.programs import NoHistoryError, build
from tests.elastic.run import run
from tests.own_nodes import PLACES


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.elastic", description=__doc__)
    parser.add_argument("--basins", type=int, default=60)
    parser.add_argument("--nodes", type=int, default=5, help="that the three grow to, 4 to 9")
    parser.add_argument("--think", type=float, default=1.0, help="seconds between two requests")
    parser.add_argument(
        "--release", default="", help="that all begin with, as 0.2, and are upgraded from first"
    )
    parser.add_argument("--seed", type=int, help="default: drawn, and printed")
    parser.add_argument("--keep", type=Path, help="write the histories here, also of a good run")
    return parser.parse_args()


def main(options: argparse.Namespace) -> int:
    if not 4 <= options.nodes <= PLACES:
        print(f"--nodes is {options.nodes}: use 4 to {PLACES}")
        return 2
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    print(f"seed {seed}")
    with tempfile.TemporaryDirectory(prefix="svc-elastic-") as scratch:
        earlier = None
        if options.release:
            try:
                earlier = build(options.release, Path(scratch) / "earlier")
            except (KeyError, NoHistoryError) as cause:
                print(f"--release {options.release} cannot be built here: {cause}")
                return 2
        asyncio.run(
            run(
                Path(scratch),
                basins=options.basins,
                joined=tuple(range(4, options.nodes + 1)),
                think_s=options.think,
                seed=seed,
                keep=options.keep,
                earlier=earlier,
            )
        )
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(arguments()))
    except AssertionError as fault:
        sys.exit(f"FAILED: {fault}"[:4000])
