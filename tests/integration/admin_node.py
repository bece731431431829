"""One node alone as a process, for tests that talk to its administration."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from svc_cluster.cli.local.ports import HeldPorts
from tests.log_lines import whole_text

END_S = 30.0


class AdminNode:
    """`svc-cluster node` with a cluster of its own, in clear on loopback. Ports are fixed before
    the start; `admin_rpc` is administration's, `health` the one for probes."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.directory = directory
        self._held = HeldPorts(4)
        self.http, self.admin_rpc, self.health, rpc = self._held.numbers
        self._log = directory / "node.log"
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
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        path = self.directory / "node.yaml"
        path.write_text(yaml.safe_dump(self.settings))
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "svc_cluster", "node", "--config", str(path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def tell(self, number: signal.Signals) -> None:
        assert self.process is not None, "not started"
        self.process.send_signal(number)

    def end(self) -> int:
        """The exit status, by force if it does not end by itself."""
        assert self.process is not None, "not started"
        try:
            return self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def stop(self) -> int:
        self.tell(signal.SIGTERM)
        return self.end()

    def log(self) -> str:
        return whole_text(self._log)
