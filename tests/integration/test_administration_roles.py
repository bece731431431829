"""Administration of three nodes under TLS: whose certificate may do what, and a drain that moves
leaders for real."""

from __future__ import annotations

import asyncio
import functools
import json
import signal
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from typer.testing import CliRunner

from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
from svc_cluster._pb.cluster.v1 import admin_pb2_grpc
from svc_cluster.administration.credentials import open_channel
from svc_cluster.administration.operations import OPERATIONS, SERVICE
from svc_cluster.base.clock import SystemClock
from svc_cluster.base.ids import NodeId
from svc_cluster.cli.admin.admin_app import app
from svc_cluster.cli.admin.authority import Authority, certificate_names, issue
from svc_cluster.cli.processes.own_certificate import utc_now
from svc_cluster.lab.api_client import ApiClient, AppendRecord
from svc_cluster.lab.own_cluster import OwnCluster
from svc_cluster.link.tls import PeerTls, node_name
from tests.integration.processes import READY_S, in_loop, tls_cluster, trust

BASINS = [f"drained-{number}" for number in range(6)]
ASKED = 1
"""The node that the matrix is tried at."""

ADMINISTRATION = [path for path in OPERATIONS if path.startswith(f"/{SERVICE}/")]
READING = {"Status", "Members", "Leaders", "Version", "Cluster", "Basin", "ClusterLeaders"}
ASK_FOR_SOMETHING = {
    "FinalizeUpgrade",
    "ReplaceMember",
    "AddMember",
    "RemoveMember",
    "TransferLeader",
    "Basin",
    "FreezeBasin",
    "DrainNode",
    "MoveBasin",
}
"""Refused, but not for who asks, where the request is empty."""
KEEPING = {
    "Drain",
    "Configuration",
    "BalanceLeaders",
    "PlanPlacement",
    *(ASK_FOR_SOMETHING - READING),
}
MAY: dict[str, set[str]] = {
    "administrator": {*READING, *KEEPING, "Export", "BackupTaken"},
    "node-1": {*READING, *KEEPING},
    "node-2": READING,
    "gateway": READING,
    "shared": READING,
    "public": set(),
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnCluster]:
    """Three nodes and a gateway under TLS, with basins, and one more certificate, as pods share."""
    with tls_cluster(tmp_path_factory.mktemp("roles") / "data", BASINS) as own:
        names = certificate_names([1, 2, 3], gateway=True)
        place = own.directory / "certificates" / "shared"
        issue(Authority(own.directory / "ca", utc_now), names, place)
        yield own


def certificate(own: OwnCluster, name: str) -> PeerTls:
    place = own.directory / "certificates" / name
    return PeerTls(place / "tls.crt", place / "tls.key", place / "ca.crt")


@asynccontextmanager
async def channel_to(own: OwnCluster, node: int, tls: PeerTls | None) -> Any:
    """A caller with this certificate."""
    address = f"127.0.0.1:{own.node(node)['admin_rpc_port']}"
    async with open_channel(address, (), tls, node_name(NodeId(node))) as channel:
        yield channel


@asynccontextmanager
async def administrator(own: OwnCluster, node: int) -> Any:
    async with channel_to(own, node, certificate(own, "administrator")) as channel:
        yield admin_pb2_grpc.AdministrationStub(channel)  # type: ignore[no-untyped-call]


async def outcome(channel: grpc.aio.Channel, path: str) -> grpc.StatusCode:
    """Of a call with an empty request, which each operation takes."""
    call = channel.unary_unary(path)(b"", timeout=READY_S)
    code: grpc.StatusCode = await call.code()
    return code


@pytest.mark.parametrize("name", MAY)
@in_loop
async def test_a_certificate_may_what_its_role_may_and_nothing_more(
    cluster: OwnCluster, name: str
) -> None:
    """The whole matrix but the drains that would be done; what was refused was not begun."""
    async with channel_to(cluster, ASKED, certificate(cluster, name)) as channel:
        for path in ADMINISTRATION:
            operation = path.rpartition("/")[2]
            if operation == "Drain" and operation in MAY[name]:
                continue
            allowed = operation in MAY[name]
            wanted = grpc.StatusCode.OK if allowed else grpc.StatusCode.PERMISSION_DENIED
            found = await outcome(channel, path)
            if allowed and operation in ASK_FOR_SOMETHING:
                assert found is grpc.StatusCode.FAILED_PRECONDITION, path
            elif allowed and operation == "Export":
                assert found is grpc.StatusCode.UNAVAILABLE, "there is no such group here"
            else:
                assert found is wanted, path
        assert await outcome(channel, "/grpc.health.v1.Health/Check") is grpc.StatusCode.OK
    async with administrator(cluster, ASKED) as stub:
        status = await stub.Status(pb.StatusRequest())
    assert status.ready
    assert not status.draining


@in_loop
async def test_without_a_certificate_of_the_cluster_not_a_word_is_said(
    cluster: OwnCluster, tmp_path: Path
) -> None:
    """In clear, and with an administrator's certificate of another CA: not even health."""
    foreign = Authority.create(tmp_path / "ca", utc_now)
    issue(foreign, certificate_names([], administrator=True), tmp_path / "foreign")
    own = certificate(cluster, "administrator")
    strange = PeerTls(
        tmp_path / "foreign" / "tls.crt", tmp_path / "foreign" / "tls.key", own.authority
    )
    for tls in (None, strange):
        async with channel_to(cluster, ASKED, tls) as channel:
            for path in (*ADMINISTRATION, "/grpc.health.v1.Health/Check"):
                assert await outcome(channel, path) is grpc.StatusCode.UNAVAILABLE


async def leader_by_basin(own: OwnCluster, node: int) -> dict[str, int]:
    """As this node knows it, in pages of two."""
    out: dict[str, int] = {}
    behind = 0
    async with administrator(own, node) as stub:
        while True:
            page = await stub.Leaders(pb.LeadersRequest(limit=2, start_after=behind))
            assert len(page.groups) <= 2
            out |= {group.basin: group.leader for group in page.groups}
            if not page.has_more:
                return out
            behind = page.groups[-1].group_id


def run_admin(*arguments: str, **environment: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, list(arguments), env=environment)
    return done.exit_code, done.stdout, done.stderr


def test_a_drain_moves_every_leadership_and_a_gateway_moves_none(cluster: OwnCluster) -> None:
    """Through the commands, as an operator does it. The gateway's certificate is refused and nobody
    has moved; the administrator's gives away all that the node led, to nodes that say the same; a
    second drain finds nothing; records are acknowledged through the others; and the node comes back
    with its next start."""
    directory = ["--data-dir", str(cluster.directory)]
    asyncio.run(_all_led(cluster))
    code, out, _ = run_admin("leaders", *directory, "--json")
    assert code == 0
    before = {row["basin"]: row["leader"] for row in json.loads(out)["groups"]}
    assert set(before) == {"", *BASINS}
    led = list(before.values())
    node = max((1, 2, 3), key=led.count)
    count = led.count(node)
    assert count > 0
    gateway = cluster.directory / "certificates" / "gateway"
    code, out, err = run_admin(
        *("drain", "--address", f"127.0.0.1:{cluster.node(node)['admin_rpc_port']}"),
        *("--node", str(node), "--tls-cert", str(gateway / "tls.crt")),
        *("--tls-key", str(gateway / "tls.key"), "--tls-ca", str(gateway / "ca.crt")),
    )
    assert (code, out) == (1, "")
    assert "permission_denied: Drain is not for a certificate" in err
    assert asyncio.run(leader_by_basin(cluster, node)) == before

    named = [*directory, "--node", str(node)]
    code, out, _ = run_admin("drain", *named, "--json")
    assert code == 0
    report = json.loads(out)
    assert (report["groups_led"], report["groups_left"], report["left"]) == (count, 0, [])
    asyncio.run(_moved(cluster, node, before))
    code, out, _ = run_admin("drain", *named)
    assert (code, out.split(" in ")[0]) == (0, "0 of 0 leaderships given away")
    code, out, _ = run_admin("status", *named)
    assert code == 1
    assert out.splitlines()[0].endswith(": not ready, drained")
    asyncio.run(_append(cluster))
    asyncio.run(_restarted(cluster, node))
    assert run_admin("status", *named)[0] == 0


async def _all_led(own: OwnCluster) -> None:
    """Every node has come to know of each basin, and who leads it: a quorum made them."""
    end = SystemClock().monotonic() + READY_S
    for asked in (1, 2, 3):
        while len(now := await leader_by_basin(own, asked)) <= len(BASINS) or 0 in now.values():
            assert SystemClock().monotonic() < end, now
            await asyncio.sleep(0.05)


async def _moved(own: OwnCluster, node: int, before: dict[str, int]) -> None:
    """All three nodes come to say that the drained one leads nothing, and that it leads what it
    did not before neither."""
    end = SystemClock().monotonic() + READY_S
    for asked in (1, 2, 3):
        while True:
            now = await leader_by_basin(own, asked)
            if set(now) == set(before) and not {0, node} & set(now.values()):
                break
            assert SystemClock().monotonic() < end, now
            await asyncio.sleep(0.05)


async def _append(own: OwnCluster) -> None:
    api = ApiClient(f"https://127.0.0.1:{own.port}", trust(own))
    try:
        for basin in BASINS:
            append = functools.partial(api.append, basin, "s", [AppendRecord(b"x")])
            await api.insist(SystemClock(), append, accept=frozenset({200}), deadline_s=READY_S)
    finally:
        api.close()


async def _restarted(own: OwnCluster, node: int) -> None:
    pid = own.kill_node(node, signal.SIGTERM)
    end = SystemClock().monotonic() + READY_S
    while True:
        try:
            assert own.node(node)["pid"] != pid
            async with administrator(own, node) as stub:
                status = await stub.Status(pb.StatusRequest(), wait_for_ready=True, timeout=5.0)
            assert status.ready
        except (AssertionError, grpc.aio.AioRpcError):
            assert SystemClock().monotonic() < end, own.log_tail()
            await asyncio.sleep(0.1)
        else:
            assert not status.draining
            return


async def _all_up(own: OwnCluster, node: int) -> None:
    """Return once this node is connected to all others. Raises AssertionError."""
    end = SystemClock().monotonic() + READY_S
    async with administrator(own, node) as stub:
        while True:
            members = (await stub.Members(pb.MembersRequest())).members
            if all(member.standing in ("up", "self") for member in members):
                return
            assert SystemClock().monotonic() < end, own.log_tail()
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("operation", ["members", "configuration"])
def test_the_commands_print_text_and_json(cluster: OwnCluster, operation: str) -> None:
    """Both say the same, once the node that is asked has connected to both others: one of them has
    been started anew by a test before."""
    asyncio.run(_all_up(cluster, 3))
    directory = ["--data-dir", str(cluster.directory), "--node", "3"]
    code, text, _ = run_admin(operation, *directory)
    assert code == 0
    code, out, _ = run_admin(operation, *directory, "--json")
    assert code == 0
    found = json.loads(out)
    if operation == "members":
        assert [row["node_id"] for row in found["members"]] == [1, 2, 3]
        assert [row["standing"] for row in found["members"]] == ["up", "up", "self"]
        for row in found["members"]:
            assert row["incarnation"]
            assert f"{row['address']}  {row['standing']}" in text
    else:
        assert found["node_id"] == 3
        assert found["peer_tls_key"] == "[masked]"
        assert 'peer_tls_key: "[masked]"' in text.splitlines()
        assert len(text.splitlines()) == len(found)


def test_inside_a_node_s_container_no_option_is_needed(cluster: OwnCluster) -> None:
    """The environment that the node itself was started with says all, its listening on every
    address included; its own certificate may see the configuration."""
    own = certificate(cluster, "node-2")
    code, out, err = run_admin(
        "configuration",
        "--json",
        SVC_CLUSTER_ADMIN_RPC_ADDRESS=f"0.0.0.0:{cluster.node(2)['admin_rpc_port']}",
        SVC_CLUSTER_NODE_ID="2",
        SVC_CLUSTER_PEER_TLS_CERT=str(own.certificate),
        SVC_CLUSTER_PEER_TLS_KEY=str(own.key),
        SVC_CLUSTER_PEER_TLS_CA=str(own.authority),
    )
    assert (code, err) == (0, "")
    assert json.loads(out)["node_id"] == 2


def test_the_node_of_an_embedded_cluster_is_asked_like_any_other(tmp_path: Path) -> None:
    """Node and gateway in one process, in clear: found in the directory, everything is open, and a
    drain has nobody to give anything to."""
    own = OwnCluster(tmp_path / "data", nodes=1)
    own.start()
    try:
        asyncio.run(own.wait_ready(READY_S))
        directory = ["--data-dir", str(own.directory)]
        assert run_admin("status", *directory)[0] == 0
        code, out, _ = run_admin("drain", *directory, "--json")
        assert (code, json.loads(out)["groups_led"]) == (0, 0)
    finally:
        own.end()


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["status"], 2, "which node"),
        (["status", "--data-dir", "/nowhere"], 2, "not the data directory"),
        (["status", "--address", "nowhere"], 2, "host:port"),
        (["status", "--address", "127.0.0.1:1"], 1, "refuses connections"),
        (["status", "--address", "127.0.0.1:1", "--tls-cert", "x"], 2, "name all three"),
        (
            ["status", "--address", "127.0.0.1:1"]
            + [f"--tls-{kind}=/nowhere" for kind in ("cert", "key", "ca")],
            1,
            "/nowhere cannot be read",
        ),
    ],
)
def test_a_node_that_cannot_be_asked_is_one_sentence(
    arguments: list[str], status: int, says: str
) -> None:
    """Wrong command lines are 2, nodes that do not answer 1."""
    code, out, err = run_admin(*arguments)
    assert (code, out) == (status, "")
    assert says in err
    assert err.count("\n") == 1
