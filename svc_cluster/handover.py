"""The call `python3 -m svc_cluster.handover PID URL` tells a node to give every leadership away,
and waits until it has. It waits for ten seconds and one look (two seconds at most). For hooks that
run before a container is stopped.

PID is the node's, URL that of its admin listener. Exit status 0 when it leads nothing any more, 1
when it still does, or does not answer. Imports nothing of ours, so that it is quick.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import urllib.error
import urllib.request

WAIT_SECONDS = 10.0
POLL_SECONDS = 0.1
TIMEOUT_SECONDS = 2.0
_LEADS = re.compile(rb'^svc_raft_groups\{state="leader"\} ([0-9.e+]+)$', re.MULTILINE)


def leaderships(url: str) -> float | None:
    """How many groups the node leads; None where it does not say."""
    try:
        with urllib.request.urlopen(f"{url}/metrics", timeout=TIMEOUT_SECONDS) as answer:
            found = _LEADS.search(answer.read())
    except (OSError, ValueError, urllib.error.URLError):
        return None
    return None if found is None else float(found[1])


def main(arguments: list[str]) -> int:
    """`arguments`: the process id and the address."""
    if len(arguments) != 2 or not arguments[0].isdecimal():
        sys.stderr.write("usage: python3 -m svc_cluster.handover PID URL\n")
        return 2
    try:
        os.kill(int(arguments[0]), signal.SIGUSR1)
    except (ProcessLookupError, PermissionError) as cause:
        sys.stderr.write(f"process {arguments[0]}: {cause}\n")
        return 1
    over = threading.Event()
    timer = threading.Timer(WAIT_SECONDS, over.set)
    timer.daemon = True
    timer.start()
    left = leaderships(arguments[1])
    while left != 0 and not over.wait(POLL_SECONDS):
        left = leaderships(arguments[1])
    timer.cancel()
    if left == 0:
        return 0
    sys.stderr.write(f"{arguments[1]}: leads {'?' if left is None else int(left)} groups\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
