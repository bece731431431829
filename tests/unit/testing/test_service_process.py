"""A process that a test starts as a context has to end in order."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.service_process import ServiceProcess


def shell(place: Path, trap: str, end_s: float = 30.0) -> ServiceProcess:
    """One that does this when it is told to end."""
    os.mkfifo(place / "is up")
    script = f"trap '{trap}' TERM; echo up; echo >'{place}/is up'; while :; do sleep 0.05; done"
    return ServiceProcess(["/bin/sh", "-c", script], place / "log", end_s=end_s)


def test_what_ends_in_order_is_as_it_should_be(tmp_path: Path) -> None:
    with shell(tmp_path, "exit 0") as process:
        (tmp_path / "is up").read_text()
    assert process.status == 0


@pytest.mark.parametrize(
    ("trap", "end_s", "told"),
    [("", 0.2, "did not end by itself within 0.2 s"), ("exit 3", 30.0, "ended with status 3")],
)
def test_what_hangs_or_fails_when_it_is_stopped_fails_the_test(
    tmp_path: Path, trap: str, end_s: float, told: str
) -> None:
    """With what it said; nothing of it is left."""
    process = shell(tmp_path, trap, end_s)
    with pytest.raises(AssertionError, match=rf"{told}:\nup"), process:
        (tmp_path / "is up").read_text()
    assert not process.is_running


def test_an_exception_that_is_under_way_is_not_hidden(tmp_path: Path) -> None:
    """It is noted there that the process did not end either."""
    process = shell(tmp_path, "", 0.2)
    with pytest.raises(KeyError) as caught, process:
        {"": 0}[(tmp_path / "is up").read_text()]
    assert "did not end by itself" in caught.value.__notes__[0]
    assert not process.is_running
