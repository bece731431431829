"""Debian's Prometheus over processes of a test: fetched, started, asked, stopped."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from svc_cluster.base.clock import SystemClock
from svc_cluster.cli.local.ports import HeldPorts
from svc_cluster.lab.own_cluster import OwnCluster
from tests.service_process import ServiceProcess

ROOT: Final = Path(__file__).resolve().parents[2]
BUILD: Final = ROOT / "build" / "prometheus"
FETCH: Final = ROOT / "deploy" / "prometheus" / "fetch.sh"
READY_S: Final = 60.0


def fetched() -> Path:
    """The directory of prometheus and promtool; skips the test where they cannot be had."""
    found = shutil.which("prometheus")
    if found is not None and shutil.which("promtool") is not None:
        return Path(found).parent
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        pytest.skip("Prometheus is not installed and there is no apt-get to fetch its package by")
    done = subprocess.run([FETCH, BUILD], capture_output=True, text=True, timeout=240, check=False)
    if done.returncode != 0:
        pytest.skip(f"Debian's prometheus package cannot be fetched: {done.stderr[-200:]}")
    return BUILD


def targets(own: OwnCluster) -> dict[str, list[str]]:
    """Job to addresses."""
    nodes = [f"127.0.0.1:{node['admin_port']}" for node in own.file()["nodes"]]
    return {"svc-node": nodes, "svc-gateway": [f"127.0.0.1:{own.port}"]}


class Prometheus:
    """A running one, and its answers."""

    def __init__(
        self,
        binary: Path,
        directory: Path,
        jobs: Mapping[str, Sequence[str]],
        *,
        rules: Path | None = None,
        over_tls: Mapping[str, Path] | None = None,
    ) -> None:
        """`over_tls`: the jobs that are scraped over TLS, each with the CA that is trusted."""
        self._held = HeldPorts(1)
        self.port = self._held.numbers[0]
        config = directory / "prometheus.yml"
        scraped: list[dict[str, Any]] = [
            {"job_name": job, "static_configs": [{"targets": [*addresses]}]}
            for job, addresses in jobs.items()
        ]
        for each in scraped:
            if (ca := (over_tls or {}).get(str(each["job_name"]))) is not None:
                each |= {"scheme": "https", "tls_config": {"ca_file": str(ca)}}
        every = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
        config.write_text(
            yaml.safe_dump(
                {
                    "global": every,
                    "rule_files": [] if rules is None else [str(rules)],
                    "scrape_configs": scraped,
                }
            )
        )
        command = [
            str(binary / "prometheus"),
            f"--config.file={config}",
            f"--storage.tsdb.path={directory / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
        ]
        self.process = ServiceProcess(command, directory / "prometheus.log")
        self.process.start()

    def _asked(self, path: str) -> dict[str, Any]:
        """The data of an answer; empty while there is none."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                found: dict[str, Any] = json.load(answer)["data"]
        except (urllib.error.URLError, OSError):
            return {}
        return found

    def query(self, expression: str) -> dict[str, float]:
        """Instance to value; empty while it does not answer."""
        data = self._asked("/api/v1/query?" + urllib.parse.urlencode({"query": expression}))
        return {
            row["metric"].get("instance", ""): float(row["value"][1])
            for row in data.get("result", [])
        }

    def alerts(self) -> list[dict[str, Any]]:
        """The alerts that are pending or firing, with labels, annotations and state."""
        found: list[dict[str, Any]] = self._asked("/api/v1/alerts").get("alerts", [])
        return found

    async def wait(self, expression: str, wanted: dict[str, float]) -> None:
        """Until the answer is `wanted`."""
        end = SystemClock().monotonic() + READY_S
        seen: dict[str, float] = {}
        while SystemClock().monotonic() < end:
            seen = self.query(expression)
            if seen == wanted:
                return
            await asyncio.sleep(0.2)
        raise AssertionError(f"{expression} is {seen}, not {wanted}")

    def stop(self) -> None:
        self.process.stop()
