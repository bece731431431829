"""The pieces that long runs are made of: each a command that records what came of it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Final

PIECE_SECONDS_MAX: Final = 2400.0
"""No piece runs longer: what it recorded until then counts, the rest is lost."""


@dataclass(frozen=True, slots=True)
class Piece:
    """`arguments` of the interpreter, in which `{first}`, `{count}` and `{jobs}` are replaced.

    `family` names the numbers that its seeds are drawn from; `count` is how many one run takes.
    `measures` are the beginnings of the scorecard's lines that it works on: it is left out while
    all of them are reached and others are not.
    """

    name: str
    arguments: tuple[str, ...]
    family: str
    count: int
    seconds: float
    """About how long a run takes on two cores, before one was measured."""
    measures: tuple[str, ...]
    variables: tuple[tuple[str, str], ...] = ()

    def command(self, first: int, jobs: int) -> list[str]:
        return [
            sys.executable,
            *(
                argument.format(first=first, count=self.count, jobs=jobs)
                for argument in self.arguments
            ),
        ]


def _module(name: str, arguments: str) -> tuple[str, ...]:
    return ("-m", name, *arguments.split())


def _pytest(arguments: str) -> tuple[str, ...]:
    return ("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *arguments.split())


def _recorded(**variables: str) -> tuple[tuple[str, str], ...]:
    return (("RECORD", "1"), *variables.items())


PIECES: Final = (
    Piece(
        "core",
        _module("tests.simulation.core", "--start {first} --seeds {count} --jobs {jobs} --record"),
        "core",
        600,
        900.0,
        ("core simulation",),
    ),
    Piece(
        "full",
        _module("tests.simulation", "--seed {first} --seeds {count} --jobs {jobs} --record"),
        "full",
        200,
        900.0,
        ("full-stack simulation",),
    ),
    Piece(
        "chaos",
        _module("tests.chaos", "--rounds 50 --seed {first} --resume --record"),
        "chaos",
        1,
        900.0,
        ("live histories", "kill -9 cycles", "power-loss cycles"),
    ),
    Piece(
        "long",
        _module(
            "tests.chaos",
            "--rounds 1 --rows D1 --operations 500000 --seed {first} --resume --record",
        ),
        "long",
        1,
        2300.0,
        ("the longest live history",),
    ),
    Piece(
        "kills",
        _pytest("--timeout 2300 tests/e2e/test_kill_leader.py"),
        "",
        0,
        900.0,
        ("kill -9 cycles", "failover"),
        _recorded(KILL_ROUNDS="60"),
    ),
    Piece(
        "restarts",
        _pytest("--timeout 2300 tests/e2e/test_planned_restarts.py"),
        "",
        0,
        600.0,
        ("planned restarts",),
        _recorded(RESTART_ROUNDS="100"),
    ),
    Piece(
        "power",
        _pytest("--timeout 2300 tests/e2e/test_power_loss.py"),
        "",
        0,
        600.0,
        ("power-loss cycles",),
        _recorded(POWER_ROUNDS="20"),
    ),
    Piece(
        "verdicts",
        _module("tests.verdicts", "--first {first} --histories {count} --record"),
        "verdicts",
        500,
        300.0,
        ("histories judged",),
    ),
    Piece(
        "fuzz",
        _module("tests.fuzz", "--seed {first} --inputs 10000 --record"),
        "fuzz",
        1,
        1800.0,
        ("spoilt inputs",),
    ),
    Piece(
        "corruption",
        _module("tests.corruption", "--trials 250 --seed {first} --record"),
        "corruption",
        1,
        200.0,
        ("corruption trials",),
    ),
    Piece(
        "ambiguous",
        _module("tests.chaos.ambiguous", "--outcomes 500 --seed {first} --record"),
        "ambiguous",
        1,
        600.0,
        ("writes of unknown",),
    ),
    Piece(
        "usage",
        _module("tests.chaos.usage_sums", "--kills 25 --retries 500 --seed {first} --record"),
        "usage",
        1,
        600.0,
        ("usage:",),
    ),
    Piece(
        "hostile",
        _pytest("--show-capture=no --timeout 1200 tests/hostile"),
        "",
        0,
        900.0,
        ("hostile clients",),
        _recorded(HOSTILE_SCALE="3"),
    ),
    Piece(
        "crashpoints",
        _module("tests.crashpoints", "--seed {first} --record"),
        "crashpoints",
        1,
        800.0,
        ("crash points",),
    ),
    Piece(
        "space",
        _pytest("--timeout 2300 tests/e2e/test_space.py"),
        "",
        0,
        900.0,
        ("space:",),
        _recorded(
            SPACE_MIB="2048", SPACE_OTHERS_MIB="512", SPACE_NODES="3", SPACE_SEGMENT_MIB="16"
        ),
    ),
)
"""In the order of their turns."""
