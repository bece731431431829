"""A line of the log reaches the system in one write, however long it is and whoever else writes."""

from __future__ import annotations

import json
import socket
import subprocess
import sys

LENGTHS = (1, 8_000, 8_191, 8_192, 8_193, 20_000, 100_000)
"""Around the buffer of standard error, and far beyond it."""
THREADS = 4

WRITE = """
import sys, threading
from svc_cluster.base.log import configure, get_logger

configure(form=sys.argv[1])
log = get_logger("lines")

def work(number):
    for length in map(int, sys.argv[3:]):
        log.info("told", thread=number, fact="x" * length)
        try:
            raise ValueError("first\\nsecond")
        except ValueError as fault:
            log.error("failed", exc_info=fault, thread=number)

threads = [threading.Thread(target=work, args=(n,)) for n in range(int(sys.argv[2]))]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def writes(form: str) -> list[bytes]:
    """What each write to standard error has brought: a message of the socket that it is."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    with ours:
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-c", WRITE, form, str(THREADS), *map(str, LENGTHS)],
                stderr=theirs.fileno(),
            )
        found = list(iter(lambda: ours.recv(1 << 20), b""))
    assert process.wait() == 0
    return found


def test_each_line_in_json_is_one_write() -> None:
    """Also of one with the text of an exception: its newlines are escaped."""
    found = writes("json")
    assert len(found) == THREADS * len(LENGTHS) * 2
    for each in found:
        assert each.endswith(b"\n") and each.count(b"\n") == 1
        assert json.loads(each)["event"] in ("told", "failed")


def test_each_line_for_people_is_one_write() -> None:
    """That of an exception has its text behind it, in the same write."""
    found = writes("text")
    assert len(found) == THREADS * len(LENGTHS) * 2
    assert all(each.endswith(b"\n") for each in found)
    assert all(each.count(b" told ") + each.count(b" failed ") == 1 for each in found)
