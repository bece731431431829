"""What holds for every test."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import settings

from svc_cluster import _native
from tests import long_tests, second_attempts

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # started in the background of a shell: programs that tests interrupt would pass over it, too
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")
"""How long an example takes says how busy the machine is."""

_native.use(wanted=os.environ.get("SVC_CLUSTER_NATIVE") != "off")

SIMULATED: Final = "simulated"
"""A test's user property: what its simulation came to, by name."""

FLOORS: Final = ((100, 300, 3), (20, 80, 1))
"""From so many seeds on: what a seed acknowledges, and its crashes, on average at least. Twenty,
which `make test` plays, differ more from each other than a hundred."""

_simulated: Counter[str] = Counter()

_seconds: defaultdict[str, float] = defaultdict(float)
"""What the tests of each suite took together, by its folder, set-up included."""

_function_seconds: defaultdict[str, float] = defaultdict(float)
"""The same of each test, with all its parameters."""

_attempts: Final = second_attempts.Attempts()

_unpickled: list[tuple[Any, ...]] = []


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if event == "pickle.find_class":
        _unpickled.append(args)


sys.addaudithook(_audit)


@pytest.fixture(autouse=True)
def lines_go_where_they_went() -> Iterator[None]:
    """A test may run a command, which sends the service's lines to a stream of that test. The next
    one in this process reads its lines where pytest collects them."""
    ours, root = logging.getLogger("svc_cluster"), logging.getLogger()
    before = (ours.handlers[:], ours.level, ours.propagate, root.level)
    yield
    ours.handlers[:], level, ours.propagate, root_level = before
    ours.setLevel(level)
    root.setLevel(root_level)
    root.handlers[:] = [one for one in root.handlers if type(one) is not logging.StreamHandler]


@pytest.fixture(autouse=True)
def nothing_is_unpickled() -> Iterator[None]:
    """No test may make this process turn bytes into objects of any class."""
    _unpickled.clear()
    yield
    assert not _unpickled, f"unpickled: {_unpickled}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    long_tests.mark(items)
    second_attempts.allow(items, {item.nodeid: suite_of(item.nodeid) for item in items})


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    second_attempts.begin_afresh(item)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _attempts.add(report)
    _seconds[suite_of(report.nodeid)] += report.duration
    _function_seconds[long_tests.function_of(report.nodeid)] += report.duration
    for name, value in report.user_properties:
        if name == SIMULATED and report.when == "call" and isinstance(value, dict):
            _simulated.update(value)


def suite_of(nodeid: str) -> str:
    """The folder below tests/ that a test is in; its file where it is in none."""
    parts = nodeid.partition("::")[0].split("/")
    return parts[1] if len(parts) > 2 else parts[-1]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The time of each suite, all workers' added up, and the totals of the simulated clusters, so
    that a reader sees where time goes and what green stands for."""
    if len(_seconds) > 1:
        slowest = sorted(_seconds, key=lambda suite: -_seconds[suite])
        text = ", ".join(f"{suite} {_seconds[suite]:.0f} s" for suite in slowest)
        terminalreporter.write_line(f"suites: {text}")
    if _simulated:
        text = " ".join(f"{name} {value:,}" for name, value in _simulated.items())
        terminalreporter.write_line(f"simulated clusters: {text}")
    for line in _attempts.lines():
        terminalreporter.write_line(line)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A large sample that did too little proves nothing and fails; so do many second attempts."""
    times = os.environ.get(long_tests.TIMES)
    if times and not hasattr(session.config, "workerinput"):
        told = {name: round(seconds, 2) for name, seconds in _function_seconds.items()}
        Path(times).parent.mkdir(parents=True, exist_ok=True)
        Path(times).write_text(json.dumps(told, indent=1, sort_keys=True) + "\n")
    if _attempts.too_many:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    seeds = _simulated["seeds"]
    floor = next((each for each in FLOORS if seeds >= each[0]), None)
    if floor is not None and exitstatus == 0:
        acked, crashes = _simulated["acked"] / seeds, _simulated["crashes"] / seeds
        if acked < floor[1] or crashes < floor[2]:
            print(f"\nsimulated too little: {acked:.0f} acked, {crashes:.1f} crashes a seed")
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
