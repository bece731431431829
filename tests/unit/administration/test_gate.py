"""What every call passes: a real server with the gate, and grpcio's own health client."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from svc_cluster.administration import call_gate as module
from svc_cluster.administration.call_gate import CallGate
from svc_cluster.administration.credentials import open_channel
from svc_cluster.administration.listener import HEADER_BYTES_MAX, REQUEST_BYTES_MAX, Listener
from svc_cluster.administration.node_health import LIVENESS, NodeHealth
from svc_cluster.administration.operations import (
    EVERYBODY,
    HEALTH,
    OPERATIONS,
    AdminOperation,
    CallerRole,
)
from svc_cluster.base.clock import SystemClock
from svc_cluster.base.ids import NodeId
from svc_cluster.cli.admin.authority import Authority, issue
from svc_cluster.cli.processes.own_certificate import utc_now
from svc_cluster.link.tls import ADMINISTRATOR_NAME, GATEWAY_NAME, PeerTls, node_name

Request = health_pb2.HealthCheckRequest
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class Scene:
    """A listener with health alone, and what its gate has counted."""

    def __init__(self, *, secured: bool = False) -> None:
        self.counted: Counter[tuple[str, str]] = Counter()
        self.ready = True
        self.health = NodeHealth(lambda: self.ready)
        gate = CallGate(NodeId(1), SystemClock(), self._count, secured=secured)
        self.listener = Listener(gate, self.health)
        self.stub: Any = None

    def _count(self, operation: str, outcome: str) -> None:
        self.counted[operation, outcome] += 1


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    made = Scene()
    port = made.listener.bind("127.0.0.1:0", None)
    await made.listener.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        made.stub = health_pb2_grpc.HealthStub(channel)
        yield made
    await made.listener.stop(0)


async def code_of(call: Any) -> grpc.StatusCode:
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await call
    code: grpc.StatusCode = refusal.value.code()
    return code


def rows(monkeypatch: pytest.MonkeyPatch, **changed: AdminOperation) -> None:
    table = {**OPERATIONS, **{f"/{HEALTH}/{name}": row for name, row in changed.items()}}
    monkeypatch.setattr(module, "OPERATIONS", table)


def test_a_call_is_answered_and_counted() -> None:
    """The plain case, with and without a name."""

    async def play() -> None:
        async with scene() as it:
            assert (await it.stub.Check(Request())).status == SERVING
            assert (await it.stub.Check(Request(service=LIVENESS))).status == SERVING
            it.ready = False
            assert (await it.stub.Check(Request())).status == NOT_SERVING
            assert (await it.stub.Check(Request(service=LIVENESS))).status == SERVING
            statuses = (await it.stub.List(health_pb2.HealthListRequest())).statuses
            assert {name: each.status for name, each in statuses.items()} == {
                "": NOT_SERVING,
                "readiness": NOT_SERVING,
                LIVENESS: SERVING,
            }
            assert it.counted == {("Check", "ok"): 4, ("List", "ok"): 1}

    asyncio.run(play())


def test_a_port_that_is_taken_is_refused() -> None:
    """To a second listener, which would get half of the callers of the first."""

    async def play() -> None:
        first, second = Scene().listener, Scene().listener
        port = first.bind("127.0.0.1:0", None)
        await first.start()
        try:
            with pytest.raises(RuntimeError, match=str(port)):
                second.bind(f"127.0.0.1:{port}", None)
        finally:
            await first.stop(0)

    asyncio.run(play())


def test_more_calls_than_there_is_room_for_are_refused_and_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The room is an operation's own, and is given back when a call ends."""
    rows(monkeypatch, Watch=AdminOperation(EVERYBODY, 60.0, 2))

    async def play() -> None:
        async with scene() as it:
            watching = [it.stub.Watch(Request()) for _ in range(2)]
            for each in watching:
                assert (await each.read()).status == SERVING
            assert await code_of(it.stub.Watch(Request()).read()) is (
                grpc.StatusCode.RESOURCE_EXHAUSTED
            )
            assert (await it.stub.Check(Request())).status == SERVING
            watching[0].cancel()
            while it.counted["Watch", "failed"] == 0:
                await asyncio.sleep(0)
            again = it.stub.Watch(Request())
            assert (await again.read()).status == SERVING
            assert it.counted["Watch", "full"] == 1

    asyncio.run(play())


def test_a_call_without_a_deadline_is_ended_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table's own, for a caller that watches for ever, with the room given back."""
    rows(monkeypatch, Watch=AdminOperation(EVERYBODY, 0.05, 1))

    async def play() -> None:
        async with scene() as it:
            for count in (1, 2):
                call = it.stub.Watch(Request())
                assert (await call.read()).status == SERVING
                assert await code_of(call.read()) is grpc.StatusCode.DEADLINE_EXCEEDED
                assert it.counted["Watch", "late"] == count

    asyncio.run(play())


def test_a_method_without_a_row_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgetting a row closes a method; it does not open it."""
    table = {path: row for path, row in OPERATIONS.items() if not path.endswith("Check")}
    monkeypatch.setattr(module, "OPERATIONS", table)

    async def play() -> None:
        async with scene() as it:
            assert await code_of(it.stub.Check(Request())) is grpc.StatusCode.PERMISSION_DENIED
            assert it.counted == {("Check", "refused"): 1}

    asyncio.run(play())


def certificate(ca: Authority, directory: Path, *names: str) -> PeerTls:
    issue(ca, list(names), directory)
    return PeerTls(directory / "tls.crt", directory / "tls.key", directory / "ca.crt")


def test_a_wrong_role_is_refused_before_its_request_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the names in the certificate that the caller shows; a renewed certificate of the listener
    is taken over."""
    only = frozenset({CallerRole.ADMINISTRATOR})
    rows(monkeypatch, Check=AdminOperation(only, 5.0, 1))
    ca = Authority.create(tmp_path / "ca", utc_now)
    own = certificate(ca, tmp_path / "node-1", node_name(NodeId(1)))
    wanted = {
        ADMINISTRATOR_NAME: None,
        GATEWAY_NAME: grpc.StatusCode.PERMISSION_DENIED,
        node_name(NodeId(1)): grpc.StatusCode.PERMISSION_DENIED,
        "administrator.example.com": grpc.StatusCode.PERMISSION_DENIED,
    }

    async def play() -> None:
        it = Scene(secured=True)
        port = it.listener.bind("127.0.0.1:0", own)
        await it.listener.start()
        for name, refusal in wanted.items():
            tls = certificate(ca, tmp_path / name, name)
            certificate(ca, tmp_path / "node-1", node_name(NodeId(1)))
            channel = open_channel(f"127.0.0.1:{port}", (), tls, node_name(NodeId(1)))
            async with channel:
                stub: Any = health_pb2_grpc.HealthStub(channel)
                if refusal is None:
                    assert (await stub.Check(Request())).status == SERVING
                else:
                    assert await code_of(stub.Check(Request())) is refusal
        await it.listener.stop(0)
        assert it.counted == {("Check", "ok"): 1, ("Check", "refused"): 3}

    asyncio.run(play())


def test_requests_and_headers_are_bounded() -> None:
    """The largest that fits is taken; one byte more is refused before it is looked at, and so are
    headers without end."""

    async def play() -> None:
        async with scene() as it:
            room = REQUEST_BYTES_MAX - 3  # a tag and a length of two bytes
            assert await code_of(it.stub.Check(Request(service="s" * room))) is (
                grpc.StatusCode.NOT_FOUND
            )
            assert await code_of(it.stub.Check(Request(service="s" * (room + 1)))) is (
                grpc.StatusCode.RESOURCE_EXHAUSTED
            )
            large = (("x", "y" * HEADER_BYTES_MAX),)
            assert await code_of(it.stub.Check(Request(), metadata=large)) is (
                grpc.StatusCode.RESOURCE_EXHAUSTED
            )
            assert sum(it.counted.values()) == 1

    asyncio.run(play())


def test_who_watches_is_told_of_the_end() -> None:
    """A stop says that the node is not ready any more before the call ends."""

    async def play() -> None:
        async with scene() as it:
            call = it.stub.Watch(Request())
            assert (await call.read()).status == SERVING
            stopping = asyncio.ensure_future(it.listener.stop(5))
            assert (await call.read()).status == NOT_SERVING
            call.cancel()
            await stopping

    asyncio.run(play())


def test_who_watches_is_told_of_a_change() -> None:
    """Without asking again."""

    async def play() -> None:
        async with scene() as it:
            call = it.stub.Watch(Request(service="readiness"))
            assert (await call.read()).status == SERVING
            it.ready = False
            assert (await call.read()).status == NOT_SERVING
            it.ready = True
            assert (await call.read()).status == SERVING

    asyncio.run(play())
