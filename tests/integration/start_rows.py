"""Runs `svc-cluster` many times over, each time in a process of its own that is forked from one
which has imported everything: what is tested is the process, and its imports take the longest.

`python -m tests.integration.start_rows FILE`: FILE holds a list of jobs; writes a list of
`[status, text]` to standard output, in the same order.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import select
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import svc_cluster.__main__
import svc_cluster.cli.main
import svc_cluster.cli.processes.gateway_process  # the last three are there for the children
import svc_cluster.cli.processes.node_process

DEADLINE_S: Final = 60


def play(job: dict[str, Any]) -> tuple[int, str]:
    """The exit status of `svc-cluster` with the job's arguments, and what it printed."""
    with tempfile.TemporaryFile() as output:
        child = os.fork()
        if child == 0:
            be(job, output.fileno())
        handle = os.pidfd_open(child)
        try:
            if not select.select([handle], [], [], DEADLINE_S)[0]:
                os.kill(child, signal.SIGKILL)
        finally:
            os.close(handle)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        output.seek(0)
        return status, output.read().decode(errors="replace")


def be(job: dict[str, Any], output: int) -> None:
    """In the child: never returns."""
    os.dup2(output, 1)
    os.dup2(output, 2)
    if job["files"] is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (job["files"], job["files"]))
    if job["uid"] is not None:
        os.setgroups([])
        os.setgid(job["uid"])
        os.setuid(job["uid"])
    for name in [name for name in os.environ if name.startswith("SVC_CLUSTER_")]:
        del os.environ[name]
    os.environ.update(job["environment"])
    sys.argv = ["svc-cluster", *job["arguments"]]
    status = 0
    try:
        svc_cluster.__main__.main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
        status = 1
    sys.stderr.flush()
    os._exit(status)


def warm_up() -> None:
    """Load what the command line loads when it is used: a child without rights could not."""
    with contextlib.suppress(SystemExit), contextlib.redirect_stderr(io.StringIO()):
        svc_cluster.cli.main.app(["node", "--config", "/nonexistent"], standalone_mode=False)


if __name__ == "__main__":
    warm_up()
    jobs = json.loads(Path(sys.argv[1]).read_text())
    sys.stdout.write(json.dumps([play(job) for job in jobs]))
