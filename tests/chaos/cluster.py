"""A cluster whose every wire goes through our proxy: nodes and gateways started one by one.

Each node has a ledger and a control file of its own, and a network namespace of its own where the
machine allows that; its configuration names the proxy's ports for the others and its own real port
for itself. Ends only what it started.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import time
from pathlib import Path
from typing import Any, Final

from svc_cluster.cli.local.ports import HeldPorts
from tests.chaos.control import Control
from tests.chaos.members import NODES, Members
from tests.chaos.namespaces import Namespace
from tests.chaos.proxy import Network
from tests.e2e.power import CutReport, Ledger

GATEWAYS: Final = (1, 2)
_RPC_PORT: Final = 7001
_ADMIN_PORT: Final = 7002
_ORDERS_PORT: Final = 7003
_HTTP_PORT: Final = 8080
"""In a namespace every node may use the same ports."""

SETTINGS: Final[dict[str, Any]] = {
    "wal_segment_mib": 4,
    "wal_retain_mib": 16,
    "log_retention_mib": 4,
    "log_retention_seconds": 5.0,
    "flush_seconds": 1.0,
    "disk_reserve_mib": 64,
    "replace_lost_nodes": True,
    "scrub_interval_seconds": 2.0,
    "log_format": "text",
}


Ports = tuple[int, int, int]


class ChaosCluster(Members):
    """Three nodes and two gateways under `directory`. Use as an async context manager."""

    ready_s = 40.0

    def __init__(self, directory: Path, shim: Path, seed: int, *, namespaces: bool) -> None:
        super().__init__(directory)
        self.network = Network(random.Random(f"network/{seed}"))
        self.ledgers: dict[int, Ledger] = {}
        self.controls: dict[int, Control] = {}
        self.order_ports: dict[int, int] = {}
        """Of the nodes, for what an operator asks of them."""
        self._shim = shim
        self._namespaces = namespaces
        self._spaces: list[Namespace] = []
        self._home = Namespace(None)
        self._tag = f"{os.getpid()}-{seed % 10_000}"

    # -- making

    def _space(self, name: str) -> Namespace:
        space = Namespace(f"svc-{self._tag}-{name}" if self._namespaces else None)
        self._spaces.append(space)
        return space

    async def set_up(self) -> None:
        secret = self.directory / "cluster.secret"
        secret.write_text(secrets.token_hex(32) + "\n")
        names = {node: f"node-{node}" for node in NODES}
        spaces = {node: self._space(f"n{node}") for node in NODES}
        doors = {gateway: self._space(f"g{gateway}") for gateway in GATEWAYS}
        ports, http_ports = self._ports()
        common = {"cluster_id": secrets.token_hex(16), "secret_file": str(secret)}
        for node in NODES:
            addresses = {str(node): f"127.0.0.1:{ports[node][0]}"}
            for other in NODES:
                if other != node:
                    port = await self.network.forward(
                        names[node], names[other], spaces[node], spaces[other], ports[other][0]
                    )
                    addresses[str(other)] = f"127.0.0.1:{port}"
            self.admin_ports[node] = await self.network.forward(
                "us", f"admin-{node}", self._home, spaces[node], ports[node][1]
            )
            self.order_ports[node] = await self.network.forward(
                "us", f"orders-{node}", self._home, spaces[node], ports[node][2]
            )
            self._add_node(node, spaces[node], common, addresses, ports[node])
        for gateway in GATEWAYS:
            addresses = {}
            for node in NODES:
                port = await self.network.forward(
                    f"gateway-{gateway}", names[node], doors[gateway], spaces[node], ports[node][0]
                )
                addresses[str(node)] = f"127.0.0.1:{port}"
            http = http_ports[gateway]
            port = await self.network.forward(
                "us", f"http-{gateway}", self._home, doors[gateway], http
            )
            self.urls.append(f"http://127.0.0.1:{port}")
            config = {**common, "nodes": addresses, "port": http, "log_format": "text"}
            self.add_gateway(gateway, config, doors[gateway])

    def _ports(self) -> tuple[dict[int, Ports], dict[int, int]]:
        """Of the nodes for links, figures and orders, and of the gateways."""
        if self._namespaces:
            return dict.fromkeys(NODES, (_RPC_PORT, _ADMIN_PORT, _ORDERS_PORT)), dict.fromkeys(
                GATEWAYS, _HTTP_PORT
            )
        self._held = HeldPorts(3 * len(NODES) + len(GATEWAYS))
        left = iter(self._held.numbers)
        nodes = {node: (next(left), next(left), next(left)) for node in NODES}
        return nodes, {gateway: next(left) for gateway in GATEWAYS}

    def _add_node(
        self,
        node: int,
        space: Namespace,
        common: dict[str, str],
        addresses: dict[str, str],
        ports: Ports,
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
            "admin_address": f"127.0.0.1:{ports[1]}",
            "admin_rpc_address": f"127.0.0.1:{ports[2]}",
        }
        self.add_node(node, config, space, ledger.env(control.env()))

    # -- looking

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
        await super().close()
        await self.network.close()
        for space in self._spaces:
            space.close()
