"""Three nodes and two gateways as plain processes on loopback, asking for access tokens.

No proxies, shims or namespaces: for runs whose only fault is kill -9. Ends only what it started.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import sys
import time
from pathlib import Path
from typing import Any, Final

import yaml

from svc_cluster.cli.http_client import ConnectionLostError
from svc_cluster.cli.local import free_ports
from svc_cluster.cli.own_cluster import get_json
from svc_cluster.model.access_secret import SECRET_BYTES, secret_text
from tests.chaos.cluster import Member
from tests.chaos.namespaces import Namespace

NODES: Final = (1, 2, 3)
READY_S: Final = 60.0
STOP_S: Final = 8.0


class Processes:
    """Use as an async context manager."""

    def __init__(self, directory: Path, gateways: int = 2) -> None:
        self.directory = directory
        directory.mkdir(parents=True)
        self.root_secret = secret_text(secrets.token_bytes(SECRET_BYTES))
        ports = free_ports(2 * len(NODES) + gateways)
        self._admin = dict(zip(NODES, ports[len(NODES) :], strict=False))
        addresses = {str(node): f"127.0.0.1:{ports[node - 1]}" for node in NODES}
        self._http = ports[2 * len(NODES) :]
        self.urls = [f"http://127.0.0.1:{port}" for port in self._http]
        (directory / "cluster.secret").write_text(secrets.token_hex(32))
        (directory / "root-token").write_text(self.root_secret)
        common: dict[str, Any] = {
            "cluster_id": secrets.token_hex(16),
            "secret_file": str(directory / "cluster.secret"),
            "nodes": addresses,
            "log_format": "text",
        }
        self.nodes = {node: self._node(node, common) for node in NODES}
        self.gateways = [
            self._member(
                "gateway", number, {**common, "port": self._http[number], "authentication": True}
            )
            for number in range(gateways)
        ]

    def _node(self, node: int, common: dict[str, Any]) -> Member:
        config = {
            **common,
            "node_id": node,
            "data_dir": str(self.directory / f"node-{node}"),
            "admin_address": f"127.0.0.1:{self._admin[node]}",
            "root_token_file": str(self.directory / "root-token"),
            "flush_seconds": 1.0,
            "disk_reserve_mib": 64,
        }
        return self._member("node", node, config)

    def _member(self, role: str, number: int, config: dict[str, Any]) -> Member:
        path = self.directory / f"{role}-{number}.yaml"
        path.write_text(yaml.safe_dump(config))
        command = [sys.executable, "-m", "svc_cluster", role, "--config", str(path)]
        return Member(f"{role}-{number}", Namespace(None), command, path.with_suffix(".log"), {})

    async def __aenter__(self) -> Processes:
        try:
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
        return [*self.nodes.values(), *self.gateways]

    async def ready(self, deadline_s: float = READY_S) -> None:
        """Until everyone is up and says that it is ready. Raises TimeoutError, and RuntimeError
        when one has ended by itself."""
        async with asyncio.timeout(deadline_s):
            for port in (*self._admin.values(), *self._http):
                while not await self._is_ready(port):
                    down = [member.name for member in self.members() if not member.is_up]
                    if down:
                        raise RuntimeError(f"ended by themselves: {down}\n{self.log_tail()}")
                    await asyncio.sleep(0.05)

    async def _is_ready(self, port: int) -> bool:
        with contextlib.suppress(ConnectionLostError):
            return (await get_json(port, "/readyz"))[0] == 200
        return False

    async def leader_of(self, basin: str | None, deadline_s: float = 20.0) -> int:
        """The node that leads the basin, or (None) the catalog. Raises TimeoutError."""
        async with asyncio.timeout(deadline_s):
            while True:
                terms: dict[int, int] = {}
                for node, port in self._admin.items():
                    with contextlib.suppress(ConnectionLostError):
                        _, body = await get_json(port, "/debug/groups")
                        for group in (body or {}).get("groups", ()):
                            if group["basin"] == basin and group["role"] == "leader":
                                terms[int(group["term"])] = node
                if terms:
                    return terms[max(terms)]
                await asyncio.sleep(0.05)

    async def close(self) -> None:
        for member in self.members():
            if member.is_up and member.process is not None:
                member.process.terminate()
        end = time.monotonic() + STOP_S
        for member in self.members():
            while member.is_up and time.monotonic() < end:
                await asyncio.sleep(0.02)
            member.kill()

    def log_tail(self, lines: int = 15) -> str:
        parts: list[str] = []
        for member in self.members():
            if member.log.exists():
                text = member.log.read_text(errors="replace").splitlines()
                parts += [f"--- {member.name}", *text[-lines:]]
        return "\n".join(parts)
