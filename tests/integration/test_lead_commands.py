"""`svc-cluster admin cluster`, `leader` and `basin` against the processes of three nodes."""

from __future__ import annotations

import asyncio
import functools
import itertools
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
    assert page["active_version"] == page["newest_version"], "it began so"
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


def test_a_frozen_basin_refuses_appends_in_both_dialects_until_it_is_thawed(
    cluster: OwnCluster,
) -> None:
    """Definitely, with the reason; reads and other basins go on. It stays so when its leader is
    killed, and is told by `basin show`."""
    frozen, other = BASINS[2], BASINS[3]
    until(cluster, "cluster", "health")
    out = until(cluster, "basin", "freeze", frozen, "--reason", "it moves")
    assert out.strip() == f"basin {frozen} is frozen: it moves"
    asyncio.run(_refused(cluster, frozen, other, "it moves"))
    leader = told(cluster, "basin", "show", frozen)["leader"]
    pid = cluster.kill_node(leader, signal.SIGKILL)
    asyncio.run(_back(cluster, leader, pid))
    until(cluster, "cluster", "health")
    assert told(cluster, "basin", "show", frozen)["frozen"] == "it moves"
    asyncio.run(_refused(cluster, frozen, other, "it moves"))
    assert until(cluster, "basin", "thaw", frozen).strip() == f"basin {frozen} takes appends"
    asyncio.run(append(cluster, 1))
    assert told(cluster, "basin", "show", frozen)["frozen"] == ""
    code, _, err = run(cluster, "basin", "freeze", "no-such-basin")
    assert (code, "knows no such basin" in err) == (1, True)
    code, _, err = run(cluster, "basin", "freeze", frozen, "--reason", "x" * 257)
    assert (code, "at most 256 bytes" in err) == (2, True)
    assert run(cluster, "basin", "freeze", frozen, "--reason", " ")[0] == 2


def test_a_drained_node_gives_its_leads_away_until_it_is_undrained(cluster: OwnCluster) -> None:
    """Refused where its replicas have no other place, unless that is forced; told by `status` and
    on the cluster's page; a restart changes nothing."""
    until(cluster, "cluster", "health")
    code, _, err = run(cluster, "node", "drain", "3")
    assert (code, "--force gives its leads away" in err) == (1, True), err
    told_of = told(cluster, "node", "drain", "3", "--force", node=2)
    assert (told_of["state"], told_of["replicas"]) == ("draining", len(BASINS))
    _led_nothing(cluster, 3)
    assert run(cluster, "node", "status", "3")[0] == 1, "its replicas are there"
    assert run(cluster, "node", "status", "2")[0] == 0
    code, out, _ = run(cluster, "rebalance", "--dry-run")
    assert (code, "every replica is where it should be" in out) == (0, True), "no other place"
    code, out, _ = run(cluster, "rebalance", "--status")
    assert (code, "0 moves begun" in out) == (0, True)
    assert run(cluster, "rebalance", "--status", "--dry-run")[0] == 2
    page = told(cluster, "cluster", "status")
    assert any(
        "node 3 is drained of leads: 9 replicas are left" in line for line in page["outstanding"]
    )
    assert page["problems"] == []
    pid = cluster.kill_node(3, signal.SIGKILL)
    asyncio.run(_back(cluster, 3, pid))
    until(cluster, "cluster", "health")
    _led_nothing(cluster, 3)
    code, _, err = run(cluster, "node", "drain", "9")
    assert (code, "no node 9 is registered" in err) == (1, True), err
    assert told(cluster, "node", "undrain", "3")["state"] == "active"
    end = SystemClock().monotonic() + READY_S
    while leads(cluster)[3] == 0:
        assert SystemClock().monotonic() < end
        run(cluster, "leader", "balance")


def _led_nothing(own: OwnCluster, node: int) -> None:
    """The others lead all, soon."""
    end = SystemClock().monotonic() + READY_S
    while (told_of := told(own, "node", "status", str(node)))["leads"] or not told_of["answers"]:
        assert SystemClock().monotonic() < end, told_of
    assert leads(own)[node] == 0


async def _refused(own: OwnCluster, frozen: str, other: str, reason: str) -> None:
    api = ApiClient(f"https://127.0.0.1:{own.port}", trust(own))
    body = b'{"records": [{"body": "eA=="}]}'
    try:
        paths = ("/v1/streams/s/records", f"/v1/basins/{frozen}/streams/s/append")
        for mark, path in itertools.product(("svc-basin", "s2-basin"), paths):
            headers = {mark: frozen, "content-type": "application/json"}
            answer = await api.http.request("POST", path, headers, body)
            told_of = json.loads(answer.body)
            assert (answer.status, told_of["code"]) == (503, "unavailable"), answer
            assert reason in told_of["message"]
            assert dict(answer.headers)["svc-side-effects"] == "none"
        assert (await api.read(frozen, "s", "seq_num=0&count=1")).status == 200
        one = functools.partial(api.append, other, "s", [AppendRecord(b"x")])
        await api.insist(SystemClock(), one, accept=frozenset({200}), deadline_s=READY_S)
    finally:
        api.close()
