"""A test of real processes may be run a second time, where that is asked for, and is told by name.

A machine that others use too starves a process for seconds now and then; one such failure among
thousands of tests said nothing about the change under test. What is drawn from a seed or decided
without processes gets no second attempt: it fails as it failed.

A second attempt begins as if it were the first test of a run: whatever fixture there is, of any
scope, is finished before, so that it starts servers of its own, in which no name is taken. The
tests behind it use those. It also has the whole time limit of a test.
"""

from __future__ import annotations

import os
from typing import Final

import pytest
import pytest_timeout  # type: ignore[import-untyped]
from pytest_rerunfailures import suspended_finalizers  # type: ignore[import-untyped]

ASKED_FOR: Final = "SECOND_ATTEMPTS"
"""The environment variable that allows second attempts; continuous integration sets it to 1."""

OF_PROCESSES: Final = frozenset({"containers", "contract", "e2e", "hostile", "integration"})
"""The suites whose tests start processes or wait for sockets."""

ATTEMPTS_MAX: Final = 5
"""More second attempts than this in one run are a fault of the code, and fail the run."""


def allow(items: list[pytest.Item], suite_of_item: dict[str, str]) -> None:
    """Let each test of processes be run once more, if the environment asks for it."""
    if os.environ.get(ASKED_FOR) != "1":
        return
    for item in items:
        if suite_of_item[item.nodeid] in OF_PROCESSES:
            item.add_marker(pytest.mark.flaky(reruns=1))


def begin_afresh(item: pytest.Item) -> None:
    """Finish every fixture that the first attempt has left, if this is the second one of `item`.

    What goes wrong in that is of the first attempt, and is shown only if the second fails too.
    """
    if getattr(item, "execution_count", 1) < 2:
        return
    # The plugin keeps what ends the fixtures of modules and sessions for behind the last attempt.
    setup = item.session._setupstate
    setup.stack.update(suspended_finalizers)
    suspended_finalizers.clear()
    try:
        setup.teardown_exact(None)
    except (Exception, pytest.fail.Exception) as failure:
        item.add_report_section("setup", "end of the first attempt", repr(failure))
    hooks = item.config.pluginmanager.hook
    hooks.pytest_timeout_cancel_timer(item=item)
    settings = pytest_timeout._get_item_settings(item)
    if settings.timeout is not None and settings.timeout > 0 and settings.func_only is False:
        hooks.pytest_timeout_set_timer(item=item, settings=settings)


class Attempts:
    """The first attempts that failed in this run, with the last line of what they said."""

    def __init__(self) -> None:
        self.failed: list[tuple[str, str]] = []

    def add(self, report: pytest.TestReport) -> None:
        # The plugin's own word, which pytest's type does not list.
        if str(report.outcome) == "rerun":
            lines = report.longreprtext.strip().splitlines() or [""]
            reason = next((line for line in lines if line.startswith("E ")), lines[-1])
            self.failed.append((report.nodeid, reason.removeprefix("E").strip()))

    @property
    def too_many(self) -> bool:
        return len(self.failed) > ATTEMPTS_MAX

    def lines(self) -> list[str]:
        """What the end of a run says of them."""
        told = [f"second attempt: {nodeid}: {reason}" for nodeid, reason in self.failed]
        if self.too_many:
            told.append(f"{len(self.failed)} second attempts, of which {ATTEMPTS_MAX} may be")
        return told
