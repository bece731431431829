"""What a load needs comes from figures that were measured, and what a gateway does from metrics."""

from __future__ import annotations

import re
from pathlib import Path

from svc_cluster.cli.data.size_verb import CPU_US_HUNDRED, CPU_US_SINGLE, SizedLoad, needs
from svc_cluster.cli.top import frame_of, parse_metrics

BENCHMARKS = Path(__file__).resolve().parents[3] / "docs" / "benchmarks.md"


def test_the_figures_are_those_of_the_benchmarks() -> None:
    """The rows that the command names, of the page's first table of results."""
    rows = re.findall(
        r"^\| append \| 1024 \| (\d+) \| (\d+) \|.*\| ([\d.]+) \| \{\} \|$",
        BENCHMARKS.read_text(),
        re.MULTILINE,
    )
    assert ("1", "64", str(CPU_US_SINGLE)) in rows
    assert ("100", "16", str(CPU_US_HUNDRED)) in rows


def test_the_formula_gives_its_own_figures_back() -> None:
    """A batch of one and one of a hundred cost what was measured; the rest is arithmetic."""
    for batch, figure in ((1, CPU_US_SINGLE), (100, CPU_US_HUNDRED)):
        load = SizedLoad(
            streams=10, rate=100.0, retention_s=60, record_bytes=1016, batch=batch, replicas=3
        )
        found = {each.name: each.value for each in needs(load)}
        assert abs(found["processors"] * 1e6 / found["appends_per_second"] - figure) < 1e-6
        assert found["bytes_per_second"] == 1000 * 1024
        assert found["kept_bytes"] == 60 * 1000 * 1024
        assert found["disk_bytes_per_node_of_three"] == 2 * found["kept_bytes"]


def test_rates_are_between_two_looks() -> None:
    """Over all labels; a gateway that begins again shows nothing rather than less."""
    page = """# HELP x y
svc_records_appended_total 100.0
svc_appended_bytes_total 2048
svc_http_requests_total{method="GET",route="/a b",code="200"} 10
svc_http_requests_total{method="GET",route="/",code="503"} 4
svc_read_sessions 3
broken{ 1
svc_records_read_total NaN?
"""
    before, now = (
        parse_metrics(page),
        parse_metrics(page.replace("100.0", "300").replace("2048", "0")),
    )
    assert frame_of(now, before, 2.0) == [
        "appends   100 records/s, 0 B/s",
        "reads     0 records/s, 0 B/s",
        "requests  0.0/s, refused 0.0/s, failed 0.0/s",
        "open      0 append sessions, 3 read sessions",
    ]
    later = parse_metrics(page.replace("} 4", "} 6"))
    assert frame_of(later, before, 1.0)[2] == "requests  2.0/s, refused 0.0/s, failed 2.0/s"
