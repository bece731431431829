"""`svc-cluster local` looks after its processes and says what happens to them."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from svc_cluster.cli.cluster_file import read_cluster_file
from svc_cluster.cli.local.ports import HeldPorts

COMMAND = [sys.executable, "-m", "svc_cluster", "local", "--nodes", "3"]


class Supervisor:
    """The command as a child of the test, which reads what it says."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.directory = directory
        self.lines: list[str] = []
        self._held = HeldPorts(1)
        port = str(self._held.numbers[0])
        self._options = [*options, "--data-dir", str(directory), "--port", port]
        self.process: asyncio.subprocess.Process

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(
            *COMMAND, *self._options, stdout=subprocess.PIPE, start_new_session=True
        )
        await self.until(r"Ctrl-C ends it")

    async def until(self, pattern: str) -> re.Match[str]:
        """The next line that matches."""
        assert self.process.stdout is not None
        async with asyncio.timeout(60):
            while line := await self.process.stdout.readline():
                self.lines.append(line.decode().rstrip())
                if found := re.search(pattern, self.lines[-1]):
                    return found
        raise AssertionError(f"no line {pattern!r} in {self.lines}")

    def node_pid(self, node_id: int) -> int:
        return int(read_cluster_file(self.directory)["nodes"][node_id - 1]["pid"])

    async def interrupt(self) -> int:
        """The status it ends with after Ctrl-C."""
        self.process.send_signal(signal.SIGINT)
        async with asyncio.timeout(30):
            return await self.process.wait()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_node_that_dies_is_started_again_and_a_line_says_so(tmp_path: Path) -> None:
    """With the status, the pause (longer the second time) and where to read more; Ctrl-C then ends
    the command with 0 and leaves no process behind."""

    async def main() -> None:
        supervisor = Supervisor(tmp_path)
        await supervisor.start()
        pauses = []
        for _ in range(2):
            before = supervisor.node_pid(2)
            os.kill(before, signal.SIGKILL)
            found = await supervisor.until(r"^node-2 ended with status -9; .* in ([0-9.]+) s .*log")
            pauses.append(float(found[1]))
            async with asyncio.timeout(30):
                while supervisor.node_pid(2) == before:
                    await asyncio.sleep(0.01)
        assert pauses[0] < pauses[1], pauses
        pids = [supervisor.node_pid(number) for number in (1, 2, 3)]
        assert await supervisor.interrupt() == 0
        assert not any(is_alive(pid) for pid in pids)

    asyncio.run(main())


def test_no_restart_leaves_a_dead_node_down(tmp_path: Path) -> None:
    """`--no-restart` says so and shows no process for it; Ctrl-C still ends the command with 0."""

    async def main() -> None:
        supervisor = Supervisor(tmp_path, "--no-restart")
        await supervisor.start()
        os.kill(supervisor.node_pid(3), signal.SIGKILL)
        await supervisor.until(r"^node-3 ended with status -9; it stays down")
        async with asyncio.timeout(30):
            while supervisor.node_pid(3) != 0:
                await asyncio.sleep(0.01)
        assert await supervisor.interrupt() == 0

    asyncio.run(main())


OWNER = """
import asyncio, sys, time
from pathlib import Path
from svc_cluster.lab.own_cluster import OwnCluster

cluster = OwnCluster(Path(sys.argv[1]))
cluster.start()
asyncio.run(cluster.wait_ready(60.0))
print(*cluster.pids(), flush=True)
time.sleep(600)
"""


def test_a_cluster_ends_when_whoever_owns_it_is_killed(tmp_path: Path) -> None:
    """A load or fault test that is killed itself leaves no cluster behind."""
    directory = tmp_path / "owned"
    directory.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(directory)], stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        pids = [int(text) for text in owner.stdout.readline().split()]
        assert len(pids) == 4
        owner.kill()
        owner.wait()

    async def until_gone() -> None:
        async with asyncio.timeout(60):
            while any(is_alive(pid) for pid in pids):
                await asyncio.sleep(0.05)

    asyncio.run(until_gone())
