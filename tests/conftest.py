"""What holds for every test."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import settings

settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")
"""How long an example takes says how busy the machine is."""

SIMULATED: Final = "simulated"
"""A test's user property: what its simulation came to, by name."""

ACKED_PER_SEED_MIN: Final = 300
CRASHES_PER_SEED_MIN: Final = 3

_simulated: Counter[str] = Counter()

_unpickled: list[tuple[Any, ...]] = []


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if event == "pickle.find_class":
        _unpickled.append(args)


sys.addaudithook(_audit)


@pytest.fixture(autouse=True)
def nothing_is_unpickled() -> Iterator[None]:
    """No test may make this process turn bytes into objects of any class."""
    _unpickled.clear()
    yield
    assert not _unpickled, f"unpickled: {_unpickled}"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    for name, value in report.user_properties:
        if name == SIMULATED and report.when == "call" and isinstance(value, dict):
            _simulated.update(value)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The totals of the simulated clusters, so that a reader sees what green stands for."""
    if _simulated:
        text = " ".join(f"{name} {value:,}" for name, value in _simulated.items())
        terminalreporter.write_line(f"simulated clusters: {text}")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A large enough sample that did too little proves nothing, and fails."""
    seeds = _simulated["seeds"]
    if seeds >= 100 and exitstatus == 0:
        acked, crashes = _simulated["acked"] / seeds, _simulated["crashes"] / seeds
        if acked < ACKED_PER_SEED_MIN or crashes < CRASHES_PER_SEED_MIN:
            print(f"\nsimulated too little: {acked:.0f} acked, {crashes:.1f} crashes a seed")
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
