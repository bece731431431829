"""A node and a gateway as processes, told by SIGHUP to read their files again."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import yaml

from svc_cluster.cli.local.ports import HeldPorts
from svc_cluster.http.client import HttpClient
from tests.integration.processes import in_loop, wait_page
from tests.log_lines import json_lines
from tests.service_process import ServiceProcess, service

SECONDS = 60.0


class Pair:
    """One node and one gateway, with a file each and one audit log."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        """`settings`: of both."""
        self.directory = directory
        held = HeldPorts(3)
        rpc, self.admin, self.port = held.numbers
        held.close()
        (directory / "secret").write_text("s" * 64)
        shared: dict[str, Any] = {
            "cluster_id": "reload",
            "nodes": {"1": f"127.0.0.1:{rpc}"},
            "secret_file": str(directory / "secret"),
            "audit_log": str(directory / "audit.log"),
            **settings,
        }
        self.node = {
            **shared,
            "node_id": 1,
            "data_dir": str(directory / "data"),
            "admin_address": f"127.0.0.1:{self.admin}",
            "replication_factor": 1,
        }
        self.gateway = {**shared, "port": self.port}
        self.write()

    def write(self) -> None:
        for name in ("node", "gateway"):
            (self.directory / f"{name}.yaml").write_text(yaml.safe_dump(getattr(self, name)))

    def lines(self, name: str, event: str) -> list[dict[str, Any]]:
        """What a process has logged under this name."""
        found = json_lines(self.directory / f"{name}.log")
        return [line for line in found if line["event"] == event]

    def audit(self) -> list[dict[str, Any]]:
        found = json_lines(self.directory / "audit.log")
        return [line for line in found if line["operation"] == "reload-settings"]

    async def create(self, basin: str) -> int:
        async with HttpClient(f"http://127.0.0.1:{self.port}") as client:
            body = json.dumps({"basin": basin}).encode()
            answer = await client.request(
                "POST", "/v1/basins", {"content-type": "application/json"}, body, timeout_s=20.0
            )
        return answer.status

    async def reload(self, process: ServiceProcess, name: str, event: str) -> None:
        """Write the files, send the signal, and return once the line is there."""
        self.write()
        before = len(self.lines(name, event))
        process.tell(signal.SIGHUP)
        await until(lambda: len(self.lines(name, event)) > before)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not holds():
            await asyncio.sleep(0.05)


def in_pair(
    test: Callable[[Pair, Any, Any], Coroutine[Any, Any, None]], directory: Path, **settings: Any
) -> Any:
    async def main() -> None:
        pair = Pair(directory, **settings)
        with (
            service("node", directory / "node.yaml", directory / "node.log") as node,
            service("gateway", directory / "gateway.yaml", directory / "gateway.log") as gateway,
        ):
            await wait_page(pair.admin, "/readyz", 200)
            await wait_page(pair.port, "/readyz", 200)
            await test(pair, node, gateway)
            assert (node.status, gateway.status) == (None, None)

    return main()


@in_loop
async def test_quotas_rates_and_log_level_change_while_both_run(tmp_path: Path) -> None:
    """A lower quota refuses the next basin and a higher one lets it in. A rate comes where there
    was none, and goes. A broken file changes nothing. The audit log has each change and refusal."""

    async def body(pair: Pair, node: Any, gateway: Any) -> None:
        assert await pair.create("basin-one") == 201
        pair.node["basins_max"] = 1
        await pair.reload(node, "node", "settings_reloaded")
        assert await pair.create("basin-two") == 403
        pair.node["basins_max"] = 2
        pair.node["flush_seconds"] = 9.0
        await pair.reload(node, "node", "settings_wait_for_restart")
        assert pair.lines("node", "settings_wait_for_restart")[0]["keys"] == ["flush_seconds"]
        assert await pair.create("basin-two") == 201

        pair.gateway |= {"account_requests_per_second": 0.01, "log_level": "debug"}
        await pair.reload(gateway, "gateway", "settings_reloaded")
        statuses = [await pair.create("basin-one") for _ in range(3)]
        assert statuses[-1] == 429, statuses
        del pair.gateway["account_requests_per_second"]
        await pair.reload(gateway, "gateway", "settings_reloaded")
        assert [await pair.create("basin-one") for _ in range(5)] == [409] * 5

        pair.gateway["log_level"] = "loud"
        await pair.reload(gateway, "gateway", "settings_refused")
        assert "log_level" in pair.lines("gateway", "settings_refused")[0]["reason"]
        assert await pair.create("basin-one") == 409

    await in_pair(body, tmp_path)
    told = [
        (line["role"], line.get("node"), line["effect"], line["changes"])
        for line in Pair.audit(_at(tmp_path))
    ]
    assert told == [
        ("node", 1, "done", [{"setting": "basins_max", "from": 100, "to": 1}]),
        ("node", 1, "done", [{"setting": "basins_max", "from": 1, "to": 2}]),
        (
            "gateway",
            None,
            "done",
            [
                {"setting": "account_requests_per_second", "from": None, "to": 0.01},
                {"setting": "log_level", "from": "info", "to": "debug"},
            ],
        ),
        (
            "gateway",
            None,
            "done",
            [{"setting": "account_requests_per_second", "from": 0.01, "to": None}],
        ),
        ("gateway", None, "none", []),
    ]


def _at(directory: Path) -> Pair:
    pair = Pair.__new__(Pair)
    pair.directory = directory
    return pair
