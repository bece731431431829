"""How long a backup bears nodes that hand out nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest

from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
from svc_cluster._pb.cluster.v1 import admin_pb2_grpc
from svc_cluster.backup.backup_errors import InterruptedSourceError
from svc_cluster.backup.coverage import RecordRange
from svc_cluster.backup.row_frames import Row, frame
from svc_cluster.backup.source import GroupUnreachableError, StreamBegins
from svc_cluster.base.clock import SystemClock
from svc_cluster.cli.admin.admin_client import Target
from svc_cluster.cli.backup.node_source import PATIENCE_SECONDS, NodeSource

PATIENCE = 0.7
RANGE = RecordRange(1, 0, 3)
ROW = (b"key", b"value")


class Node(admin_pb2_grpc.AdministrationServicer):
    """A node whose answers are rows, or end early, or are refused as by one without a replica."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def Export(
        self,
        request: pb.ExportRequest,
        context: grpc.aio.ServicerContext[pb.ExportRequest, pb.ExportPortion],
    ) -> AsyncIterator[pb.ExportPortion]:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer == "refused":
            await context.abort(grpc.StatusCode.UNAVAILABLE, "no replica of the group is here")
        yield pb.ExportPortion(stream=pb.ExportedStream(stream_id=1, trim_point=0, gone=False))
        if answer != "empty":
            yield pb.ExportPortion(rows=frame(*ROW))
        if answer == "whole":
            yield pb.ExportPortion(last=True)


async def answers_of(node: Node, patience: float) -> list[str | list[StreamBegins | Row]]:
    """What comes of asking until an answer is whole or the group is given up."""
    server = grpc.aio.server()
    add: Any = admin_pb2_grpc.add_AdministrationServicer_to_server
    add(node, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    found: list[str | list[StreamBegins | Row]] = []
    try:
        async with NodeSource([Target(f"127.0.0.1:{port}")], 1e9, patience) as source:
            while True:
                try:
                    items = [each async for each in source.records(2, 10, [RANGE])]
                except InterruptedSourceError:
                    found.append("interrupted")
                except GroupUnreachableError as cause:
                    found.append(str(cause))
                    return found
                else:
                    found.append(items)
                    return found
    finally:
        await server.stop(None)


@pytest.mark.parametrize("answer", ["refused", "empty"])
def test_a_group_that_gives_no_record_any_more_is_given_up(answer: str) -> None:
    """Its basin may have been deleted: after as long as one without content is waited for."""
    node = Node(answer)
    clock = SystemClock()
    began = clock.monotonic()
    *before, last = asyncio.run(answers_of(node, PATIENCE))
    assert clock.monotonic() - began >= PATIENCE
    assert before == ["interrupted"] * (node.asked - 1)
    assert before != []
    texts = {"refused": "no replica of the group is here", "empty": "ended its answer early"}
    assert texts[answer] in str(last)


def test_a_node_that_restarts_is_waited_for() -> None:
    """And patience begins anew with each batch that comes."""
    node = Node("refused", "early", "refused", "early", "refused", "whole")
    *before, last = asyncio.run(answers_of(node, PATIENCE))
    assert before == ["interrupted"] * 5
    assert last == [StreamBegins(1, 0, gone=False), ROW]


def test_the_patience_is_long_enough_for_a_restart() -> None:
    """As for what a group holds besides."""
    assert NodeSource([], 1.0)._patience_seconds == PATIENCE_SECONDS >= 30
