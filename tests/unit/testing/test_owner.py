"""Whether a process that started a container is gone: said only when it is certain."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from svc_cluster.testing.owner import Owner

THIS = Owner.this_process()


def test_a_live_process_is_not_gone() -> None:
    """Its label comes back as it was written, too."""
    assert not THIS.is_gone(THIS)
    assert Owner.parse(THIS.text()) == THIS


@pytest.mark.parametrize("text", ["", "a|b|c|d", "a|b|c|one|2", "a|b|c|1|2|3"])
def test_a_label_of_somebody_else_is_nobody(text: str) -> None:
    """What we did not write is not taken for an owner that has ended."""
    assert Owner.parse(text) is None


def test_a_process_that_has_ended_is_gone() -> None:
    """As long as it waits to be reaped, and after that."""
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=-1)
    assert child.stdin is not None
    ours = replace(THIS, pid=child.pid, start=_start_of(child.pid))
    assert not ours.is_gone(THIS)
    child.stdin.close()
    child.wait()
    assert ours.is_gone(THIS)


def _start_of(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[19]


def test_an_id_that_was_given_again_is_another_process() -> None:
    """The same id with another start time: the one that is meant has ended."""
    assert replace(THIS, start="1").is_gone(THIS)


def test_a_boot_ends_every_process() -> None:
    """The host is the same and has been started again."""
    assert replace(THIS, boot="another").is_gone(THIS)


@pytest.mark.parametrize("other", [{"host": "elsewhere", "boot": "x"}, {"namespace": "pid:[1]"}])
def test_of_others_nothing_is_known(other: dict[str, str]) -> None:
    """Other hosts and other pid namespaces cannot be asked, so their containers stay."""
    assert not replace(THIS, pid=2**22, start="1", **other).is_gone(THIS)


def test_importing_needs_no_container_engine() -> None:
    """The package imports without testcontainers, and says what is missing where it is used."""
    program = """
import sys
sys.modules["testcontainers"] = sys.modules["docker"] = None
import svc_cluster.testing as testing
try:
    testing.SvcClusterContainer()
except ImportError as cause:
    assert "svc-cluster[testing]" in str(cause)
    print(testing.unavailable())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "testcontainers is not installed" in done.stdout
