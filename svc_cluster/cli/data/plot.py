"""Series of numbers as blocks of a terminal, a column for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
_LEVELS: Final = len(_BLOCKS) - 1


def columns(values: Sequence[float], width: int, *, adds_up: bool) -> list[float]:
    """Return at most `width` numbers: neighbours are added up, or the largest of them is taken."""
    assert width > 0, "there is room"
    at_once = -(-len(values) // width)
    cut = [values[i : i + at_once] for i in range(0, len(values), max(1, at_once))]
    return [sum(part) if adds_up else max(part) for part in cut]


def plot(values: Sequence[float], height: int) -> list[str]:
    """Return lines of blocks, the highest first. What is above nothing is shown by a block at
    least; the largest number fills its column."""
    most = max(values, default=0.0)
    levels = [_level(value, most, height * _LEVELS) for value in values]
    lines = []
    for row in range(height - 1, -1, -1):
        floor = row * _LEVELS
        line = "".join(_BLOCKS[min(max(level - floor, 0), _LEVELS)] for level in levels)
        lines.append(line.rstrip())
    return lines


def _level(value: float, most: float, levels: int) -> int:
    if value <= 0 or most <= 0:
        return 0
    return max(1, round(value / most * levels))
