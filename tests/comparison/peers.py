"""The peers that can be had: what each of them needs on PATH, promises, and is started with.

Nothing is fetched or built here. A peer whose program is missing is told as missing. Everything
listens on loopback, in a directory of its own, and ends with the run.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from svc_cluster.base.clock import Clock, SystemClock
from svc_cluster.cli.local.ports import HeldPorts
from svc_cluster.http.client import ConnectionLostError, HttpClient
from svc_cluster.lab.load.own_service import BASIN, OwnService
from svc_cluster.lab.load.requests import LoadAccess
from svc_cluster.lab.load.run import LoadTarget
from svc_cluster.lab.load.slow_disk import slowed
from tests.comparison.protocols import (
    NATS_STREAM,
    NATS_SUBJECT,
    URSULA_BUCKET,
    URSULA_STREAMS,
)

GENERATOR: Final = "tests.comparison.generator"
READY_S: Final = 30.0
STOP_S: Final = 10.0
POLL_S: Final = 0.1

OURS: Final = "svc-cluster"

Started = Callable[["Processes"], AsyncIterator[LoadTarget]]


class PeerError(Exception):
    """A peer did not start, or not in time: a line, and below it what it has said."""


class Processes:
    """Programs of one peer, whose output goes to files beside their data."""

    def __init__(self, directory: Path, sync_delay_ms: float) -> None:
        self.directory = directory
        self._prefix = slowed(sync_delay_ms)
        self._all: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, command: Sequence[str]) -> Path:
        """Start one of them in a directory of its own, which is returned."""
        place = self.directory / name
        place.mkdir(parents=True)
        with (self.directory / f"{name}.log").open("wb") as log:
            self._all.append(
                subprocess.Popen(
                    [*self._prefix, *(part.replace("{dir}", str(place)) for part in command)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )
        return place

    @property
    def pids(self) -> list[int]:
        return [one.pid for one in self._all]

    async def until(self, ready: Callable[[], Any]) -> Any:
        """What `ready` returns once that is anything. Raises PeerError."""
        clock = SystemClock()
        end = clock.monotonic() + READY_S
        while clock.monotonic() < end:
            if any(one.poll() is not None for one in self._all):
                raise PeerError(f"a process ended\n{self.log_tail()}")
            with contextlib.suppress(ConnectionLostError, OSError, EOFError, ValueError):
                found = await ready()
                if found:
                    return found
            await asyncio.sleep(POLL_S)
        raise PeerError(f"not ready after {READY_S} s\n{self.log_tail()}")

    def log_tail(self) -> str:
        logs = sorted(self.directory.glob("*.log"))
        return "\n".join(log.read_text(errors="replace")[-500:] for log in logs)

    def stop(self) -> None:
        for one in self._all:
            one.terminate()
        for one in self._all:
            try:
                one.wait(STOP_S)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()


async def _post(url: str, path: str, value: Any) -> Any:
    async with HttpClient(url) as client:
        headers = {"content-type": "application/json"}
        answer = await client.request("POST", path, headers, json.dumps(value).encode())
    return answer.json() if answer.status == 200 else None


async def _etcd(processes: Processes, caller: str) -> LoadTarget:
    """Three members; everything goes to the one that leads."""
    ports = HeldPorts(6)
    clients = [f"http://127.0.0.1:{port}" for port in ports.numbers[:3]]
    peers = [f"http://127.0.0.1:{port}" for port in ports.numbers[3:]]
    cluster = ",".join(f"m{number}={peer}" for number, peer in enumerate(peers))
    ports.close()
    for number, (client, peer) in enumerate(zip(clients, peers, strict=True)):
        command = ["etcd", "--name", f"m{number}", "--data-dir", "{dir}/data"]
        command += ["--listen-client-urls", client, "--advertise-client-urls", client]
        command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        command += ["--initial-cluster", cluster, "--initial-cluster-state", "new"]
        processes.start(f"m{number}", [*command, "--quota-backend-bytes", str(8 << 30)])

    async def leader() -> str | None:
        for client in clients:
            told = await _post(client, "/v3/maintenance/status", {})
            if told and told.get("leader", "0") == told["header"]["member_id"]:
                return client
        return None

    url = await processes.until(leader)
    return _target(processes, url, caller)


def _target(processes: Processes, url: str, caller: str) -> LoadTarget:
    access = LoadAccess(url)
    pids, place = processes.pids, processes.directory
    return LoadTarget(access, BASIN, pids, place, GENERATOR, caller, can_fill=False)


async def _redis(processes: Processes, caller: str) -> LoadTarget:
    """One node that syncs before it answers."""
    ports = HeldPorts(1)
    port = ports.numbers[0]
    ports.close()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", "{dir}"]
    command += ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
    processes.start("redis", command)

    async def answers() -> bool:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"PING\r\n")
        line = await reader.readline()
        writer.close()
        return line == b"+PONG\r\n"

    await processes.until(answers)
    return _target(processes, f"tcp://127.0.0.1:{port}", caller)


def nats_syncs_always() -> bool:
    """Whether this program can sync before it answers: from 2.10 on."""
    told = subprocess.run(["nats-server", "--version"], capture_output=True, check=True, text=True)
    version = told.stdout.rpartition("v")[2].strip().split(".")
    return (int(version[0]), int(version[1])) >= (2, 10)


async def _nats(processes: Processes, caller: str) -> LoadTarget:
    """Three servers and a stream with three replicas in files."""
    ports = HeldPorts(6)
    numbers = ports.numbers
    ports.close()
    routes = ", ".join(f"nats://127.0.0.1:{port}" for port in numbers[3:])
    sync = "sync_interval: always" if nats_syncs_always() else ""
    for number in range(3):
        text = (
            f"listen: 127.0.0.1:{numbers[number]}\nserver_name: n{number}\n"
            f'jetstream {{ store_dir: "{processes.directory}/n{number}/data"\n {sync} }}\n'
            f"cluster {{ name: bench, listen: 127.0.0.1:{numbers[3 + number]}, "
            f"routes: [{routes}] }}\n"
        )
        config = processes.directory / f"n{number}.conf"
        config.write_text(text)
        processes.start(f"n{number}", ["nats-server", "-c", str(config)])
    stream = {
        "name": NATS_STREAM,
        "subjects": [NATS_SUBJECT.decode()],
        "num_replicas": 3,
        "storage": "file",
        "retention": "limits",
        "discard": "old",
    }
    body = json.dumps(stream).encode()

    async def made() -> bool:
        reader, writer = await asyncio.open_connection("127.0.0.1", numbers[0])
        topic = f"$JS.API.STREAM.CREATE.{NATS_STREAM}"
        writer.write(b"CONNECT {}\r\nSUB _INBOX.made 1\r\n")
        writer.write(b"PUB %b _INBOX.made %d\r\n%b\r\n" % (topic.encode(), len(body), body))
        try:
            async with asyncio.timeout(3.0):
                while not (line := await reader.readuntil(b"\r\n")).startswith(b"MSG "):
                    pass
                answer = json.loads(await reader.readexactly(int(line.split()[-1])))
        except TimeoutError:
            return False
        finally:
            writer.close()
        return "error" not in answer or answer["error"].get("err_code") == 10058

    await processes.until(made)
    return _target(processes, f"nats://127.0.0.1:{numbers[0]}", caller)


URSULA_GROUPS: Final = 16
URSULA_CLUSTER: Final = "7d1c1d2e-0b8e-4b7e-9a6e-0123456789ab"


async def _ursula(processes: Processes, caller: str) -> LoadTarget:
    """Three voters that sync before they acknowledge, as they do not by themselves."""
    ports = HeldPorts(6)
    numbers = ports.numbers
    ports.close()
    urls = [f"http://127.0.0.1:{port}" for port in numbers[:3]]
    members = "".join(
        f'[[raft.peers]]\nnode_id = {number}\nurl = "{url}"\n'
        for number, url in enumerate(urls, start=1)
    )
    for number in range(1, 4):
        place = processes.directory / f"u{number}"
        config = processes.directory / f"u{number}.toml"
        config.write_text(
            f'[server]\nlisten = "127.0.0.1:{numbers[number - 1]}"\n'
            f'admin_listen = "127.0.0.1:{numbers[number + 2]}"\ncluster_id = "{URSULA_CLUSTER}"\n'
            f"[raft]\ngroup_count = {URSULA_GROUPS}\n"
            f'[raft.wal]\npath = "{place}/wal"\nfsync = "always"\n{members}'
        )
        command = [_ursula_program() or "ursula", "server", "--config", str(config)]
        processes.start(f"u{number}", [*command, "--node-id", str(number)])

    async def made() -> bool:
        paths = [f"/{URSULA_BUCKET}"]
        paths += [f"/{URSULA_BUCKET}/s{number}" for number in range(URSULA_STREAMS)]
        return all([await _put(urls, path) for path in paths])

    await processes.until(made)
    return _target(processes, urls[0], caller)


async def _put(urls: Sequence[str], path: str) -> bool:
    """Whether one of the nodes has made it, or has it."""
    for url in urls:
        async with HttpClient(url) as client:
            status = (await client.request("PUT", path)).status
        if status in (200, 201, 204, 409):
            return True
    return False


def _ursula_program() -> str | None:
    return os.environ.get("URSULA") or shutil.which("ursula")


def _s2() -> str | None:
    return os.environ.get("S2_CLI") or shutil.which("s2")


async def _lite(processes: Processes, caller: str) -> LoadTarget:
    """S2's own server for one node, in the same dialect as our side."""
    ports = HeldPorts(1)
    port = ports.numbers[0]
    ports.close()
    command = [_s2() or "s2", "lite", "--port", str(port), "--local-root", "{dir}"]
    processes.start("lite", command)
    url = f"http://127.0.0.1:{port}"

    async def answers() -> bool:
        async with HttpClient(url) as client:
            return (await client.request("GET", "/v1/basins")).status == 200

    await processes.until(answers)
    access = LoadAccess(url, None, "s2")
    return LoadTarget(access, BASIN, processes.pids, processes.directory, GENERATOR, caller)


@dataclass(frozen=True, slots=True)
class Peer:
    """`needs`: the program; `promise`: what an answer to an append says; `has_streams`: it speaks
    the same interface, so that reads compare too."""

    name: str
    promise: str
    needs: Callable[[], str | None]
    how_to: str
    make: Callable[[Processes, str], Any]
    caller: str
    has_streams: bool = False

    @asynccontextmanager
    async def started(self, directory: Path, sync_delay_ms: float) -> AsyncIterator[LoadTarget]:
        """One that is there for one run. Raises PeerError, FileNotFoundError."""
        processes = Processes(directory, sync_delay_ms)
        try:
            yield await self.make(processes, self.caller)
        finally:
            await asyncio.to_thread(processes.stop)


def _on_path(program: str) -> Callable[[], str | None]:
    return lambda: shutil.which(program)


_QUORUM: Final = "synced on two of three"
_ONE: Final = "synced, one node"
_LITE: Final = "cargo install s2-cli; S2_CLI=path"
PEERS: Final = (
    Peer("etcd, gRPC", _QUORUM, _on_path("etcd"), "Debian: etcd-server", _etcd, "etcd-grpc"),
    Peer("etcd, HTTP", _QUORUM, _on_path("etcd"), "Debian: etcd-server", _etcd, "etcd-http"),
    Peer(
        "NATS",
        f"{_QUORUM} from 2.10 on; before, on three and synced each minute",
        _on_path("nats-server"),
        "Debian: nats-server, or Go's toolchain",
        _nats,
        "nats",
    ),
    Peer(
        "Redis",
        "synced, one node",
        _on_path("redis-server"),
        "Debian: redis-server",
        _redis,
        "redis",
    ),
    Peer(
        "Ursula",
        f"{_QUORUM} as it is told here (by itself it syncs nothing)",
        _ursula_program,
        "cargo install ursula; URSULA=path",
        _ursula,
        "ursula",
    ),
    Peer("s2 lite", _ONE, _s2, _LITE, _lite, "http", True),
)


@asynccontextmanager
async def ours(directory: Path, clock: Clock, sync_delay_ms: float) -> AsyncIterator[LoadTarget]:
    """Three nodes and a gateway that ask for access tokens, in S2's dialect. Raises ClusterError,
    FileNotFoundError."""
    directory.mkdir(parents=True)
    own = OwnService(directory, clock, dialect="s2")
    try:
        yield await own.start(sync_delay_ms=sync_delay_ms)
    finally:
        await asyncio.to_thread(own.stop)
