"""A Ctrl-C ends a command that waits, whichever way the signal comes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SECONDS_MAX = 20.0

WAITING = """
import asyncio, os, signal, threading
from pathlib import Path
from svc_cluster.cli.data.verb import on_interrupt, perform

STATE = Path(f"/proc/self/task/{os.getpid()}/stat")

def signalled():
    '''To this thread: the main one is asleep, and nothing wakes it.'''
    while STATE.read_text().rsplit(")", 1)[1].split()[0] != "S":
        pass
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)

async def main():
    ended = asyncio.Event()
    if %(in_order)s:
        on_interrupt(ended.set)
    asyncio.get_running_loop().call_soon(threading.Thread(target=signalled, daemon=True).start)
    try:
        await ended.wait()
    finally:
        print("tidied up")

perform(main)
print("ended in order")
"""


@pytest.mark.parametrize(
    ("in_order", "status", "told"),
    [(False, 130, "tidied up\n"), (True, 0, "tidied up\nended in order\n")],
    ids=["by itself", "by what the command does then"],
)
def test_a_signal_that_wakes_nobody_ends_a_command(in_order: bool, status: int, told: str) -> None:
    """Python's own handler runs in the main thread only, and not before that wakes: of a signal
    that came just before its wait, as of one to another thread, it would hear with the next event.
    """
    done = subprocess.run(
        [sys.executable, "-c", WAITING % {"in_order": in_order}],
        cwd=ROOT,
        capture_output=True,
        timeout=SECONDS_MAX,
        check=False,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (status, told, "")


BLOCKED = """
import os, sys
from svc_cluster.cli.data.verb import perform

async def main():
    print("blocked", flush=True)
    os.open(sys.argv[1], os.O_RDONLY)  # a FIFO that nobody writes to

perform(main)
"""


def test_a_command_that_blocks_its_loop_ends_at_another_interrupt(tmp_path: Path) -> None:
    """The first is for the loop, which does not come to it. Nothing is said of it."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    command = [sys.executable, "-c", BLOCKED, str(fifo)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"blocked\n"
        end = time.monotonic() + SECONDS_MAX
        while process.poll() is None and time.monotonic() < end:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(0.2)
            except subprocess.TimeoutExpired:
                continue
        process.kill()
        out, err = process.communicate()
    assert (process.returncode, out, err) == (130, b"", b"")


IN_THE_BACKGROUND = """
import asyncio, signal, sys

signal.signal(signal.SIGINT, signal.SIG_IGN)
from svc_cluster.cli.data.verb import on_interrupt, perform

async def main():
    told = asyncio.Event()
    on_interrupt(lambda: print("interrupted"))
    asyncio.get_running_loop().add_reader(0, told.set)
    print("waiting", flush=True)
    await told.wait()
    asyncio.get_running_loop().remove_reader(0)
    print("told")

perform(main)
"""


def test_a_command_that_was_started_to_pass_over_interrupts_does() -> None:
    """As a shell starts what is to run in the background."""
    with subprocess.Popen(
        [sys.executable, "-c", IN_THE_BACKGROUND],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"waiting\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(b"go on", timeout=SECONDS_MAX)
    assert (process.returncode, out, err) == (0, b"told\n", b"")
