"""A node is drained of a cluster that has no basins: what is told of it is what is so."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from svc_cluster.base.clock import SystemClock
from svc_cluster.cli.admin.admin_app import app
from svc_cluster.lab.own_cluster import OwnCluster
from tests.integration.processes import READY_S, tls_cluster

CATALOG = "it votes in the catalog, until another node can"


def run(own: OwnCluster, *arguments: str) -> tuple[int, str]:
    place = ["--data-dir", str(own.directory), "--node", "1"]
    done = CliRunner().invoke(app, [*arguments, *place])
    return done.exit_code, done.stdout


def until_leads_nothing(own: OwnCluster, node: str) -> Any:
    end = SystemClock().monotonic() + READY_S
    while True:
        told = json.loads(run(own, "node", "status", node, "-o", "json")[1] or "{}")
        if told.get("answers") and not told["leads"]:
            return told
        assert SystemClock().monotonic() < end, told


def test_a_node_of_the_catalog_or_one_that_is_stopped_is_not_empty(tmp_path: Path) -> None:
    """It drains, and the status for scripts is 1: it votes in the catalog; then it says nothing."""
    with tls_cluster(tmp_path / "data", []) as own:
        end = SystemClock().monotonic() + READY_S
        while run(own, "node", "drain", "3")[0]:  # until the catalog has a leader and all rows
            assert SystemClock().monotonic() < end, run(own, "node", "drain", "3")
        told = until_leads_nothing(own, "3")
        assert (told["replicas"], told["holds_catalog"], told["empty"]) == (0, True, False)
        code, out = run(own, "node", "status", "3")
        assert (code, CATALOG in out, "nothing is left" in out) == (1, True, False), out
        page = json.loads(run(own, "cluster", "status", "-o", "json")[1])
        assert f"node 3 is drained: {CATALOG}" in page["outstanding"]
        own.kill_node(3, signal.SIGSTOP)
        try:
            code, out = run(own, "node", "status", "3")
            assert (code, "leads that it does not tell" in out) == (1, True), out
            page = json.loads(run(own, "cluster", "status", "-o", "json")[1])
            (said,) = [line for line in page["outstanding"] if line.startswith("node 3 ")]
            assert said.startswith("node 3 drains and does not answer: what it leads is not known")
        finally:
            own.kill_node(3, signal.SIGCONT)
