"""A CA that is taken out of the file ends what stands on it at the administrative port.

Rule: docs/security.md, "Client certificates". Real gRPC over real TLS.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from svc_cluster.administration import listener as module
from svc_cluster.administration.call_gate import CallGate
from svc_cluster.administration.credentials import Trust, open_channel
from svc_cluster.administration.listener import Listener
from svc_cluster.administration.node_health import NodeHealth
from svc_cluster.base.clock import SystemClock
from svc_cluster.base.ids import NodeId
from svc_cluster.link.tls import PeerTls, node_name
from tests.unit.link.wires import two_authorities

WITHIN_S = 20.0
Request = health_pb2.HealthCheckRequest
NOT_REUSED = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 50))


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TRUST_SECONDS", 0.02)
    monkeypatch.setattr(module, "FAREWELL_SECONDS", 0.1)


@asynccontextmanager
async def listening(tls: PeerTls) -> AsyncIterator[int]:
    gate = CallGate(NodeId(2), SystemClock(), lambda *_: None, secured=True)
    listener = Listener(gate, NodeHealth(lambda: True))
    port = listener.bind("127.0.0.1:0", tls)
    await listener.start()
    yield port
    await listener.stop(0)


@asynccontextmanager
async def calling(port: int, tls: PeerTls) -> AsyncIterator[Any]:
    channel = open_channel(f"127.0.0.1:{port}", NOT_REUSED, tls, node_name(NodeId(2)))
    async with channel:
        yield health_pb2_grpc.HealthStub(channel)


async def is_answered(stub: Any) -> bool:
    call = stub.Check(Request(), timeout=WITHIN_S)
    code = await call.code()
    assert code in (grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE), code
    return bool(code is grpc.StatusCode.OK)


def test_who_stands_on_a_ca_that_was_taken_out_is_out_and_others_come_back(tmp_path: Path) -> None:
    """A call that is under way on it ends, no other begins; the other CA's callers are answered at
    the same port. A CA that is added ends nothing, and neither do files that cannot be used."""
    first, second = two_authorities(tmp_path)
    own, good = second.tls("node2", node=2), second.tls("node3", node=3)
    bad = first.tls("node1", node=1)
    bad.authority.write_bytes(second.pem)  # it trusts the node; the node will not trust it

    async def main() -> None:
        async with (
            listening(own) as port,
            calling(port, good) as trusted,
            calling(port, bad) as gone,
        ):
            assert await is_answered(trusted)
            assert not await is_answered(gone)
            watch = trusted.Watch(Request())
            await watch.read()
            own.authority.write_bytes(second.pem + first.pem)
            async with asyncio.timeout(WITHIN_S):
                while not await is_answered(gone):
                    await asyncio.sleep(0.02)
            own.authority.write_bytes(b"not a CA")
            for _ in range(10):  # some looks
                await asyncio.sleep(0.02)
                assert await is_answered(gone), "nothing could be said of it"
            assert not watch.done(), "what is added, or cannot be read, ends nothing"
            under_way = gone.Watch(Request())
            await under_way.read()
            own.authority.write_bytes(second.pem)
            async with asyncio.timeout(WITHIN_S):
                assert await under_way.code() is not grpc.StatusCode.OK, "it was ended"
            async with asyncio.timeout(WITHIN_S):
                while await is_answered(gone):
                    await asyncio.sleep(0.02)
                while not await is_answered(trusted):
                    await asyncio.sleep(0.02)
            assert not await is_answered(gone)

    asyncio.run(main())


def test_trust_has_shrunk_by_whatever_was_in_the_file_at_any_look(tmp_path: Path) -> None:
    """A CA that came later and goes again counts, and once it was acted upon no more."""
    first, second = two_authorities(tmp_path)
    own = second.tls("node2", node=2)
    trust = Trust(own)
    assert not trust.has_shrunk()
    own.authority.write_bytes(second.pem + first.pem)
    assert not trust.has_shrunk()
    own.authority.write_bytes(second.pem)
    assert trust.has_shrunk() and trust.has_shrunk()
    trust.begin_anew()
    assert not trust.has_shrunk()
