"""`svc-cluster admin cluster`, `leader` and `basin` against the processes of three nodes."""

from __future__ import annotations

import asyncio
import functools
import json
import signal
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from svc_cluster.base.clock import SystemClock
from svc_cluster.catalog.lead_plan import spread
from svc_cluster.cli.admin.admin_app import app
from svc_cluster.lab.api_client import ApiClient, AppendRecord
from svc_cluster.lab.own_cluster import OwnCluster
from tests.integration.processes import READY_S, tls_cluster, trust, wait_page

BASINS = [f"led-{number:02d}-basin" for number in range(9)]
GROUPS = len(BASINS) + 1


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnCluster]:
    """Nodes that do not even their leads out by themselves."""
    environment = pytest.MonkeyPatch()
    environment.setenv("SVC_CLUSTER_BALANCE_LEADERS", "false")
    with tls_cluster(tmp_path_factory.mktemp("leads") / "data", BASINS) as own:
        yield own
    environment.undo()


def run(own: OwnCluster, *arguments: str, node: int = 1) -> tuple[int, str, str]:
    """The status of `svc-cluster admin`, asked of this node, and what it said."""
    place = ["--data-dir", str(own.directory), "--node", str(node)]
    done = CliRunner().invoke(app, [*arguments, *place])
    return done.exit_code, done.stdout, done.stderr


def told(own: OwnCluster, *arguments: str, node: int = 1) -> Any:
    return json.loads(run(own, *arguments, "-o", "json", node=node)[1])


def leads(own: OwnCluster, node: int = 1) -> Counter[int]:
    """Groups by their leader."""
    rows = told(own, "leader", "show", node=node)["groups"]
    assert len(rows) == GROUPS
    return Counter({1: 0, 2: 0, 3: 0}) + Counter(row["leader"] for row in rows)


def until(own: OwnCluster, *arguments: str, status: int = 0, node: int = 1) -> str:
    """What the command says once it has this status. Raises AssertionError."""
    end = SystemClock().monotonic() + READY_S
    while True:
        code, out, err = run(own, *arguments, node=node)
        if code == status:
            return out
        assert SystemClock().monotonic() < end, (code, out, err)


def test_the_page_names_every_node_and_health_says_why_not(cluster: OwnCluster) -> None:
    """Of a cluster that is whole; of one without a node, which is named, asked at another one, with
    the status that scripts go by; and whole again."""
    until(cluster, "cluster", "health")
    page = told(cluster, "cluster", "status", node=2)
    assert (page["asked_node"], page["basins"], page["problems"]) == (2, len(BASINS), [])
    assert [row["node_id"] for row in page["nodes"]] == [1, 2, 3]
    assert all(row["standing"] == "up" and row["groups"] == GROUPS for row in page["nodes"])
    assert sum(row["groups_led"] for row in page["nodes"]) == GROUPS
    assert all(row["memory_bytes_max"] > 0 and row["free_bytes"] for row in page["nodes"])
    assert any("upgrade" in line for line in page["outstanding"])
    pid = cluster.node(3)["pid"]
    cluster.kill_node(3, signal.SIGSTOP)
    try:
        out = until(cluster, "cluster", "health", status=1)
        assert "node 3 at" in out
        assert "does not answer" in out
        code, out, _ = run(cluster, "cluster", "status")
        assert (code, "wrong      node 3" in out) == (0, True), out
        code, out, _ = run(cluster, "basin", "show", BASINS[0])
        assert (code, "the replica on node 3 is absent" in out) == (1, True), out
    finally:
        cluster.kill_node(3, signal.SIGCONT)
    until(cluster, "cluster", "health")
    assert cluster.node(3)["pid"] == pid


def test_a_basin_s_replicas_are_told_as_their_nodes_have_them(cluster: OwnCluster) -> None:
    """All three as far as one another, with one digest; asked of any node."""
    asyncio.run(append(cluster, 3))
    end = SystemClock().monotonic() + READY_S
    while True:
        out = told(cluster, "basin", "show", BASINS[0], node=3)
        rows = out["replicas"]
        if len({row["applied_index"] for row in rows}) == 1:
            break
        assert SystemClock().monotonic() < end, rows
    assert [row["node_id"] for row in rows] == [1, 2, 3]
    assert len({row["digest"] for row in rows}) == 1
    assert not out["diverged"]
    assert Counter(row["role"] for row in rows) == {"leader": 1, "follower": 2}
    code, _, err = run(cluster, "basin", "show", "no-such-basin")
    assert (code, "knows no such basin" in err) == (1, True)


async def append(own: OwnCluster, count: int) -> None:
    """To every basin, again where it is refused."""
    api = ApiClient(f"https://127.0.0.1:{own.port}", trust(own))
    try:
        for basin in BASINS * count:
            one = functools.partial(api.append, basin, "s", [AppendRecord(b"x")])
            await api.insist(SystemClock(), one, accept=frozenset({200}), deadline_s=READY_S)
    finally:
        api.close()


def test_one_lead_is_handed_over_and_more_only_told(cluster: OwnCluster) -> None:
    """To a node that is named, twice with the same end, to any other one, and the catalog's; what
    cannot be is refused by name."""
    until(cluster, "cluster", "health")
    named = ("leader", "transfer", BASINS[1])
    for _ in range(2):
        assert told(cluster, *named, "--to", "2")["leader"] == 2
    answer = told(cluster, *named, node=3)
    assert (answer["from_node"], answer["leader"]) in ((2, 1), (2, 3))
    answer = told(cluster, "leader", "transfer", "--catalog", node=2)
    assert answer["from_node"] != answer["leader"]
    code, _, err = run(cluster, *named, "--to", "7")
    assert (code, "node 7 has no replica of it" in err) == (1, True)
    assert run(cluster, "leader", "transfer")[0] == 2
    assert run(cluster, *named, "--catalog")[0] == 2


def test_behind_a_rolling_restart_the_leads_are_evened_out_by_the_command(
    cluster: OwnCluster,
) -> None:
    """Nodes restarted one after the other leave the last of them with nothing; then no node leads
    more than one above another, by any node's word; a second time there is nothing to move."""
    for node in (1, 2, 3):
        until(cluster, "cluster", "health", node=node % 3 + 1)
        assert run(cluster, "drain", node=node)[0] == 0
        pid = cluster.kill_node(node, signal.SIGTERM)
        asyncio.run(_back(cluster, node, pid))
    until(cluster, "cluster", "health")
    before = leads(cluster)
    assert before[3] == 0
    assert spread([before[node] for node in (1, 2, 3)]) > 1
    plan = told(cluster, "leader", "balance", "--dry-run")
    assert plan["moves"]
    assert leads(cluster) == before
    code, out, err = run(cluster, "leader", "balance", node=2)
    assert code == 0, out + err
    for node in (1, 2, 3):
        now = leads(cluster, node)
        assert spread([now[each] for each in (1, 2, 3)]) <= 1
    code, out, _ = run(cluster, "leader", "balance", "--dry-run")
    assert (code, "there is nothing to move" in out) == (0, True)
    asyncio.run(append(cluster, 1))


async def _back(own: OwnCluster, node: int, pid: int) -> None:
    end = SystemClock().monotonic() + READY_S
    while own.node(node)["pid"] == pid:
        assert SystemClock().monotonic() < end, own.log_tail()
        await asyncio.sleep(0.05)
    await wait_page(int(own.node(node)["admin_port"]), "/readyz", 200, "OK")
