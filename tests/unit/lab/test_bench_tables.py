"""Tables of several runs."""

from __future__ import annotations

from typing import Any

from svc_cluster.lab.bench_tables import markdown, medians, table


def _row(rate: float, **more: Any) -> dict[str, Any]:
    row = {"scenario": "s", "part": "p", "connections": 4, "requests_per_s": rate}
    return row | {"errors": {}, "unsent": 0, "generator_bound": False, "p99_ms": None} | more


def test_a_row_is_the_median_with_its_spread() -> None:
    """Of three runs the middle one, and beside it the least and the most."""
    row = medians([_row(3.0), _row(1.0), _row(2.0)])
    assert row["requests_per_s"] == 2.0
    assert row["spread"]["requests_per_s"] == [1.0, 3.0]
    assert row["runs"] == 3
    assert "2.0 (1.0 to 3.0)" in markdown([row])


def test_errors_add_up_and_marks_stay() -> None:
    """What went wrong in one run of three is in no median."""
    bad = _row(1.0, errors={"503/none": 2}, unsent=5, generator_bound=True, generator_cores=0.6)
    row = medians([bad, _row(1.0, generator_cores=0.1), _row(1.0, generator_cores=0.1)])
    assert row["errors"] == {"503/none": 2}
    assert row["unsent"] == 5
    head, line = table([row])
    assert line[head.index("generator_cores")] == "0.1 (!)"
    assert line[head.index("errors")] == "503/none: 2"


def test_columns_in_which_nothing_stands_are_left_out() -> None:
    """A table of appends has no column of what was received."""
    head, _ = table([medians([_row(1.0)])])
    assert head == ["scenario", "part", "connections", "requests_per_s"]
