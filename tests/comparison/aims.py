"""What is aimed at beside the peers, and what a comparison found: each aim, its bound, met or not.

Pure. An aim that nothing was measured for is told as that, and never as met.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final, Literal

from tests.comparison.records import OneRun, Records, line, ratios, value

Beyond = Literal["at least", "at most"]


@dataclass(frozen=True, slots=True)
class Aim:
    """`figure`: a column of a row, and of which part (by its place in the scenario); `against`: the
    side, or with `/` in front another scenario of ours, that the bound is a multiple of."""

    scenario: str
    what: str
    figure: str
    beyond: Beyond
    bound: float
    against: str | None = None
    part: int = 0


_RATE: Final = "requests_per_s"
_ETCD: Final = "etcd, gRPC"
_LITE: Final = "s2 lite"
AIMS: Final = (
    Aim("unary-1", "p50", "p50_ms", "at most", 1.3, _ETCD),
    Aim("unary-64", "rate", _RATE, "at least", 1.5, _ETCD),
    Aim("unary-64", "p99, ms", "p99_ms", "at most", 8.0),
    Aim("unary-256", "rate", _RATE, "at least", 1.0, "/unary-64"),
    Aim("unary-64-slow-disk", "rate", _RATE, "at least", 1.5, _ETCD),
    Aim("batches-kib", "rate", _RATE, "at least", 0.8, _LITE),
    Aim("session", "MiB/s", "mib_per_s", "at least", 150.0),
    Aim("session", "p99, ms", "p99_ms", "at most", 60.0),
    Aim("flat-out", "rate written", _RATE, "at least", 0.9, _LITE),
    Aim("flat-out", "p50 of what is read live, ms", "p50_ms", "at most", 100.0, part=1),
    Aim("flat-out", "MiB/s of a catch-up", "mib_per_s", "at least", 1.0, _LITE, part=2),
    Aim("read-json", "rate", _RATE, "at least", 1.0, _LITE),
    Aim("read-session", "MiB/s", "mib_per_s", "at least", 1.0, _LITE),
    Aim("read-one", "CPU, us", "cpu_us_per_request", "at most", 400.0),
    Aim("follow", "p50, ms", "p50_ms", "at most", 3.0, part=1),
    Aim("follow", "p99, ms", "p99_ms", "at most", 12.0, part=1),
    Aim("followers", "p99, ms", "p99_ms", "at most", 50.0, part=1),
    Aim("followers", "largest process, MiB", "rss_mib_max", "at most", 200.0),
    Aim("beside-bulk", "p99.9, ms", "p99_9_ms", "at most", 25.0),
    Aim("beside-bulk", "worst, ms", "max_ms", "at most", 100.0),
)


def found(records: Records, aim: Aim, ours: str) -> float | None:
    """The median of the rounds: ours, or its ratio to what it is measured against. None: that was
    not measured."""

    def of(side: str, scenario: str) -> list[OneRun]:
        return [
            run
            for run in records.runs
            if (run.side, run.scenario) == (side, scenario) and not run.trouble
        ]

    own = of(ours, aim.scenario)
    if aim.against is None:
        values = [value(run.rows[aim.part], aim.figure) for run in own]
        known = [one for one in values if one is not None]
    elif aim.against.startswith("/"):
        known = ratios(own, of(ours, aim.against[1:]), aim.part, aim.figure)
    else:
        known = ratios(own, of(aim.against, aim.scenario), aim.part, aim.figure)
    return median(known) if known else None


def is_met(aim: Aim, what: float) -> bool:
    """Whether the bound is kept."""
    reached: Callable[[float, float], bool] = (
        float.__ge__ if aim.beyond == "at least" else float.__le__
    )
    return reached(float(what), float(aim.bound))


def aims_table(records: Records, ours: str, aims: Sequence[Aim] = AIMS) -> list[str]:
    """The lines of the table."""
    lines = [line(["scenario", "", "bound", "found", ""]), line(["---"] * 5)]
    for aim in aims:
        times = f" x {aim.against.removeprefix('/')}" if aim.against else ""
        what = found(records, aim, ours)
        verdict = "not measured" if what is None else "met" if is_met(aim, what) else "**not met**"
        shown = "" if what is None else f"{what:,.4g}" if what < 1000 else f"{what:,.0f}"
        lines.append(
            line([aim.scenario, aim.what, f"{aim.beyond} {aim.bound:g}{times}", shown, verdict])
        )
    return lines
