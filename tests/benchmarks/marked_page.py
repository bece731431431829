"""A page of the documentation in which a command writes what stands between two marks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

BENCHMARKS: Final = Path(__file__).parents[2] / "docs" / "benchmarks.md"


def write_between(name: str, lines: Sequence[str], page: Path = BENCHMARKS) -> None:
    """Put these lines in place of what stands between the marks of that name. Raises ValueError
    where the page has not both of them, once."""
    begin, end = (f"<!-- {name}: {side} -->" for side in ("begin", "end"))
    before, rest = page.read_text().split(begin)
    _, behind = rest.split(end)
    page.write_text("\n".join([before + begin, "", *lines, "", end + behind]))
