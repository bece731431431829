"""A line of the scorecard, and the card of all of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

Rows = dict[str, list[dict[str, Any]]]


@dataclass(slots=True)
class Line:
    """One line of the scorecard."""

    measure: str
    target: str
    figure: str
    reached: bool
    bound: str = ""
    """What the runs say about the rate of failures."""


@dataclass(slots=True)
class Card:
    """The lines, and what was left out."""

    lines: list[Line] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    voided: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """Log and row of what was taken back."""

    def add(
        self, measure: str, target: str, figure: str, *, reached: bool, bound: str = ""
    ) -> None:
        self.lines.append(Line(measure, target, figure, reached, bound))
