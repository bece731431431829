"""What `svc-cluster bench` prints of several runs: medians with their spread, as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import Final

from svc_cluster.lab.load.figures import Figures

SHOWN: Final = (
    *("scenario", "part", "connections", "requests_per_s", "records_per_s", "metered_mib_per_s"),
    *("received_mib_per_s", "p50_ms", "p99_ms", "p99_9_ms", "max_ms", "longest_hole_ms"),
    *("cpu_us_per_request", "rss_mib_max", "device_bytes_per_byte", "unsent", "errors"),
    "generator_cores",
)
"""The columns; those in which no row says anything are left out."""


def medians(rows: Sequence[Figures]) -> Figures:
    """Return one row of the same part's rows, with the median of each figure. Its least and its
    most are under `spread`; errors and what was not sent are added up; marked is what one of them
    marks."""
    assert rows, "at least one run"
    out: Figures = {}
    spread: dict[str, list[float]] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row[name] for row in rows if row.get(name) is not None]
        if name == "errors":
            out[name] = dict(sum((Counter(value) for value in values), Counter()))
        elif name in ("unsent", "elections"):
            out[name] = sum(values)
        elif values and all(isinstance(value, bool) for value in values):
            out[name] = any(values)
        elif values and all(isinstance(value, int | float) for value in values):
            out[name] = round(median(values), 4)
            spread[name] = [min(values), max(values)]
        else:
            out[name] = values[0] if values else None
    out["runs"] = len(rows)
    out["spread"] = spread
    return out


def _cell(row: Figures, name: str) -> str:
    value = row.get(name)
    if value is None or value in ({}, 0.0):
        return "" if value is None or value == {} else "0"
    if name == "generator_cores" and row.get("generator_bound"):
        return f"{value} (!)"
    if name == "errors":
        return ", ".join(f"{kind}: {count}" for kind, count in value.items())
    least, most = row.get("spread", {}).get(name, (value, value))
    varied = isinstance(value, float) and row.get("runs", 1) > 1 and least != most
    return f"{value} ({least} to {most})" if varied else str(value)


def table(rows: Sequence[Figures]) -> list[list[str]]:
    """Names of the columns, then the rows; what no row says is left out."""
    shown = [name for name in SHOWN if any(_cell(row, name) not in ("", "0") for row in rows)]
    return [list(shown), *([_cell(row, name) for name in shown] for row in rows)]


def markdown(rows: Sequence[Figures]) -> str:
    """The same for a document."""
    head, *body = table(rows)
    lines = [head, ["---"] * len(head), *body]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
