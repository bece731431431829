"""Three nodes and two gateways as plain processes on loopback, asking for access tokens.

No proxies, shims or namespaces: for runs whose only fault is kill -9.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

from svc_cluster.cli.local.ports import HeldPorts
from svc_cluster.model.access_secret import SECRET_BYTES, secret_text
from tests.chaos.members import NODES, Members
from tests.chaos.namespaces import Namespace


class Processes(Members):
    """Use as an async context manager."""

    def __init__(self, directory: Path, gateways: int = 2) -> None:
        super().__init__(directory)
        self.root_secret = secret_text(secrets.token_bytes(SECRET_BYTES))
        self._held = HeldPorts(2 * len(NODES) + gateways)
        ports = self._held.numbers
        self.admin_ports = dict(zip(NODES, ports[len(NODES) :], strict=False))
        self._http = ports[2 * len(NODES) :]
        self.urls = [f"http://127.0.0.1:{port}" for port in self._http]

    async def set_up(self) -> None:
        secret, token = self.directory / "cluster.secret", self.directory / "root-token"
        secret.write_text(secrets.token_hex(32))
        token.write_text(self.root_secret)
        common: dict[str, Any] = {
            "cluster_id": secrets.token_hex(16),
            "secret_file": str(secret),
            "nodes": {
                str(node): f"127.0.0.1:{port}"
                for node, port in zip(NODES, self._held.numbers, strict=False)
            },
            "log_format": "text",
        }
        for node, port in self.admin_ports.items():
            config = {
                **common,
                "node_id": node,
                "data_dir": str(self.directory / f"node-{node}"),
                "admin_address": f"127.0.0.1:{port}",
                "root_token_file": str(token),
                "flush_seconds": 1.0,
                "disk_reserve_mib": 64,
            }
            self.add_node(node, config, Namespace(None), {})
        for number, port in enumerate(self._http):
            config = {**common, "port": port, "authentication": True}
            self.add_gateway(number, config, Namespace(None))
