"""The table of what the scenes measured, and the record of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from tests.hostile import figures

Measured: TypeAlias = Callable[..., None]

_rows: list[tuple[str, dict[str, Any]]] = []


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Measured:
    """Notes what this test measured, by name."""
    found: dict[str, Any] = {}
    request.node.user_properties.append((figures.FIGURES, found))

    def note(**fields: Any) -> None:
        found.update(fields)

    return note


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    scene = report.nodeid.rpartition("::")[2].removeprefix("test_")
    if report.failed and report.when != "call":
        figures.record(scene, {"when": report.when}, passed=False)  # it measured nothing
    for name, value in report.user_properties:
        if name == figures.FIGURES and report.when == "call" and isinstance(value, dict):
            _rows.append((scene, value))
            figures.record(scene, value, passed=report.passed)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _rows:
        for line in figures.table(_rows):
            terminalreporter.write_line(line)
