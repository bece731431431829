"""The command, started from a process that has loaded it: a session of a hundred of them would
else spend most of its time on loading. What runs is a child of its own with the caller's files,
directory, environment and arguments, from `svc_cluster.__main__` on.

`with warm_command(directory) as path:` makes `path/svc-cluster`, for the `PATH` of a shell.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_CALLER = """#!{python} -SI
import array, json, os, signal, socket, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
line = socket.socket(socket.AF_UNIX)
line.connect({address!r})
said = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
files = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))]
line.sendmsg([len(said).to_bytes(4, "big") + said], files)
for handle in (0, 1, 2):
    os.close(handle)
status = line.recv(1)
os._exit(status[0] if status else 70)
"""


@contextlib.contextmanager
def warm_command(directory: Path) -> Iterator[Path]:
    """Until the end of the block; `directory` is made."""
    directory.mkdir()
    address = directory / "calls"
    caller = directory / "svc-cluster"
    caller.write_text(_CALLER.format(python=sys.executable, address=str(address)))
    caller.chmod(0o700)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.e2e.warm_command", str(address)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield directory
    finally:
        process.communicate()


def serve(address: str) -> None:
    """Answer each caller by a child, until standard input ends."""
    from svc_cluster.cli import main as whole_command
    from svc_cluster.cli.data import data_app

    assert whole_command.app is not None
    assert data_app.GROUPS
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen(64)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    with selectors.DefaultSelector() as selector:
        selector.register(listening, selectors.EVENT_READ)
        selector.register(0, selectors.EVENT_READ)
        while all(key.fileobj is listening for key, _ in selector.select()):
            _answer(listening.accept()[0])


def _answer(line: socket.socket) -> None:
    data, told, _, _ = line.recvmsg(1 << 20, socket.CMSG_SPACE(12))
    handles = array.array("i")
    handles.frombytes(told[0][2])
    size = int.from_bytes(data[:4], "big")
    while len(data) < size + 4:
        data += line.recv(1 << 20)
    arguments, directory, environment = json.loads(data[4:])
    if os.fork() == 0:
        os._exit(_run(line, list(handles), arguments, directory, environment))
    line.close()
    for handle in handles:
        os.close(handle)


def _run(
    line: socket.socket,
    handles: list[int],
    arguments: list[str],
    directory: str,
    environment: dict[str, str],
) -> int:
    """One command, in the child."""
    from svc_cluster.__main__ import main

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for place, handle in enumerate(handles):
        os.dup2(handle, place)
        os.close(handle)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["svc-cluster", *arguments]
    try:
        main()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    line.send(bytes([status]))
    return status


if __name__ == "__main__":
    serve(sys.argv[1])
