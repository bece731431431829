"""A node's administration as others see it: grpcio's own clients for reflection and health against
the process of a node."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf import descriptor_pool, message_factory
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
from svc_cluster._pb.cluster.v1 import admin_pb2_grpc
from svc_cluster.administration.operations import HEALTH, OPERATIONS, REFLECTION, SERVICE
from svc_cluster.base.clock import SystemClock
from svc_cluster.http.client import ConnectionLostError, HttpClient
from tests.integration.admin_node import AdminNode
from tests.integration.processes import in_loop

OPERATIONS_OF_OURS = sorted(
    path.rpartition("/")[2] for path in OPERATIONS if path.startswith(f"/{SERVICE}/")
)
READY_S = 60.0
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
Request = health_pb2.HealthCheckRequest


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminNode]:
    made = AdminNode(tmp_path_factory.mktemp("administration"))
    made.start()
    try:
        asyncio.run(wait_health(made.health, "", SERVING))
        yield made
    finally:
        made.stop()


async def wait_health(port: int, service: str, status: int) -> None:
    """Until health says so. Raises AssertionError."""
    end = SystemClock().monotonic() + READY_S
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        while True:
            answer = await stub.Check(
                Request(service=service), wait_for_ready=True, timeout=READY_S
            )
            if answer.status == status:
                return
            assert SystemClock().monotonic() < end, f"{service!r} is {answer.status}"
            await asyncio.sleep(0.05)


async def ready_page(port: int) -> int:
    try:
        async with HttpClient(f"http://127.0.0.1:{port}") as client:
            return (await client.request("GET", "/readyz", timeout_s=5.0)).status
    except ConnectionLostError:
        return 0


async def code_of(call: Any) -> grpc.StatusCode:
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await call
    code: grpc.StatusCode = refusal.value.code()
    return code


def test_a_client_that_knows_nothing_of_us_learns_by_reflection(node: AdminNode) -> None:
    """As grpcurl does: the services, the descriptors of one of them, and a call with messages made
    from what the node told, which our own generated code has no part in."""
    with grpc.insecure_channel(f"127.0.0.1:{node.admin_rpc}") as channel:
        told = ProtoReflectionDescriptorDatabase(channel)
        assert set(told.get_services()) == {SERVICE, HEALTH, REFLECTION}
        pool = descriptor_pool.DescriptorPool(told)
        service = pool.FindServiceByName(SERVICE)
        assert {method.name for method in service.methods} == {
            "Status",
            "Members",
            "Leaders",
            "Drain",
            "Configuration",
            "Version",
            "FinalizeUpgrade",
            "Export",
            "BackupTaken",
            "ReplaceMember",
            "AddMember",
            "RemoveMember",
            "Cluster",
            "Basin",
            "ClusterLeaders",
            "TransferLeader",
            "BalanceLeaders",
            "FreezeBasin",
            "DrainNode",
            "PlanPlacement",
            "MoveBasin",
        }
        method = service.methods_by_name["Status"]
        request = message_factory.GetMessageClass(method.input_type)
        answer = message_factory.GetMessageClass(method.output_type)
        status: Any = channel.unary_unary(
            f"/{SERVICE}/Status",
            request_serializer=request.SerializeToString,
            response_deserializer=answer.FromString,
        )(request(), timeout=READY_S)
        assert (status.cluster_id, status.node_id, status.ready) == ("alone", 1, True)
        assert {check.name: check.passed for check in status.checks}["not_draining"]


@in_loop
async def test_every_operation_answers_what_the_node_is(node: AdminNode) -> None:
    """A cluster of one: itself, the catalog, which it leads, and the settings from its file."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{node.admin_rpc}") as channel:
        stub: Any = admin_pb2_grpc.AdministrationStub(channel)  # type: ignore[no-untyped-call]
        status = await stub.Status(pb.StatusRequest())
        assert (status.groups, status.groups_led, status.held_count) == (1, 1, 0)
        assert 0 < status.storage.free_bytes <= status.storage.capacity_bytes
        assert status.storage.wal_bytes > 0
        assert status.storage.takes_appends
        assert status.uptime_seconds > 0
        members = (await stub.Members(pb.MembersRequest())).members
        assert [(row.node_id, row.address, row.standing, row.incarnation) for row in members] == [
            (1, node.settings["nodes"]["1"], "self", status.incarnation)
        ]
        leaders = await stub.Leaders(pb.LeadersRequest())
        assert not leaders.has_more
        (group,) = leaders.groups
        assert (group.group_id, group.basin, group.leader, group.role) == (1, "", 1, "leader")
        assert list(group.members) == [1]
        assert not (await stub.Leaders(pb.LeadersRequest(start_after=1))).groups
        rows = (await stub.Configuration(pb.ConfigurationRequest())).settings
        values = {row.key: row.value for row in rows}
        assert values["replication_factor"] == "1"
        assert values["secret_file"] == '"[masked]"'
        assert node.settings["secret_file"] not in str(rows)
        assert await code_of(stub.Leaders(pb.LeadersRequest(limit=1001))) is (
            grpc.StatusCode.INVALID_ARGUMENT
        )


@in_loop
async def test_a_request_of_a_later_release_is_refused_whole(node: AdminNode) -> None:
    """A drain with a field that this release does not know does not drain."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{node.admin_rpc}") as channel:
        for name in OPERATIONS_OF_OURS:
            call = channel.unary_unary(f"/{SERVICE}/{name}")(b"\xfa\x01\x01x")
            assert await code_of(call) is grpc.StatusCode.INVALID_ARGUMENT
        assert await code_of(channel.unary_unary(f"/{SERVICE}/Undrain")(b"")) is (
            grpc.StatusCode.UNIMPLEMENTED
        )
        stub: Any = admin_pb2_grpc.AdministrationStub(channel)  # type: ignore[no-untyped-call]
        status = await stub.Status(pb.StatusRequest())
        assert status.ready
        assert not status.draining


@in_loop
async def test_the_port_for_probes_has_health_and_nothing_else(node: AdminNode) -> None:
    """It is in clear and open: no administration, no reflection."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{node.health}") as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        for service in ("", "readiness", "liveness"):
            assert (await stub.Check(Request(service=service))).status == SERVING
        assert await code_of(stub.Check(Request(service="x"))) is grpc.StatusCode.NOT_FOUND
        for name in ("Status", "Drain", "Configuration"):
            call = channel.unary_unary(f"/{SERVICE}/{name}")(b"")
            assert await code_of(call) is grpc.StatusCode.UNIMPLEMENTED
        call = channel.stream_stream(f"/{REFLECTION}/ServerReflectionInfo")()
        await call.done_writing()
        assert await code_of(call.read()) is grpc.StatusCode.UNIMPLEMENTED


@in_loop
async def test_a_node_without_its_cluster_is_alive_and_not_ready(tmp_path: Path) -> None:
    """As /readyz has it; the administration that could say why is there."""
    node = AdminNode(tmp_path)
    node.settings["nodes"] = node.settings["nodes"] | {"2": "127.0.0.1:1"}
    node.start()
    try:
        await wait_health(node.admin_rpc, "liveness", SERVING)
        await wait_health(node.admin_rpc, "", NOT_SERVING)
        assert await ready_page(node.http) == 503
        async with grpc.aio.insecure_channel(f"127.0.0.1:{node.admin_rpc}") as channel:
            stub: Any = admin_pb2_grpc.AdministrationStub(channel)  # type: ignore[no-untyped-call]
            status = await stub.Status(pb.StatusRequest())
        assert not status.ready
        assert status.waits_for
    finally:
        assert node.stop() == 0


@in_loop
async def test_health_follows_readiness_to_the_end(tmp_path: Path) -> None:
    """What health says is what /readyz says: when the node is ready, and after it has given its
    leaderships away; whoever watches is told, and the end is one in order."""
    node = AdminNode(tmp_path)
    node.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{node.admin_rpc}") as channel:
            stub: Any = health_pb2_grpc.HealthStub(channel)
            watch = stub.Watch(Request(), wait_for_ready=True)
            while (await watch.read()).status != SERVING:
                pass
            assert await ready_page(node.http) == 200
            node.tell(signal.SIGUSR1)
            assert (await watch.read()).status == NOT_SERVING
            assert await ready_page(node.http) == 503
            assert (await stub.Check(Request(service="readiness"))).status == NOT_SERVING
            assert (await stub.Check(Request(service="liveness"))).status == SERVING
            # the service is there for whoever wants to know why
            assert (await stub.Check(Request(service=SERVICE))).status == SERVING
            node.tell(signal.SIGTERM)
            assert await code_of(watch.read()) in (
                grpc.StatusCode.UNAVAILABLE,
                grpc.StatusCode.CANCELLED,
            )
    finally:
        node.tell(signal.SIGTERM)
        assert node.end() == 0
    assert "Traceback" not in node.log()


@in_loop
async def test_a_node_that_waits_to_be_a_member_is_alive_for_probes(tmp_path: Path) -> None:
    """Kubernetes must not end it for waiting; administration is not there yet."""
    node = AdminNode(tmp_path, join=True)
    node.settings["nodes"] = node.settings["nodes"] | {"2": "127.0.0.1:1"}
    node.start()
    try:
        await wait_health(node.health, "liveness", SERVING)
        await wait_health(node.health, "readiness", NOT_SERVING)
    finally:
        assert node.stop() == 0


def test_two_processes_do_not_share_a_port(node: AdminNode, tmp_path: Path) -> None:
    """The second one says which setting is in the way, and ends with the status for addresses."""
    for key in ("admin_rpc_address", "health_rpc_address"):
        place = tmp_path / key
        place.mkdir()
        second = AdminNode(place, **{key: node.settings[key]})
        second.start()
        assert second.end() == 69
        assert f"{key} {node.settings[key]} cannot be listened on" in second.log()
