"""Requests to create, ensure and reconfigure: from the wire to a decision, and back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import TimestampMs
from svc_cluster.codec import config_pb
from svc_cluster.codec.log_entry import check_written
from svc_cluster.model.provision import Provision
from svc_cluster.model.stream_config import STORAGE_CLASS_DEFAULT, NewStream
from svc_cluster.replica.basin import BasinReplica
from svc_cluster.replica.cluster_version import ClusterVersion
from svc_cluster.replica.repeatable import Fill, Operation
from svc_cluster.stream import provision_rules
from svc_cluster.stream.commands import CreateStream
from svc_cluster.stream.commands import Write as WriteCommand
from svc_cluster.stream.effects import View
from svc_cluster.stream.rows import BasinHead, StreamEntry, StreamState

Sequencing = Callable[[TimestampMs], WriteCommand | None]
Write = Callable[[pb.Request, BasinReplica, Sequencing, Callable[[], Fill]], Awaitable[Fill]]


class Provisioning:
    """The operations on streams and on the basin's configuration that change something.

    `find` raises for a group that is not here; `write` returns when the command that its first
    callback made, or what it saw without making one, is committed: with what its second callback
    makes of that, or with the answer to an earlier request that this one repeats. Nothing is
    decided that takes a later version than the cluster's.
    """

    def __init__(
        self,
        find: Callable[[pb.Request], BasinReplica],
        write: Write,
        version: ClusterVersion,
    ) -> None:
        self._find = find
        self._write = write
        self._version = version
        self.operations: dict[str, Operation] = {
            "create_stream": self._create_stream,
            "ensure_stream": self._ensure_stream,
            "reconfigure_stream": self._reconfigure_stream,
            "auto_create_stream": self._auto_create_stream,
            "ensure_basin_config": self._ensure_basin_config,
            "reconfigure_basin": self._reconfigure_basin,
        }

    async def _decide(
        self,
        request: pb.Request,
        decision: Callable[[View, TimestampMs], WriteCommand | None],
        tell: Callable[[_Decided], Fill],
        stream: str | None = None,
    ) -> Fill:
        """Take a decision of the control plane, and tell it when what it rests on, and what it
        comes to, is committed."""
        basin = self._find(request)
        sequencer = basin.sequencer
        decided: _Decided | None = None

        def sequence(now_ms: TimestampMs) -> WriteCommand | None:
            nonlocal decided
            command = sequencer.decide(lambda view: self._written(decision(view, now_ms)))
            assert command is None or isinstance(command, WriteCommand), "as was decided"
            view = sequencer.view
            found = None if stream is None else view.stream_by_name(stream)
            decided = _Decided(command, found, view.basin)
            return command

        def tell_it() -> Fill:
            assert decided is not None, "what succeeds has been sequenced"
            return tell(decided)

        return await self._write(request, basin, sequence, tell_it)

    def _written(self, command: WriteCommand | None) -> WriteCommand | None:
        """The command itself. Raises NotActiveYetError."""
        if command is not None:
            check_written(command, self._version.active)
        return command

    async def _create_stream(self, request: pb.Request) -> Fill:
        message = request.create_stream
        new = _new_stream(message)

        def decision(view: View, now_ms: TimestampMs) -> WriteCommand | None:
            return provision_rules.create_stream(
                view, message.stream, new, message.creation_hash, now_ms
            )

        return await self._decide(request, decision, _provisioned, message.stream)

    async def _ensure_stream(self, request: pb.Request) -> Fill:
        message = request.ensure_stream
        new = _new_stream(message)

        def decision(view: View, now_ms: TimestampMs) -> WriteCommand | None:
            return provision_rules.ensure_stream(view, message.stream, new, now_ms)

        return await self._decide(request, decision, _provisioned, message.stream)

    async def _auto_create_stream(self, request: pb.Request) -> Fill:
        message = request.auto_create_stream
        new = _new_stream(message)

        def decision(view: View, now_ms: TimestampMs) -> WriteCommand | None:
            return provision_rules.auto_create_stream(
                view, message.stream, new, now_ms, on_read=message.on_read
            )

        return await self._decide(request, decision, _provisioned, message.stream)

    async def _reconfigure_stream(self, request: pb.Request) -> Fill:
        message = request.reconfigure_stream
        patch = config_pb.get_stream_patch(message.patch)
        storage_class = message.storage_class_default or STORAGE_CLASS_DEFAULT

        def decision(view: View, now_ms: TimestampMs) -> WriteCommand | None:
            return provision_rules.reconfigure_stream(view, message.stream, patch, storage_class)

        return await self._decide(request, decision, _stream_config, message.stream)

    async def _ensure_basin_config(self, request: pb.Request) -> Fill:
        message = request.ensure_basin_config
        wanted = config_pb.get_basin(message.config)
        storage_class = message.storage_class if message.HasField("storage_class") else None

        def decision(view: View, now_ms: TimestampMs) -> WriteCommand | None:
            return provision_rules.ensure_basin(view, wanted, storage_class)

        return await self._decide(request, decision, _ensured)

    async def _reconfigure_basin(self, request: pb.Request) -> Fill:
        patch = config_pb.get_basin_patch(request.reconfigure_basin.patch)

        def decision(view: View, now_ms: TimestampMs) -> WriteCommand | None:
            return provision_rules.reconfigure_basin(view, patch)

        return await self._decide(request, decision, _basin_config)


@dataclass(frozen=True, slots=True)
class _Decided:
    """The command that a decision came to, and how stream and basin are behind it."""

    command: WriteCommand | None
    stream: StreamState | None
    basin: BasinHead | None

    @property
    def provision(self) -> Provision:
        match self.command:
            case None:
                return Provision.NOOP
            case CreateStream():
                return Provision.CREATED
            case _:
                return Provision.UPDATED


def _new_stream(
    message: pb.CreateStreamRequest | pb.EnsureStreamRequest | pb.AutoCreateRequest,
) -> NewStream:
    config = config_pb.get_partial(message.config) if message.HasField("config") else None
    return NewStream(config, message.storage_class_default or STORAGE_CLASS_DEFAULT)


def _provisioned(decided: _Decided) -> Fill:
    stream = decided.stream
    assert stream is not None, "what was provisioned is there"

    def fill(response: pb.Response) -> None:
        response.provision = decided.provision
        stream_to_pb(response.stream, stream.entry)

    return fill


def _stream_config(decided: _Decided) -> Fill:
    stream = decided.stream
    assert stream is not None, "what was reconfigured is there"
    return lambda response: config_pb.put_complete(response.stream_config, stream.config)


def _ensured(decided: _Decided) -> Fill:
    def fill(response: pb.Response) -> None:
        response.provision = decided.provision
        response.done.SetInParent()

    return fill


def _basin_config(decided: _Decided) -> Fill:
    basin = decided.basin
    assert basin is not None, "what was reconfigured is there"
    return lambda response: config_pb.put_basin(response.basin_config, basin.config)


def stream_to_pb(out: pb.StreamInfo, entry: StreamEntry) -> None:
    out.name = entry.name
    out.created_at_ms = entry.created_at_ms
    if entry.deleted_at_ms is not None:
        out.deleted_at_ms = entry.deleted_at_ms
    if entry.cipher is not None:
        out.cipher = entry.cipher
