"""This is a cluster of one's own, which runs `svc-cluster local` as a child process, for
demonstrations and tests.

It ends only what it started: the supervisor by its handle, nodes and gateway by the process ids in
the cluster file that this supervisor wrote.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from svc_cluster.base.clock import Clock, SystemClock
from svc_cluster.cli.cluster_file import read_cluster_file
from svc_cluster.cli.local.ports import HeldPorts
from svc_cluster.cli.processes.process import SUPERVISOR_FD
from svc_cluster.http.client import ConnectionLostError, HttpClient
from svc_cluster.lab.proc_stat import cluster_pids

_POLL_S: Final = 0.05
_STOP_S: Final = 30.0
_TAIL_BYTES_MAX: Final = 1024 * 1024
"""What is read of the end of a log, however long it has become."""


class ClusterError(Exception):
    """The cluster did not start, or did not become ready in time."""


async def get_json(port: int, path: str, *, timeout_s: float = 2.0) -> tuple[int, Any]:
    """Status and JSON body (None where it is not JSON). Raises ConnectionLostError."""
    async with HttpClient(f"http://127.0.0.1:{port}") as client:
        response = await client.request("GET", path, timeout_s=timeout_s)
    try:
        return response.status, response.json()
    except msgspec.DecodeError:
        return response.status, None


Groups: TypeAlias = dict[int, list[dict[str, Any]]]
"""What nodes say of their Raft groups, by node id."""


def leader_in(groups: Groups, basin: str | None) -> int | None:
    """The node that says it leads the basin's group, or the catalog's for None. Of several it is
    the one of the latest term."""
    terms = {
        int(group["term"]): node_id
        for node_id, found in groups.items()
        for group in found
        if group["basin"] == basin and group["role"] == "leader"
    }
    return terms[max(terms)] if terms else None


class OwnCluster:
    """One local cluster in `directory`. Its output goes to `<directory>.log`."""

    def __init__(
        self,
        directory: Path,
        *,
        nodes: int = 3,
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
        clock: Clock | None = None,
    ) -> None:
        """`prefix`: a command that becomes the one behind it, such as a tracer."""
        self.directory = directory
        self._held = HeldPorts(1)
        self.port = self._held.numbers[0]
        self.log_path = directory.with_name(directory.name + ".log")
        self._nodes = nodes
        self._options = list(options)
        self._prefix = list(prefix)
        self.environment = dict(environment or {})
        self._clock = clock or SystemClock()
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._alive: int | None = None
        """The end of a pipe that is closed when we are gone, however we end: the cluster then ends
        itself."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the supervisor; see `wait_ready`."""
        assert self._supervisor is None, "started already"
        (self.directory / "cluster.json").unlink(missing_ok=True)
        command = [*self._prefix, sys.executable, "-m", "svc_cluster", "local"]
        command += ["--nodes", str(self._nodes)]
        command += ["--port", str(self.port), "--data-dir", str(self.directory), *self._options]
        watched, self._alive = os.pipe()
        try:
            with self.log_path.open("ab") as log:
                self._supervisor = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=os.environ | self.environment | {SUPERVISOR_FD: str(watched)},
                    pass_fds=(watched,),
                    start_new_session=True,  # a Ctrl-C is for us, and we end it in order
                )
        finally:
            os.close(watched)

    def file(self) -> dict[str, Any]:
        """The cluster file as it is now. Raises OSError while there is none."""
        return read_cluster_file(self.directory)

    def node(self, node_id: int) -> dict[str, Any]:
        """The entry of one node in the cluster file."""
        return next(node for node in self.file()["nodes"] if node["id"] == node_id)

    def pids(self) -> list[int]:
        """The gateway's and the nodes' process ids."""
        return cluster_pids(self.file())

    async def wait_ready(self, deadline_s: float = 30.0) -> None:
        """Until every node and the gateway say they are ready. Raises ClusterError."""
        end = self._clock.monotonic() + deadline_s
        last = "no cluster file"
        while self._clock.monotonic() < end:
            assert self._supervisor is not None, "not started"
            code = self._supervisor.poll()
            if code is not None:
                raise ClusterError(f"the supervisor ended with {code}:\n{self.log_tail()}")
            try:
                ports = [int(node["admin_port"]) for node in self.file()["nodes"]]
                statuses = [(await get_json(port, "/readyz"))[0] for port in ports]
                statuses.append((await get_json(self.port, "/readyz"))[0])
            except (OSError, msgspec.DecodeError, ConnectionLostError) as error:
                last = str(error)
            else:
                if len(ports) == self._nodes and all(status == 200 for status in statuses):
                    return
                last = f"ready: {statuses}"
            await asyncio.sleep(_POLL_S)
        raise ClusterError(f"not ready after {deadline_s} s: {last}\n{self.log_tail()}")

    async def groups(self) -> Groups:
        """The Raft groups of every node that answers, by node id."""
        found: Groups = {}
        for node in self.file()["nodes"]:
            try:
                status, body = await get_json(int(node["admin_port"]), "/debug/groups")
            except ConnectionLostError:
                continue
            if status == 200 and body is not None:
                found[int(node["id"])] = body["groups"]
        return found

    async def wait_leader(self, basin: str, deadline_s: float = 15.0) -> int:
        """Raises ClusterError when nobody leads the basin in time."""
        end = self._clock.monotonic() + deadline_s
        while self._clock.monotonic() < end:
            leader = leader_in(await self.groups(), basin)
            if leader is not None:
                return leader
            await asyncio.sleep(_POLL_S)
        raise ClusterError(f"nobody leads {basin} after {deadline_s} s\n{self.log_tail()}")

    def kill_node(self, node_id: int, number: int = signal.SIGKILL) -> int:
        """Send a signal to one node's process; returns its process id."""
        pid = int(self.node(node_id)["pid"])
        assert pid > 0, f"node {node_id} is down"
        os.kill(pid, number)
        return pid

    def kill_all(self) -> None:
        """kill -9 of the supervisor, the gateway and all nodes, as at once as it can be done."""
        pids = self.pids()
        assert self._supervisor is not None, "not started"
        self._supervisor.kill()
        for pid in pids:
            _kill_ours(pid)
        self._supervisor.wait(_STOP_S)
        self._forget()
        for pid in pids:
            _wait_gone(pid)

    def end(self) -> None:
        """End everything at once and by force, whatever state it is in: for whoever has seen what
        there was to see. What the supervisor starts meanwhile ends itself without it."""
        if self._supervisor is None:
            return
        with contextlib.suppress(OSError, msgspec.DecodeError):
            self.kill_all()
            return
        self._supervisor.kill()
        self._supervisor.wait(_STOP_S)
        self._forget()

    def stop(self) -> int:
        """End everything in order, by force if that takes too long. Returns the exit status."""
        if self._supervisor is None:
            return 0
        try:
            pids = self.pids()
        except (OSError, msgspec.DecodeError):
            pids = []
        self._supervisor.terminate()
        try:
            status = self._supervisor.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()
            status = self._supervisor.wait()
        self._forget()
        for pid in pids:
            _kill_ours(pid)
        return status

    def _forget(self) -> None:
        self._supervisor = None
        if self._alive is not None:
            os.close(self._alive)
            self._alive = None

    def log_tail(self, lines: int = 40) -> str:
        """The end of what the supervisor and each process printed."""
        parts: list[str] = []
        for path in [self.log_path, *sorted(self.directory.glob("*.log"))]:
            try:
                with path.open("rb") as file:
                    file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES_MAX))
                    text = file.read(_TAIL_BYTES_MAX).decode(errors="replace")
            except OSError:
                continue
            parts += [f"--- {path.name}", *text.splitlines()[-lines:]]
        return "\n".join(parts)


def _kill_ours(pid: int) -> None:
    """kill -9, if the process is one of this program's: ids are used again."""
    try:
        if b"svc_cluster" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
    except (OSError, ProcessLookupError):
        return


def _wait_gone(pid: int) -> None:
    """Until a killed process is gone or a zombie: its files are then closed."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        select.select([handle], [], [], _STOP_S)
    finally:
        os.close(handle)
