"""What is asked of a basin's group beside records: its tails, its streams, its configuration."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import (
    StreamDeletionPendingError,
    StreamNotFoundError,
    UnavailableError,
)
from svc_cluster.codec import config_pb, rpc
from svc_cluster.model.cipher import StreamIdentity
from svc_cluster.replica.append import COMMAND_BYTES, Decision
from svc_cluster.replica.basin import BasinReplica
from svc_cluster.replica.page_limit import check_page
from svc_cluster.replica.provisioning import Write, stream_to_pb
from svc_cluster.replica.repeatable import Fill, Operation, say_done

Change = Callable[[pb.Request, BasinReplica, Decision, int], Awaitable[object]]
"""Decides a command and returns once it is committed."""


class BasinOperations:
    """The operations that read what a basin holds, delete a stream, and seal the basin.

    `find` raises for a group that is not here; `change` and `write` return when what they are given
    is committed; `deadline` is monotonic seconds.
    """

    def __init__(
        self,
        find: Callable[[pb.Request], BasinReplica],
        change: Change,
        write: Write,
        deadline: Callable[[pb.Request], float],
    ) -> None:
        self._find = find
        self._change = change
        self._write = write
        self._deadline = deadline
        self.operations: dict[str, Operation] = {
            "check_tail": self._check_tail,
            "list_streams": self._list_streams,
            "get_stream_config": self._get_stream_config,
            "describe_stream": self._describe_stream,
            "delete_stream": self._delete_stream,
            "get_basin_config": self._get_basin_config,
            "await_basin": self._await_basin,
            "seal_basin": self._seal_basin,
        }

    async def _check_tail(self, request: pb.Request) -> Fill:
        tail = await self._find(request).reader.check_tail(request.check_tail.stream)
        return lambda response: response.tail.CopyFrom(rpc.position_to_pb(tail))

    async def _list_streams(self, request: pb.Request) -> Fill:
        message = request.list_streams
        limit = check_page(message.limit)
        basin = self._find(request)
        await basin.reader.linearize()
        streams, has_more = basin.state.list_streams(message.prefix, message.start_after, limit)

        def fill(response: pb.Response) -> None:
            response.streams.has_more = has_more
            for entry in streams:
                stream_to_pb(response.streams.streams.add(), entry)

        return fill

    async def _get_stream_config(self, request: pb.Request) -> Fill:
        basin = self._find(request)
        await basin.reader.linearize()
        stream = basin.state.stream_by_name(request.get_stream_config.stream)
        if stream is None:
            raise StreamNotFoundError("no stream of this name in the basin")
        if stream.deleted_at_ms is not None:
            raise StreamDeletionPendingError("the stream is being deleted")
        config = stream.config
        return lambda response: config_pb.put_complete(response.stream_config, config)

    async def _describe_stream(self, request: pb.Request) -> Fill:
        basin = self._find(request)
        await basin.reader.linearize()
        stream = basin.reader.stream(request.describe_stream.stream)
        identity = StreamIdentity(request.group_id, stream.stream_id, stream.cipher)
        return lambda response: rpc.identity_to_pb(response.stream_identity, identity)

    async def _delete_stream(self, request: pb.Request) -> Fill:
        basin = self._find(request)
        sequence = partial(basin.sequencer.delete_stream, request.delete_stream.stream)
        return await self._write(request, basin, sequence, lambda: say_done)

    async def _get_basin_config(self, request: pb.Request) -> Fill:
        basin = self._find(request)
        await basin.reader.linearize()
        record = basin.state.basin
        if record is None:
            raise UnavailableError("the basin is still being created")
        return lambda response: config_pb.put_basin(response.basin_config, record.config)

    async def _await_basin(self, request: pb.Request) -> Fill:
        basin = self._find(request)
        await basin.bootstrapped(self._deadline(request))
        return say_done

    async def _seal_basin(self, request: pb.Request) -> Fill:
        basin = self._find(request)
        await self._change(request, basin, basin.sequencer.seal, COMMAND_BYTES)
        return say_done
