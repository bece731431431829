"""A process under the shim that has everything imported and forks a child for each life of a node.

Reads one JSON object a line: `what` (a function of `script`), `root`, `acks`, `seconds`. Answers
with the child's wait status and, where it failed by itself, why.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Final

import uvloop

from svc_cluster.base.log import configure
from tests.crashpoints import script

EXIT_LOST: Final = 3


def live(order: dict[str, Any], words: int) -> None:
    """The child: one life. Never returns."""
    status = EXIT_LOST
    try:
        configure("error", "text")
        life = getattr(script, order["what"])
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(life(Path(order["root"]), script.Acks(Path(order["acks"]))))
        status = 0
    except BaseException as fault:
        text = "".join(traceback.format_exception(fault))
        os.write(words, text[-3000:].encode())
    finally:
        os._exit(status)


def wait(pid: int, seconds: float) -> int:
    """The child's wait status; SIGKILL and -1 for one that takes longer."""
    handle = os.pidfd_open(pid)
    try:
        import select

        ready, _, _ = select.select([handle], [], [], seconds)
        if not ready:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return -1
        return os.waitpid(pid, 0)[1]
    finally:
        os.close(handle)


def main() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        begin = time.monotonic()
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            live(order, writer)
        os.close(writer)
        status = wait(pid, order["seconds"])
        with os.fdopen(reader, "rb") as words:
            said = words.read().decode(errors="replace")
        answer = {
            "pid": pid,
            "killed": status >= 0 and os.WIFSIGNALED(status) and os.WTERMSIG(status) == 9,
            "exit": os.WEXITSTATUS(status) if status >= 0 and os.WIFEXITED(status) else None,
            "late": status == -1,
            "said": said,
            "seconds": round(time.monotonic() - begin, 2),
        }
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
