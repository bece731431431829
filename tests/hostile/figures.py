"""What the scenes measured: a line each in the table behind them, and in the record of a run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

from tests.hostile.scale import SCALE
from tests.reliability import record_if_asked

FIGURES: Final = "hostile"
"""A test's user property: what it measured, by name."""

COLUMNS: Final = ("node_mib", "gateway_mib", "p99_ms", "refusals")
"""What the table shows of every scene; `-` where a scene does not measure it. Memory is the most
that any process of the kind took; p99 that of the client who behaves; refusals are those that
anybody was answered."""


def p99_ms(seconds: Sequence[float]) -> int | None:
    """The time that 99 in 100 do not exceed; None of nothing."""
    if not seconds:
        return None
    return round(1000 * sorted(seconds)[max(0, math.ceil(0.99 * len(seconds)) - 1)])


def record(scene: str, measured: dict[str, Any], *, passed: bool) -> None:
    """One line of docs/reliability/hostile.jsonl where RECORD=1 is set."""
    record_if_asked("hostile", {"scene": scene, "scale": SCALE, "passed": passed} | measured)


def table(rows: Iterable[tuple[str, dict[str, Any]]]) -> list[str]:
    """One line a scene; what has no column stands behind it by name."""
    lines = [f"{'scene':<60} {'node MiB':>9} {'gateway MiB':>12} {'p99 ms':>7} {'refusals':>9}"]
    for scene, measured in rows:
        shown = [measured.get(name) for name in COLUMNS]
        cells = ["-" if value is None else str(value) for value in shown]
        rest = " ".join(f"{k}={v}" for k, v in measured.items() if k not in COLUMNS)
        lines.append(
            f"{scene[:60]:<60} {cells[0]:>9} {cells[1]:>12} {cells[2]:>7} {cells[3]:>9}  {rest}"
        )
    return lines
