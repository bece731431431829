"""A cluster whose every wire goes through our proxy: nodes and gateways started one by one.

Each node has a ledger and a control file of its own, and a network namespace of its own where the
machine allows that; its configuration names the proxy's ports for the others and its own real port
for itself. Ends only what it started.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import secrets
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from svc_cluster.cli.http_client import ConnectionLostError
from svc_cluster.cli.local import free_ports
from svc_cluster.cli.own_cluster import get_json
from svc_cluster.cli.process import MALLOC_ENVIRONMENT
from tests.chaos.control import Control
from tests.chaos.namespaces import Namespace
from tests.chaos.proxy import Network
from tests.e2e.power import CutReport, Ledger

NODES: Final = (1, 2, 3)
GATEWAYS: Final = (1, 2)
READY_S: Final = 40.0
_RPC_PORT: Final = 7001
_ADMIN_PORT: Final = 7002
_HTTP_PORT: Final = 8080
"""In a namespace every node may use the same ports."""

SETTINGS: Final[dict[str, Any]] = {
    "wal_segment_mib": 4,
    "wal_retain_mib": 16,
    "log_retention_mib": 4,
    "log_retention_seconds": 5.0,
    "flush_seconds": 1.0,
    "disk_reserve_mib": 64,
    "log_format": "text",
}


@dataclass(slots=True)
class Member:
    """One process, up or down."""

    name: str
    space: Namespace
    command: list[str]
    log: Path
    environment: dict[str, str]
    process: subprocess.Popen[bytes] | None = None
    stopped: bool = False
    exits: list[int] = field(default_factory=list)

    def start(self) -> None:
        assert self.process is None, f"{self.name} runs already"
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                self.space.command(self.command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**MALLOC_ENVIRONMENT, **os.environ, **self.environment},
                start_new_session=True,
            )

    @property
    def is_up(self) -> bool:
        """Also while it is stopped by SIGSTOP. Notes how it ended when it did."""
        if self.process is None:
            return False
        status = self.process.poll()
        if status is None:
            return True
        self.exits.append(status)
        self.process = None
        self.stopped = False
        return False

    def kill(self) -> None:
        if self.is_up and self.process is not None:
            self.process.kill()
            self.process.wait()
            self.is_up  # noqa: B018 -- takes note of the exit
        self.stopped = False

    def pause(self) -> None:
        if self.is_up and self.process is not None:
            self.process.send_signal(signal.SIGSTOP)
            self.stopped = True

    def resume(self) -> None:
        if self.stopped and self.is_up and self.process is not None:
            self.process.send_signal(signal.SIGCONT)
        self.stopped = False


class ChaosCluster:
    """Three nodes and two gateways under `directory`. Use as an async context manager."""

    def __init__(self, directory: Path, shim: Path, seed: int, *, namespaces: bool) -> None:
        self.directory = directory
        self.directory.mkdir(parents=True)
        self.network = Network(random.Random(f"network/{seed}"))
        self.nodes: dict[int, Member] = {}
        self.gateways: dict[int, Member] = {}
        self.ledgers: dict[int, Ledger] = {}
        self.controls: dict[int, Control] = {}
        self.urls: list[str] = []
        self._shim = shim
        self._namespaces = namespaces
        self._spaces: list[Namespace] = []
        self._admin: dict[int, int] = {}
        self._home = Namespace(None)
        self._tag = f"{os.getpid()}-{seed % 10_000}"

    async def __aenter__(self) -> ChaosCluster:
        try:
            await self._set_up()
            for member in self.members():
                member.start()
            await self.ready()
        except BaseException:
            print(self.log_tail())
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def members(self) -> list[Member]:
        return [*self.nodes.values(), *self.gateways.values()]

    # -- making

    def _space(self, name: str) -> Namespace:
        space = Namespace(f"svc-{self._tag}-{name}" if self._namespaces else None)
        self._spaces.append(space)
        return space

    async def _set_up(self) -> None:
        secret = self.directory / "cluster.secret"
        secret.write_text(secrets.token_hex(32) + "\n")
        names = {node: f"node-{node}" for node in NODES}
        spaces = {node: self._space(f"n{node}") for node in NODES}
        doors = {gateway: self._space(f"g{gateway}") for gateway in GATEWAYS}
        ports = dict(zip(NODES, zip(*[iter(self._ports(6))] * 2, strict=True), strict=True))
        common = {"cluster_id": secrets.token_hex(16), "secret_file": str(secret)}
        for node in NODES:
            addresses = {str(node): f"127.0.0.1:{ports[node][0]}"}
            for other in NODES:
                if other != node:
                    port = await self.network.forward(
                        names[node], names[other], spaces[node], spaces[other], ports[other][0]
                    )
                    addresses[str(other)] = f"127.0.0.1:{port}"
            self._admin[node] = await self.network.forward(
                "us", f"admin-{node}", self._home, spaces[node], ports[node][1]
            )
            self._add_node(node, spaces[node], common, addresses, ports[node][1])
        for gateway in GATEWAYS:
            addresses = {}
            for node in NODES:
                port = await self.network.forward(
                    f"gateway-{gateway}", names[node], doors[gateway], spaces[node], ports[node][0]
                )
                addresses[str(node)] = f"127.0.0.1:{port}"
            http = _HTTP_PORT if self._namespaces else free_ports(1)[0]
            port = await self.network.forward(
                "us", f"http-{gateway}", self._home, doors[gateway], http
            )
            self.urls.append(f"http://127.0.0.1:{port}")
            self._add_gateway(gateway, doors[gateway], common, addresses, http)

    def _ports(self, count: int) -> list[int]:
        if self._namespaces:
            return [_RPC_PORT, _ADMIN_PORT] * (count // 2)
        return free_ports(count)

    def _add_node(
        self,
        node: int,
        space: Namespace,
        common: dict[str, str],
        addresses: dict[str, str],
        admin_port: int,
    ) -> None:
        ledger = Ledger(
            self._shim, self.directory / f"disk-{node}", self.directory / f"undo-{node}"
        )
        control = Control(self.directory / f"control-{node}")
        self.ledgers[node], self.controls[node] = ledger, control
        config = {
            **common,
            **SETTINGS,
            "node_id": node,
            "data_dir": str(ledger.root / "data"),
            "nodes": addresses,
            "admin_address": f"127.0.0.1:{admin_port}",
        }
        environment = ledger.env(control.env())
        self.nodes[node] = self._member("node", node, space, config, environment)

    def _add_gateway(
        self,
        gateway: int,
        space: Namespace,
        common: dict[str, str],
        addresses: dict[str, str],
        port: int,
    ) -> None:
        config = {**common, "nodes": addresses, "port": port, "log_format": "text"}
        self.gateways[gateway] = self._member("gateway", gateway, space, config, {})

    def _member(
        self,
        role: str,
        number: int,
        space: Namespace,
        config: dict[str, Any],
        environment: dict[str, str],
    ) -> Member:
        name = f"{role}-{number}"
        path = self.directory / f"{name}.yaml"
        path.write_text(yaml.safe_dump(config, sort_keys=False))
        command = [sys.executable, "-m", "svc_cluster", role, "--config", str(path)]
        return Member(name, space, command, self.directory / f"{name}.log", environment)

    # -- looking

    async def ready(self, deadline_s: float = READY_S) -> None:
        """Until every node and gateway is up and says that it is ready. Raises TimeoutError."""
        ports = [*self._admin.values(), *(int(url.rpartition(":")[2]) for url in self.urls)]
        async with asyncio.timeout(deadline_s):
            for port in ports:
                while await self._status(port) != 200:
                    down = [member.name for member in self.members() if not member.is_up]
                    if down:
                        raise RuntimeError(f"ended by themselves: {down}\n{self.log_tail()}")
                    await asyncio.sleep(0.05)

    async def _status(self, port: int) -> int:
        with contextlib.suppress(ConnectionLostError):
            return (await get_json(port, "/readyz"))[0]
        return 0

    async def groups(self) -> dict[int, list[dict[str, Any]]]:
        """The Raft groups of every node that answers, by node id."""
        found: dict[int, list[dict[str, Any]]] = {}
        for node, port in self._admin.items():
            if not self.nodes[node].is_up or self.nodes[node].stopped:
                continue
            with contextlib.suppress(ConnectionLostError):
                status, body = await get_json(port, "/debug/groups", timeout_s=1.0)
                if status == 200 and body is not None:
                    found[node] = body["groups"]
        return found

    async def leader_of(self, basin: str) -> int | None:
        """The node that says it leads the basin, of several the one of the latest term."""
        terms = {
            int(group["term"]): node
            for node, groups in (await self.groups()).items()
            for group in groups
            if group["basin"] == basin and group["role"] == "leader"
        }
        return terms[max(terms)] if terms else None

    async def wait_leader(self, basin: str, deadline_s: float = 20.0) -> int:
        async with asyncio.timeout(deadline_s):
            while (leader := await self.leader_of(basin)) is None:
                await asyncio.sleep(0.02)
            return leader

    async def equal(self, deadline_s: float = 30.0) -> list[str]:
        """Until all replicas of every group show one applied index and one digest. What differs
        when the time is over, else nothing; a different digest at one index is told at once."""
        end = time.monotonic() + deadline_s
        while True:
            rows: dict[int, set[tuple[int, str]]] = {}
            counts: dict[int, int] = {}
            for groups in (await self.groups()).values():
                for group in groups:
                    key = int(group["group_id"])
                    rows.setdefault(key, set()).add((group["applied_index"], group["digest"]))
                    counts[key] = counts.get(key, 0) + 1
            for key, seen in rows.items():
                if len({index for index, _ in seen}) < len(seen):
                    return [f"group {key}: different digests at one applied index: {sorted(seen)}"]
            unequal = {key: sorted(seen) for key, seen in rows.items() if len(seen) > 1}
            few = {key: count for key, count in counts.items() if count < len(NODES)}
            if rows and not unequal and not few:
                return []
            if time.monotonic() > end:
                return [f"not equal after {deadline_s} s: {unequal} {few}"]
            await asyncio.sleep(0.1)

    # -- power

    def cut_power(self, nodes: list[int], rng: random.Random) -> CutReport:
        """Take from the disks of nodes that have been killed what no sync covers."""
        total = CutReport()
        for node in nodes:
            assert not self.nodes[node].is_up, "power goes after the process"
            report = self.ledgers[node].cut_power(rng)
            total.undone_writes += report.undone_writes
            total.undone_bytes += report.undone_bytes
            total.undone_names += report.undone_names
            total.kept_sectors += report.kept_sectors
        return total

    # -- ending

    async def close(self) -> None:
        for member in self.members():
            member.resume()
            if member.is_up and member.process is not None:
                member.process.terminate()
        end = time.monotonic() + 8.0
        for member in self.members():
            while member.is_up and time.monotonic() < end:
                await asyncio.sleep(0.02)
            member.kill()
        await self.network.close()
        for space in self._spaces:
            space.close()

    def log_tail(self, lines: int = 25) -> str:
        parts: list[str] = []
        for member in self.members():
            if member.log.exists():
                text = member.log.read_text(errors="replace").splitlines()
                parts += [f"--- {member.name}", *text[-lines:]]
        return "\n".join(parts)
