"""The gateway's view of the cluster: what a handler asks for becomes requests to nodes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Mapping
from typing import Final

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.clock import Clock
from svc_cluster.base.errors import (
    BasinDeletionPendingError,
    BasinNotFoundError,
    DeadlineError,
    ServiceError,
    TransactionConflictError,
    UnavailableError,
)
from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.base.metrics import Metrics
from svc_cluster.codec import config_pb, rpc
from svc_cluster.gateway.cluster import answers
from svc_cluster.gateway.cluster.append_client import AppendClient
from svc_cluster.gateway.cluster.backend import (
    AppendWatch,
    BasinInfo,
    ProvisionedBasin,
    ProvisionedStream,
    ReadResult,
    StreamInfo,
)
from svc_cluster.gateway.cluster.creation import creation_in
from svc_cluster.gateway.cluster.directory import Directory
from svc_cluster.gateway.cluster.leaders import Fill, Leaders
from svc_cluster.gateway.cluster.pipelined_appends import PipelinedAppends
from svc_cluster.gateway.cluster.token_client import put_asked_by
from svc_cluster.link.session import NodeSession
from svc_cluster.model.access_token import AskedBy, AuthenticationOff
from svc_cluster.model.cipher import StreamIdentity
from svc_cluster.model.location import Location
from svc_cluster.model.provision import Provision
from svc_cluster.model.read_bounds import ReadBounds, ReadStart
from svc_cluster.model.reconfigure import BasinPatch, StreamPatch, with_storage_class
from svc_cluster.model.record import AppendAck, Position, StoredBatch
from svc_cluster.model.stream_config import BasinConfig, NewStream, StreamConfig

DEADLINE_SECONDS: Final = 4.0
"""Below the 5 s after which the clients' libraries give up."""


class ReplicaClient:
    """Implements `gateway.cluster.backend.Backend` over sessions with the nodes."""

    def __init__(
        self,
        *,
        sessions: Mapping[NodeId, NodeSession],
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        rng: random.Random,
        deadline_seconds: float = DEADLINE_SECONDS,
        metrics: Metrics | None = None,
    ) -> None:
        self._clock = clock
        self._rng = rng
        self._deadline_seconds = deadline_seconds
        self._leaders = Leaders(sessions=sessions, loop=loop, clock=clock, rng=rng, metrics=metrics)
        self._directory = Directory(self._leaders, tuple(sorted(sessions)))
        self._appends = AppendClient(self._directory, clock, self._leaders.note_retry)

    def start(self) -> None:
        """Begin to watch the nodes: a frozen one keeps its connections and answers nothing."""
        self._leaders.start()

    @property
    def usable_nodes(self) -> int:
        return self._leaders.usable_nodes

    async def close(self) -> None:
        await self._appends.close()
        await self._leaders.close()

    @property
    def directory(self) -> Directory:
        """For what else is asked of the catalog."""
        return self._directory

    def _deadline(self) -> float:
        return self._clock.monotonic() + self._deadline_seconds

    # -- basins

    async def create_basin(
        self,
        name: str,
        config: BasinConfig,
        creation_hash: bytes = b"",
        *,
        location: str | None = None,
        replication_factor: int | None = None,
        asked_by: AskedBy = AuthenticationOff.OFF,
        request_key: bytes = b"",
    ) -> ProvisionedBasin:
        def fill(request: pb.Request) -> None:
            asked = creation_in(request, replication_factor)
            asked.basin, asked.creation_hash = name, creation_hash
            put_asked_by(asked, asked_by)
            if location is not None:
                asked.location = location
            config_pb.put_basin(asked.config, config)

        return await self._create_basin(name, fill, self._deadline(), request_key)

    async def ensure_basin(
        self,
        name: str,
        config: BasinConfig,
        storage_class: str | None = None,
        *,
        location: str | None = None,
        replication_factor: int | None = None,
        asked_by: AskedBy = AuthenticationOff.OFF,
        request_key: bytes = b"",
    ) -> ProvisionedBasin:
        deadline = self._deadline()

        def create(request: pb.Request) -> None:
            asked = creation_in(request, replication_factor)
            asked.basin, asked.or_existing = name, True
            put_asked_by(asked, asked_by)
            if location is not None:
                asked.location = location
            config_pb.put_basin(asked.config, with_storage_class(config, storage_class))

        made = await self._create_basin(name, create, deadline, request_key)
        if made.outcome is Provision.CREATED:
            return made

        def ensure(request: pb.Request) -> None:
            config_pb.put_basin(request.ensure_basin_config.config, config)
            if storage_class is not None:
                request.ensure_basin_config.storage_class = storage_class

        try:
            response = await self._directory.ask_basin(
                name, ensure, write=True, deadline=deadline, key=request_key
            )
        except BasinNotFoundError as gone:
            raise TransactionConflictError("the basin was deleted meanwhile; try again") from gone
        return ProvisionedBasin(made.info, Provision(response.provision))

    async def reconfigure_basin(
        self,
        name: str,
        patch: BasinPatch,
        *,
        request_key: bytes = b"",
    ) -> BasinConfig:
        def fill(request: pb.Request) -> None:
            config_pb.put_basin_patch(request.reconfigure_basin.patch, patch)

        response = await self._directory.ask_basin(
            name, fill, write=True, deadline=self._deadline(), key=request_key
        )
        return config_pb.get_basin(response.basin_config)

    async def _create_basin(
        self, name: str, fill: Fill, deadline: float, request_key: bytes
    ) -> ProvisionedBasin:
        response = await self._directory.ask_catalog(
            fill, write=True, deadline=deadline, key=request_key
        )
        made = ProvisionedBasin(answers.basin_info(response.basin), Provision(response.provision))
        if await self._is_over(name, response, deadline):
            return made
        group = self._directory.remember(response.basin)

        def wait(request: pb.Request) -> None:
            request.await_basin.basin = name

        try:
            await self._leaders.call(group, wait, write=True, deadline=deadline)
        except UnavailableError as late:
            # the basin exists from its catalog entry on, only its group is not ready yet
            raise DeadlineError("the basin is still being created") from late
        except BasinDeletionPendingError:
            if not response.is_repeated:
                raise
        return made

    async def _is_over(self, name: str, response: pb.Response, deadline: float) -> bool:
        """Tells whether a repeated request finds that its basin has gone meanwhile. Then what
        followed upon the first one has happened, or cannot any more. What has the name now is
        another."""
        if not response.is_repeated:
            return False
        try:
            group = await self._directory.resolve(name, deadline)
        except BasinNotFoundError:
            return True
        except UnavailableError as late:
            raise DeadlineError("it is not known whether the basin is there") from late
        return group.group_id != response.basin.group_id

    async def list_basins(
        self, prefix: str, start_after: str, limit: int
    ) -> tuple[list[BasinInfo], bool]:
        def fill(request: pb.Request) -> None:
            request.list_basins.prefix = prefix
            request.list_basins.start_after = start_after
            request.list_basins.limit = limit

        response = await self._directory.ask_catalog(fill, write=False, deadline=self._deadline())
        found = response.basins
        return [answers.basin_info(info) for info in found.basins], found.has_more

    async def get_basin_config(self, name: str) -> BasinConfig:
        def fill(request: pb.Request) -> None:
            request.get_basin_config.basin = name

        response = await self._directory.ask_basin(
            name, fill, write=False, deadline=self._deadline()
        )
        return config_pb.get_basin(response.basin_config)

    async def delete_basin(self, name: str, *, request_key: bytes = b"") -> None:
        """Returns once the catalog and the group both refuse everything."""
        deadline = self._deadline()

        def fill(request: pb.Request) -> None:
            request.delete_basin.basin = name

        response = await self._directory.ask_catalog(
            fill, write=True, deadline=deadline, key=request_key
        )
        if await self._is_over(name, response, deadline):
            return
        group = self._directory.remember(response.basin)

        def seal(request: pb.Request) -> None:
            request.seal_basin.basin = name

        try:
            await self._leaders.call(group, seal, write=True, deadline=deadline)
        except BasinDeletionPendingError:
            pass
        except UnavailableError as late:
            if await self._is_gone(name, group.group_id):
                return
            raise DeadlineError("the deletion is not finished yet") from late

    async def _is_gone(self, name: str, group_id: GroupId) -> bool:
        """The basin was purged between two steps of its own deletion."""
        try:
            group = await self._directory.resolve(name, self._clock.monotonic() + 0.5)
        except BasinNotFoundError:
            return True
        except ServiceError:
            return False
        return group.group_id != group_id

    # -- locations

    async def locations(self) -> tuple[list[Location], Location]:
        def fill(request: pb.Request) -> None:
            request.list_locations.SetInParent()

        response = await self._directory.ask_catalog(fill, write=False, deadline=self._deadline())
        found = response.locations
        return [answers.location(each) for each in found.locations], answers.location(
            found.default_location
        )

    async def set_default_location(self, name: str, *, request_key: bytes = b"") -> Location:
        def fill(request: pb.Request) -> None:
            request.set_default_location.name = name

        response = await self._directory.ask_catalog(
            fill, write=True, deadline=self._deadline(), key=request_key
        )
        return answers.location(response.locations.default_location)

    # -- streams

    async def create_stream(
        self,
        basin: str,
        stream: str,
        new: NewStream,
        creation_hash: bytes = b"",
        *,
        request_key: bytes = b"",
    ) -> ProvisionedStream:
        def fill(request: pb.Request) -> None:
            request.create_stream.stream = stream
            request.create_stream.creation_hash = creation_hash
            answers.put_new_stream(request.create_stream, new)

        return await self._provision_stream(basin, fill, request_key)

    async def ensure_stream(
        self,
        basin: str,
        stream: str,
        new: NewStream,
        *,
        request_key: bytes = b"",
    ) -> ProvisionedStream:
        def fill(request: pb.Request) -> None:
            request.ensure_stream.stream = stream
            answers.put_new_stream(request.ensure_stream, new)

        return await self._provision_stream(basin, fill, request_key)

    async def auto_create_stream(
        self, basin: str, stream: str, new: NewStream, *, on_read: bool
    ) -> None:
        def fill(request: pb.Request) -> None:
            request.auto_create_stream.stream = stream
            request.auto_create_stream.on_read = on_read
            answers.put_new_stream(request.auto_create_stream, new)

        try:
            await self._directory.ask_basin(basin, fill, write=True, deadline=self._deadline())
        except DeadlineError as late:
            # whatever the stream was wanted for has not begun
            raise UnavailableError("the stream was not created in time") from late

    async def _provision_stream(
        self, basin: str, fill: Fill, request_key: bytes
    ) -> ProvisionedStream:
        response = await self._directory.ask_basin(
            basin, fill, write=True, deadline=self._deadline(), key=request_key
        )
        return ProvisionedStream(
            answers.stream_info(response.stream), Provision(response.provision)
        )

    async def reconfigure_stream(
        self,
        basin: str,
        stream: str,
        patch: StreamPatch,
        storage_class_default: str,
        *,
        request_key: bytes = b"",
    ) -> StreamConfig:
        def fill(request: pb.Request) -> None:
            out = request.reconfigure_stream
            out.stream = stream
            out.storage_class_default = storage_class_default
            config_pb.put_stream_patch(out.patch, patch)

        response = await self._directory.ask_basin(
            basin, fill, write=True, deadline=self._deadline(), key=request_key
        )
        return config_pb.get_complete(response.stream_config)

    async def list_streams(
        self, basin: str, prefix: str, start_after: str, limit: int
    ) -> tuple[list[StreamInfo], bool]:
        def fill(request: pb.Request) -> None:
            request.list_streams.prefix = prefix
            request.list_streams.start_after = start_after
            request.list_streams.limit = limit

        response = await self._directory.ask_basin(
            basin, fill, write=False, deadline=self._deadline()
        )
        found = response.streams
        return [answers.stream_info(info) for info in found.streams], found.has_more

    async def get_stream_config(self, basin: str, stream: str) -> StreamConfig:
        def fill(request: pb.Request) -> None:
            request.get_stream_config.stream = stream

        response = await self._directory.ask_basin(
            basin, fill, write=False, deadline=self._deadline()
        )
        return config_pb.get_complete(response.stream_config)

    async def describe_stream(self, basin: str, stream: str) -> StreamIdentity:
        def fill(request: pb.Request) -> None:
            request.describe_stream.stream = stream

        response = await self._directory.ask_basin(
            basin, fill, write=False, deadline=self._deadline()
        )
        return rpc.identity_from_pb(response.stream_identity)

    async def delete_stream(
        self,
        basin: str,
        stream: str,
        *,
        request_key: bytes = b"",
    ) -> None:
        def fill(request: pb.Request) -> None:
            request.delete_stream.stream = stream

        await self._directory.ask_basin(
            basin, fill, write=True, deadline=self._deadline(), key=request_key
        )

    # -- records

    async def append(
        self,
        basin: str,
        stream: str,
        batch: StoredBatch,
        match_seq_num: int | None,
        fencing_token: str | None,
        *,
        request_key: bytes = b"",
        watch: AppendWatch | None = None,
    ) -> AppendAck:
        return await self._appends.append(
            basin,
            stream,
            batch,
            match_seq_num,
            fencing_token,
            request_key,
            watch,
            self._deadline(),
        )

    def open_appends(self, basin: str, stream: str) -> PipelinedAppends:
        def ask(fill: Fill, deadline: float, size: int) -> Awaitable[pb.Response]:
            return self._directory.ask_basin(basin, fill, write=True, deadline=deadline, size=size)

        return PipelinedAppends(
            stream,
            ask=ask,
            group=lambda: self._directory.known(basin),
            leaders=self._leaders,
            clock=self._clock,
            rng=self._rng,
            deadline_seconds=self._deadline_seconds,
        )

    async def read(
        self,
        basin: str,
        stream: str,
        start: ReadStart,
        bounds: ReadBounds,
        *,
        refuse_at_tail: bool,
        wait_ms: int,
        has_key: bool = False,
        committed: bool = False,
        behind: int = 0,
    ) -> ReadResult:
        def fill(request: pb.Request) -> None:
            out = request.read
            out.stream = stream
            out.start_kind, out.start_value, out.clamp = start.kind, start.value, start.clamp
            rpc.read_bounds_to_pb(out, bounds)
            out.refuse_at_tail = refuse_at_tail
            out.wait_ms = wait_ms
            out.has_key = has_key
            out.committed = committed
            out.at_least = behind

        response = await self._directory.ask_replica(basin, fill) if behind else None
        if response is None:
            # the wait is the node's; the deadline must not end it
            deadline = self._deadline() + min(wait_ms, 5000) / 1000
            response = await self._directory.ask_basin(basin, fill, write=False, deadline=deadline)
        found = response.read
        return ReadResult(
            start_seq_num=found.start_seq_num,
            batches=tuple(rpc.sequenced_from_pb(batch) for batch in found.batches),
            tail=rpc.position_from_pb(found.tail),
            may_have_more=found.may_have_more,
            incarnation=(found.group_id, found.stream_id),
            cipher=found.cipher if found.HasField("cipher") else None,
            shared_caching=found.shared_caching,
            seen=found.applied_index,
        )

    async def check_tail(self, basin: str, stream: str) -> Position:
        def fill(request: pb.Request) -> None:
            request.check_tail.stream = stream

        response = await self._directory.ask_basin(
            basin, fill, write=False, deadline=self._deadline()
        )
        return rpc.position_from_pb(response.tail)
