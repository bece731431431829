"""How long a backup bears nodes that hand out nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import grpc
import grpc.aio
import pytest

from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
from svc_cluster._pb.cluster.v1 import admin_pb2_grpc
from svc_cluster.backup.backup_errors import BackupError, InterruptedSourceError
from svc_cluster.backup.coverage import RecordRange
from svc_cluster.backup.row_frames import Row, frame
from svc_cluster.backup.source import GroupUnreachableError, StreamBegins
from svc_cluster.base.clock import SystemClock
from svc_cluster.cli.admin.admin_client import Target
from svc_cluster.cli.backup import node_source
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


def between(
    nodes: Sequence[admin_pb2_grpc.AdministrationServicer],
    body: Callable[[NodeSource], Awaitable[None]],
    **options: float,
) -> None:
    """Run `body` with a source over the nodes."""

    async def main() -> None:
        servers, targets = [], []
        for node in nodes:
            server = grpc.aio.server()
            add: Any = admin_pb2_grpc.add_AdministrationServicer_to_server
            add(node, server)
            targets.append(Target(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"))
            await server.start()
            servers.append(server)
        try:
            async with NodeSource(targets, 1e9, PATIENCE, **options) as source:
                await body(source)
        finally:
            for server in servers:
                await server.stop(None)

    asyncio.run(main())


def answers_of(node: Node) -> list[str | list[StreamBegins | Row]]:
    """What comes of asking until an answer is whole or the group is given up."""
    found: list[str | list[StreamBegins | Row]] = []

    async def body(source: NodeSource) -> None:
        while True:
            try:
                found.append([each async for each in source.records(2, 10, [RANGE])])
            except InterruptedSourceError:
                found.append("interrupted")
            except GroupUnreachableError as cause:
                found.append(str(cause))
                return
            else:
                return

    between([node], body)
    return found


@pytest.mark.parametrize("answer", ["refused", "empty"])
def test_a_group_that_gives_no_record_any_more_is_given_up(answer: str) -> None:
    """Its basin may have been deleted: after as long as one without content is waited for."""
    node = Node(answer)
    clock = SystemClock()
    began = clock.monotonic()
    *before, last = answers_of(node)
    assert clock.monotonic() - began >= PATIENCE
    assert before == ["interrupted"] * (node.asked - 1)
    assert before != []
    texts = {"refused": "no replica of the group is here", "empty": "ended its answer early"}
    assert texts[answer] in str(last)


def test_a_node_that_restarts_is_waited_for() -> None:
    """And patience begins anew with each batch that comes."""
    node = Node("refused", "early", "refused", "early", "refused", "whole")
    *before, last = answers_of(node)
    assert before == ["interrupted"] * 5
    assert last == [StreamBegins(1, 0, gone=False), ROW]


class OfCluster(admin_pb2_grpc.AdministrationServicer):
    """A node that hands out one row of each group, as a node of one cluster; one that is busy
    refuses, and one that hangs says nothing."""

    def __init__(self, cluster_id: str, row: bytes) -> None:
        self.cluster_id = cluster_id
        self.row = row
        self.is_busy = self.hangs = False
        self.asked = 0

    async def Export(
        self,
        request: pb.ExportRequest,
        context: grpc.aio.ServicerContext[pb.ExportRequest, pb.ExportPortion],
    ) -> AsyncIterator[pb.ExportPortion]:
        self.asked += 1
        if self.hangs:
            await asyncio.get_running_loop().create_future()
        if self.is_busy:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "2 calls are under way")
        head = pb.ExportHead(cluster_id=self.cluster_id, group_id=request.group_id)
        yield pb.ExportPortion(head=head)
        yield pb.ExportPortion(rows=frame(b"key", self.row))
        yield pb.ExportPortion(last=True)


def test_records_of_another_cluster_are_never_taken() -> None:
    """One address leads to another cluster, where the same group and stream are there too, and the
    right node is busy for once: the backup ends, and says which address it is."""
    right, wrong = OfCluster("cluster-a", b"ours"), OfCluster("cluster-b", b"theirs")

    async def body(source: NodeSource) -> None:
        assert (await source.content(2)).rows == ((b"key", b"ours"),)
        right.is_busy = True
        taken: list[StreamBegins | Row] = []
        with pytest.raises(InterruptedSourceError, match="2 calls are under way"):
            taken += [each async for each in source.records(2, 10, [RANGE])]
        with pytest.raises(BackupError, match="is a node of the cluster cluster-b"):
            taken += [each async for each in source.records(2, 10, [RANGE])]
        assert taken == []
        with pytest.raises(BackupError, match="name nodes of one cluster"):
            await source.content(3)

    between([right, wrong], body)
    assert wrong.asked == 2


def test_a_node_that_hangs_is_waited_for_once() -> None:
    """Whatever group is asked for next: it is asked behind the others, until it answers."""
    hanging, good = OfCluster("cluster-a", b"from one"), OfCluster("cluster-a", b"from two")
    hanging.hangs = True

    async def body(source: NodeSource) -> None:
        for group_id in range(1, 40):
            assert (await source.content(group_id)).rows == ((b"key", b"from two"),)
            assert [each async for each in source.records(group_id, 1, [RANGE])] != []
        assert hanging.asked == 1
        hanging.hangs, good.is_busy = False, True
        assert (await source.content(50)).rows == ((b"key", b"from one"),)

    between([hanging, good], body, begin_seconds=0.5)


def test_a_rate_by_which_a_group_is_never_whole_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its nodes are there, and each repetition would end the same."""

    class Slow(OfCluster):
        async def Export(
            self,
            request: pb.ExportRequest,
            context: grpc.aio.ServicerContext[pb.ExportRequest, pb.ExportPortion],
        ) -> AsyncIterator[pb.ExportPortion]:
            self.asked += 1
            yield pb.ExportPortion(head=pb.ExportHead(cluster_id=self.cluster_id))
            yield pb.ExportPortion(rows=frame(b"key", self.row))
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "Export is ended")

    monkeypatch.setattr(node_source, "CONTENT_SECONDS", 0.0)
    slow = Slow("cluster-a", b"row")

    async def body(source: NodeSource) -> None:
        with pytest.raises(BackupError, match="not all: raise --rate, or backup_mib_per_second"):
            await source.content(2)

    between([slow], body)
    assert slow.asked == 1


def test_the_patience_is_long_enough_for_a_restart() -> None:
    """As for what a group holds besides."""
    assert NodeSource([], 1.0)._patience_seconds == PATIENCE_SECONDS >= 30
