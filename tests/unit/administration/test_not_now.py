"""What a node refuses for the moment is told as that, and not as a port on which nobody listens."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
from svc_cluster._pb.cluster.v1 import admin_pb2_grpc, replica_pb2
from svc_cluster.administration.admin_service import Administration
from svc_cluster.administration.catalog_calls import LOST_FOR_GOOD, RefusedCallError, ask
from svc_cluster.cli.admin.admin_client import AdminError, Target, connected


def node(answer: replica_pb2.Response | None) -> Any:
    async def ask_catalog(_: object) -> replica_pb2.Response | None:
        return answer

    return SimpleNamespace(ask_catalog=ask_catalog)


def refused(code: str) -> replica_pb2.Response:
    return replica_pb2.Response(refusal=replica_pb2.Refusal(code=code, message="not just now"))


@pytest.mark.parametrize(
    ("answer", "said"),
    [(None, "did not answer: ask again"), (refused("unavailable"), "refuses: not just now")],
)
def test_a_catalog_without_a_leader_is_no_closed_port(
    answer: replica_pb2.Response | None, said: str
) -> None:
    with pytest.raises(RefusedCallError) as refusal:
        asyncio.run(ask(node(answer), lambda _: None))
    assert refusal.value.code is grpc.StatusCode.ABORTED
    assert said in str(refusal.value)
    assert (LOST_FOR_GOOD in str(refusal.value)) == (answer is None)


def test_whoever_replaces_a_node_without_a_majority_reads_what_is_left_to_do() -> None:
    """At the terminal: the node's sentence, whole, and nothing of addresses and certificates."""

    async def main() -> str:
        service: Any = SimpleNamespace(_node=node(refused("unavailable")))

        class Asked(admin_pb2_grpc.AdministrationServicer):
            async def ReplaceMember(
                self, request: pb.ReplaceMemberRequest, context: Any
            ) -> pb.ReplaceMemberResponse:
                answer: pb.ReplaceMemberResponse = await Administration.ReplaceMember(
                    service, request, context
                )
                return answer

        server = grpc.aio.server()
        add: Any = admin_pb2_grpc.add_AdministrationServicer_to_server
        add(Asked(), server)
        target = Target(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
        await server.start()
        try:
            async with connected(target) as client:
                with pytest.raises(AdminError) as refusal:
                    await client.replace_member(3, also_lost=False)
        finally:
            await server.stop(None)
        assert not refusal.value.is_final, "it may be asked for again"
        return str(refusal.value)

    said = asyncio.run(main())
    assert "without a majority of the nodes nothing can be replaced" in said
    assert said.endswith("svc-cluster admin recover --force-new-cluster")
    assert "--tls-cert" not in said
    assert "does not answer" not in said
