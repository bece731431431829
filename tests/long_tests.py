"""`python -m tests.long_tests --times build/test-times.json`: writes which tests take long.

`make test` leaves these to `make test-long`; continuous integration runs both. The times are those
of a whole run on two quiet cores with `TEST_TIMES=build/test-times.json`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

LIST: Final = Path(__file__).with_name("long_tests.txt")
MARKER: Final = "long"
TIMES: Final = "TEST_TIMES"
"""The environment variable that names a file for the times of a run."""

SHORT_SECONDS: Final = 1_500.0
"""What all tests that are not long take together, whichever of two processes runs them: with the
processes' own start that is below 15 minutes on two cores."""

_HEAD: Final = """\
# Tests that `make test` leaves to `make test-long`, with all their parameters: seconds, and name.
# Made by `python -m tests.long_tests` from the times of a whole run. The others take {left:.0f} s.
"""


def function_of(nodeid: str) -> str:
    """The test without its parameters."""
    return nodeid.partition("[")[0]


def listed(path: Path = LIST) -> dict[str, float]:
    """The functions that are long, and what they took in seconds."""
    found = {}
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            seconds, _, name = line.partition(" ")
            found[name] = float(seconds)
    return found


def mark(items: Sequence[pytest.Item]) -> None:
    """Mark what is on the list."""
    known = listed()
    for item in items:
        if function_of(item.nodeid) in known:
            item.add_marker(MARKER)


def chosen(times: Mapping[str, float], short_seconds: float = SHORT_SECONDS) -> dict[str, float]:
    """The fewest functions without which all others take no longer than `short_seconds`."""
    left = sum(times.values())
    found: dict[str, float] = {}
    for name, seconds in sorted(times.items(), key=lambda item: (-item[1], item[0])):
        if left <= short_seconds:
            break
        found[name] = seconds
        left -= seconds
    return found


def write(times: Mapping[str, float], path: Path = LIST) -> None:
    """Make the list anew."""
    long = chosen(times)
    left = sum(times.values()) - sum(long.values())
    lines = [f"{long[name]:.1f} {name}\n" for name in sorted(long)]
    path.write_text(_HEAD.format(left=left) + "".join(lines))


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.long_tests", description=__doc__)
    parser.add_argument("--times", type=Path, required=True, help="what TEST_TIMES wrote")
    times = json.loads(parser.parse_args(given).times.read_text())
    write(times)
    found = listed()
    print(f"{len(found)} of {len(times)} tests are long: {sum(found.values()):.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
