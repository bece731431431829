"""One node alone as a process, for tests that talk to its administration."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import yaml

from svc_cluster.cli.local.ports import HeldPorts
from tests.service_process import service


class AdminNode:
    """`svc-cluster node` with a cluster of its own, in clear on loopback. Ports are fixed before
    the start; `admin_rpc` is administration's, `health` the one for probes."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.directory = directory
        self._held = HeldPorts(4)
        self.http, self.admin_rpc, self.health, rpc = self._held.numbers
        secret = directory / "secret"
        secret.write_text("s" * 64)
        self.settings = {
            "cluster_id": "alone",
            "node_id": 1,
            "nodes": {"1": f"127.0.0.1:{rpc}"},
            "replication_factor": 1,
            "data_dir": str(directory / "data"),
            "secret_file": str(secret),
            "admin_address": f"127.0.0.1:{self.http}",
            "admin_rpc_address": f"127.0.0.1:{self.admin_rpc}",
            "health_rpc_address": f"127.0.0.1:{self.health}",
            **settings,
        }
        self._config = directory / "node.yaml"
        self.process = service("node", self._config, directory / "node.log")

    def start(self) -> None:
        self._config.write_text(yaml.safe_dump(self.settings))
        self.process.start()

    def tell(self, number: signal.Signals) -> None:
        self.process.tell(number)

    def end(self) -> int:
        """Return the exit status, by force if it does not end by itself."""
        return self.process.end()

    def stop(self) -> int:
        return self.process.stop()

    def log(self) -> str:
        return self.process.said()
