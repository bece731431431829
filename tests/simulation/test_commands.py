"""The commands that play seeds start, in several processes too."""

from __future__ import annotations

import subprocess
import sys

import pytest

COMMAND_S = 120.0


@pytest.mark.parametrize(
    ("module", "words", "told"),
    [
        ("tests.simulation.core", ["--start", "3"], "2 seeds in "),
        ("tests.simulation", ["--seed", "3", "--seconds", "5"], "seeds 2 failed 0 "),
    ],
)
def test_seeds_are_played_in_several_processes(module: str, words: list[str], told: str) -> None:
    """A worker process has to find what it runs; each seed comes back once."""
    command = [sys.executable, "-m", module, *words, "--seeds", "2", "--jobs", "2"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stderr[-2000:]
    assert told in ended.stdout and "violation" not in ended.stdout, ended.stdout
