"""Second attempts are for tests of processes alone, are told by name, and are few."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.second_attempts import ASKED_FOR, ATTEMPTS_MAX

ROOT = Path(__file__).parents[2]

PLUGINS = """
[tool.pytest.ini_options]
addopts = "-p no:schemathesis -p no:anyio"
"""
"""Without those that the project's own runs are without; they take long to load."""

FAILS_FIRST = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", range({count}))
def test_first(number):
    seen = Path(__file__).with_name(f"seen{{number}}")
    if not seen.exists():
        seen.touch()
        raise AssertionError("starved")
"""


SHARED = """
import itertools
import os
from pathlib import Path
import pytest

LIVES = itertools.count()
LOG = Path(__file__).with_name("log")

def note(text):
    with LOG.open("a") as log:
        log.write(text + "\\n")

@pytest.fixture(scope="session")
def disk():
    number = next(LIVES)
    note(f"disk {number}")
    yield number
    note(f"disk {number} ends")

@pytest.fixture(scope="module", params=["one", "two"])
def server(request, disk):
    note(f"{request.param} on {disk}")
    yield {"disk": disk, "names": set()}
    note(f"{request.param} on {disk} ends")
    assert disk != 0, "its end goes wrong"

@pytest.fixture(scope="module")
def needs_time(server):
    note("starting")
    if server["disk"] == 1:
        raise RuntimeError("starved while it started")
    yield
    note("started ends")

@pytest.fixture(scope="module")
def beside(needs_time):
    note("beside")
    yield
    note("beside ends")

def test_before(server):
    assert not server["names"]

def test_takes_a_name(server):
    assert "basin" not in server["names"], "taken"
    server["names"].add("basin")
    assert server["disk"] != 0, "starved"

def test_sees_what_the_second_attempt_made(server):
    assert server["names"] == {"basin"}

def test_whose_server_starts_late(beside, server):
    assert server["disk"] == 2

def test_afterwards(beside, server):
    assert server["disk"] == 2
"""

ENDLESS = """
import itertools
import signal
import time
import pytest

ATTEMPTS = itertools.count()

@pytest.mark.timeout(5)
def test_hangs_first():
    if next(ATTEMPTS) == 0:
        time.sleep(600)
    assert signal.getitimer(signal.ITIMER_REAL)[0] > 0, "nothing would end it"
"""


def run(directory: Path, suite: str, count: int, *, asked: bool) -> tuple[int, str]:
    """A run of tests that fail at their first attempt, in a suite of that name, on two workers."""
    return run_planted(directory, suite, FAILS_FIRST.format(count=count), "-n", "2", asked=asked)


def run_planted(
    directory: Path, suite: str, planted: str, *more: str, asked: bool
) -> tuple[int, str]:
    """A run of such tests as are planted in a suite of that name."""
    folder = directory / "planted" / suite
    folder.mkdir(parents=True)
    (directory / "pyproject.toml").write_text(PLUGINS)
    (directory / "planted" / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (folder / "test_planted.py").write_text(planted)
    environment = {name: value for name, value in os.environ.items() if name != ASKED_FOR}
    environment |= {"PYTHONPATH": str(ROOT)} | ({ASKED_FOR: "1"} if asked else {})
    command = [sys.executable, "-m", "pytest", "--import-mode=importlib", *more, "planted"]
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=290
    )
    return done.returncode, done.stdout


def test_a_test_of_processes_is_run_again_and_told(tmp_path: Path) -> None:
    status, out = run(tmp_path, "e2e", 2, asked=True)
    assert status == 0, out
    assert "2 passed, 2 rerun" in out
    for number in range(2):
        nodeid = f"planted/e2e/test_planted.py::test_first[{number}]"
        assert f"second attempt: {nodeid}: AssertionError: starved" in out


def test_nothing_is_run_again_unless_asked_for(tmp_path: Path) -> None:
    status, out = run(tmp_path, "e2e", 1, asked=False)
    assert status == 1, out
    assert "1 failed" in out


def test_what_is_decided_without_processes_fails_as_it_failed(tmp_path: Path) -> None:
    status, out = run(tmp_path, "simulation", 1, asked=True)
    assert status == 1, out
    assert "1 failed" in out
    assert "second attempt" not in out


def test_many_second_attempts_fail_the_run(tmp_path: Path) -> None:
    status, out = run(tmp_path, "e2e", ATTEMPTS_MAX + 1, asked=True)
    assert status == 1, out
    assert f"{ATTEMPTS_MAX + 1} second attempts, of which {ATTEMPTS_MAX} may be" in out


@pytest.mark.parametrize("workers", [(), ("-n", "2", "--dist", "loadfile")], ids=["one", "two"])
def test_a_second_attempt_begins_with_fixtures_of_its_own(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    """Of every scope, with parameters, and whatever the end of the first ones comes to; the tests
    behind it share them. What was started is ended, once, in order."""
    status, out = run_planted(tmp_path, "e2e", SHARED, *workers, asked=True)
    assert status == 0, out
    assert "10 passed, 2 rerun" in out, out
    assert "test_takes_a_name[one]: AssertionError: starved" in out
    assert "test_whose_server_starts_late[one]: RuntimeError: starved while it started" in out
    log = (tmp_path / "planted" / "e2e" / "log").read_text().splitlines()
    life = ["{0} on 2", "starting", "beside", "beside ends", "started ends", "{0} on 2 ends"]
    assert log == [
        *("disk 0", "one on 0", "one on 0 ends", "disk 0 ends"),
        *("disk 1", "one on 1", "starting", "one on 1 ends", "disk 1 ends"),
        "disk 2",
        *(line.format("one") for line in life),
        *(line.format("two") for line in life),
        "disk 2 ends",
    ]


def test_a_second_attempt_has_a_time_limit_again(tmp_path: Path) -> None:
    """Were it to hang too, it would be ended as the first was."""
    status, out = run_planted(tmp_path, "e2e", ENDLESS, asked=True)
    assert status == 0, out
    assert "1 passed, 1 rerun" in out
