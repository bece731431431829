"""A Ctrl-C ends a command that waits, whichever way the signal comes."""

from __future__ import annotations

import subprocess
import sys
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
