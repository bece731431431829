"""Unary appends to the leaders of basins: each by itself, or with others of its stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.clock import Clock
from svc_cluster.codec import rpc
from svc_cluster.codec.trace_pb import put_trace
from svc_cluster.gateway.cluster.append_coalescer import AppendCoalescer, Appended, joins
from svc_cluster.gateway.cluster.backend import AppendWatch
from svc_cluster.gateway.cluster.directory import Directory
from svc_cluster.model.record import AppendAck, StoredBatch


class AppendClient:
    """The one of a gateway. All deadlines are monotonic seconds."""

    def __init__(
        self, directory: Directory, clock: Clock, note_retry: Callable[[str], None]
    ) -> None:
        self._directory = directory
        self._coalescer = AppendCoalescer(self._ask, clock.monotonic, note_retry)

    async def append(
        self,
        basin: str,
        stream: str,
        batch: StoredBatch,
        match_seq_num: int | None,
        fencing_token: str | None,
        request_key: bytes,
        watch: AppendWatch | None,
        deadline: float,
    ) -> AppendAck:
        """Does what `Backend.append` does."""
        trace = None if watch is None else watch.trace
        is_alone = match_seq_num is not None or fencing_token is not None or bool(request_key)
        if not is_alone and trace is None and joins(batch):
            appended = await self._coalescer.append(basin, stream, batch, deadline)
        else:

            def fill(request: pb.Request) -> None:
                rpc.append_to_pb(request.append, stream, batch, match_seq_num, fencing_token)
                if trace is not None:
                    put_trace(request.trace, trace)

            response = await self._directory.ask_basin(
                basin, fill, write=True, deadline=deadline, key=request_key, size=len(batch.records)
            )
            appended = _appended(response)
        if watch is not None and appended.stages is not None:
            watch.led(appended.stages)
        return appended.ack

    async def close(self) -> None:
        await self._coalescer.close()

    async def _ask(
        self, basin: str, stream: str, batch: StoredBatch, requests: int, deadline: float
    ) -> Appended:
        def fill(request: pb.Request) -> None:
            rpc.append_to_pb(request.append, stream, batch, None, None)
            if requests > 1:
                request.append.requests = requests

        size = len(batch.records)
        response = await self._directory.ask_basin(
            basin, fill, write=True, deadline=deadline, size=size
        )
        return _appended(response)


def _appended(response: pb.Response) -> Appended:
    ack = rpc.ack_from_pb(response.append)
    if response.is_repeated:
        ack = replace(ack, is_repeated=True)
    stages = rpc.stages_from_pb(response.stages) if response.HasField("stages") else None
    return Appended(ack, stages)
