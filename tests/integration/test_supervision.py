"""`svc-cluster local` looks after its processes and says what happens to them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

import pytest

from svc_cluster.cli.cluster_file import read_cluster_file
from svc_cluster.cli.local.command import LocalCluster
from svc_cluster.cli.local.ports import HeldPorts
from svc_cluster.settings_errors import EXIT_DIRECTORY

COMMAND = [sys.executable, "-m", "svc_cluster", "local", "--nodes", "3"]
READY = r"Ctrl-C ends it"


class Supervisor:
    """The command as a child of the test, which reads what it says."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.directory = directory
        self.lines: list[str] = []
        self._held = HeldPorts(1)
        port = str(self._held.numbers[0])
        self._options = [*options, "--data-dir", str(directory), "--port", port]
        self.process: asyncio.subprocess.Process

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Whatever became of the test: its processes end with it."""
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()

    async def start(self) -> None:
        await self.spawn()
        await self.until(READY)

    async def spawn(self) -> None:
        self.process = await asyncio.create_subprocess_exec(
            *COMMAND, *self._options, stdout=subprocess.PIPE, start_new_session=True
        )

    async def until(self, pattern: str, seconds: float = 60.0) -> re.Match[str]:
        """The next line that matches."""
        assert self.process.stdout is not None
        async with asyncio.timeout(seconds):
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
        async with Supervisor(tmp_path) as supervisor:
            await supervisor.start()
            pauses = []
            for _ in range(2):
                before = supervisor.node_pid(2)
                os.kill(before, signal.SIGKILL)
                found = await supervisor.until(
                    r"^node-2 ended with status -9; .* in ([0-9.]+) s .*log"
                )
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
        async with Supervisor(tmp_path, "--no-restart") as supervisor:
            await supervisor.start()
            os.kill(supervisor.node_pid(3), signal.SIGKILL)
            await supervisor.until(r"^node-3 ended with status -9; it stays down")
            async with asyncio.timeout(30):
                while supervisor.node_pid(3) != 0:
                    await asyncio.sleep(0.01)
            assert await supervisor.interrupt() == 0

    asyncio.run(main())


def test_a_node_that_cannot_use_its_directory_is_started_again_before_all_is_ready(
    tmp_path: Path,
) -> None:
    """A file is where a node's data goes, at the first start of all: the node ends with 73, and
    once the file is gone, it and the cluster get ready."""

    async def main() -> None:
        in_the_way = tmp_path / "node-2"
        in_the_way.touch(0o600)
        async with Supervisor(tmp_path) as supervisor:
            await supervisor.spawn()
            await supervisor.until(r"^node-2 ended with status 73; starting it again")
            in_the_way.unlink()
            await supervisor.until(READY)
            assert await supervisor.interrupt() == 0

    asyncio.run(main())


def test_a_file_that_cannot_be_written_does_not_end_the_supervision(tmp_path: Path) -> None:
    """A node dies while `cluster.json` cannot be renewed: a line says that it is out of date, and
    the file has the node's new process once it can be written."""

    async def main() -> None:
        async with Supervisor(tmp_path) as supervisor:
            await supervisor.start()
            in_the_way = tmp_path / "cluster.tmp"
            in_the_way.mkdir()
            before = supervisor.node_pid(2)
            os.kill(before, signal.SIGKILL)
            await supervisor.until(r"^node-2 ended with status -9; starting it again in 0.2 s")
            await supervisor.until(r"cluster.json is out of date until it can be written", 8.0)
            assert supervisor.node_pid(2) == before
            in_the_way.rmdir()
            async with asyncio.timeout(30):
                while supervisor.node_pid(2) == before:
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


async def refused_start(directory: Path) -> str:
    """What the command says that is refused its directory."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND, "--data-dir", str(directory), stderr=subprocess.PIPE, start_new_session=True
    )
    async with asyncio.timeout(60):
        _, said = await process.communicate()
    assert process.returncode == EXIT_DIRECTORY, said
    return said.decode()


def processes_of(directory: Path) -> list[bytes]:
    """The command lines of this machine that name the directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            found.append((process / "cmdline").read_bytes())
    return [line for line in found if os.fsencode(directory) in line]


def test_a_start_that_fails_halfway_leaves_no_process(tmp_path: Path) -> None:
    """The gateway cannot have its log: the nodes, which were started before it, have ended when the
    command has. Else they would take the directories, and the room on the disk, of the next try."""
    (tmp_path / "gateway.log").mkdir(0o700)
    assert "cannot be used" in asyncio.run(refused_start(tmp_path))
    assert (tmp_path / "node-3.log").exists(), "the nodes were started"
    assert processes_of(tmp_path) == []


def test_no_process_is_started_before_cluster_json_is_written(tmp_path: Path) -> None:
    """On a disk with little room the nodes would take what the file needs, or not, as it comes."""
    (tmp_path / "cluster.tmp").mkdir(0o700)
    assert "cannot be used" in asyncio.run(refused_start(tmp_path))
    assert not list(tmp_path.glob("*.log"))


def test_a_start_goes_on_when_its_nodes_have_taken_the_last_room(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The processes' ids cannot be written any more once they run: one line says so, and they are
    in the file as soon as they can."""

    async def main() -> None:
        cluster = LocalCluster(tmp_path, 1, 0, restart=True)
        try:
            cluster.prepare()
            await cluster.start()
            assert pids(tmp_path) == [0, 0]
            in_the_way = tmp_path / "cluster.tmp"
            in_the_way.mkdir()
            await cluster.wait_ready()
            assert pids(tmp_path) == [0, 0]
            in_the_way.rmdir()
            async with asyncio.timeout(15):
                while 0 in pids(tmp_path):
                    await asyncio.sleep(0.01)
            assert all(is_alive(pid) for pid in pids(tmp_path))
        finally:
            await cluster.stop()

    asyncio.run(main())
    assert capsys.readouterr().out.count("cluster.json is out of date until it can be written") == 1


def pids(directory: Path) -> list[int]:
    content = read_cluster_file(directory)
    return [int(row["pid"]) for row in (content["gateway"], *content["nodes"])]
