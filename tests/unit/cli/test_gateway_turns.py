"""A process that had no turn of a processor is told from one that hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from svc_cluster.base.clock import SystemClock
from svc_cluster.cli.processes.gateway_turns import ProcessorTurns

SECONDS: Final = 60.0
LOOK: Final = 1.0
CIRCLES: Final = "while True: pass"
WAITS: Final = "import signal; signal.pause()"


@contextmanager
def running(program: str) -> Iterator[int]:
    """Yield the id of a process on the one processor that all of these share."""
    cpu = min(os.sched_getaffinity(0))
    with subprocess.Popen([sys.executable, "-S", "-c", program]) as process:
        try:
            os.sched_setaffinity(process.pid, {cpu})
            yield process.pid
        finally:
            process.kill()


def facts(pid: int) -> tuple[str, float]:
    """Its state, and what it has used of processors, in seconds."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return words[0], (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def until_state(pid: int, state: str) -> None:
    end = SystemClock().monotonic() + SECONDS
    while facts(pid)[0] != state:
        assert SystemClock().monotonic() < end, f"it is {facts(pid)[0]}"


def use(pid: int, seconds: float) -> None:
    """Return once it has used so much more."""
    wanted = facts(pid)[1] + seconds
    end = SystemClock().monotonic() + SECONDS
    while facts(pid)[1] < wanted:
        assert SystemClock().monotonic() < end, "it has no turns"


def test_who_wants_a_processor_and_has_none_does_not_hang() -> None:
    """Behind one with a hundred times its weight on the same processor it runs hardly at all."""
    with running(CIRCLES) as starved:
        os.sched_setscheduler(starved, os.SCHED_IDLE, os.sched_param(0))
        with running(CIRCLES) as other:
            turns = ProcessorTurns(starved)
            turns.were_missing(LOOK)
            use(other, LOOK)
            assert turns.were_missing(LOOK)


def test_who_has_had_turns_or_wants_none_may_hang() -> None:
    """One runs in circles, one waits for something, one was stopped, and one is gone."""
    with running(CIRCLES) as circles:
        turns = ProcessorTurns(circles)
        turns.were_missing(LOOK)
        use(circles, LOOK / 2)
        assert not turns.were_missing(LOOK)
        os.kill(circles, signal.SIGSTOP)
        until_state(circles, "T")
        assert not turns.were_missing(LOOK)
    with running(WAITS) as waits:
        until_state(waits, "S")
        assert not ProcessorTurns(waits).were_missing(LOOK)
    assert not ProcessorTurns(waits).were_missing(LOOK)
