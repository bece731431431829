"""The gateway's view of the cluster: finds leaders, follows hints, retries what had no effect.

A request is sent again only when the answer (or the lack of a connection) proves that nothing was
done. Whatever left this process and was not answered is reported as "may have taken effect".
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.clock import Clock
from svc_cluster.base.errors import (
    AlreadyExistsError,
    BasinDeletionPendingError,
    BasinNotFoundError,
    DeadlineError,
    DrainingError,
    HotServerError,
    ReadDeadlineError,
    ServiceError,
    StreamNotFoundError,
    UnavailableError,
)
from svc_cluster.base.ids import CATALOG_GROUP, GroupId, NodeId, TimestampMs
from svc_cluster.base.tasks import Tasks
from svc_cluster.codec import config_pb, rpc
from svc_cluster.gateway.backend import BasinInfo, Created, ReadResult, StreamInfo
from svc_cluster.link.session import LinkLostError, NodeSession
from svc_cluster.model.read_bounds import ReadBounds, ReadStart
from svc_cluster.model.record import AppendAck, Position, StoredBatch
from svc_cluster.model.stream_config import BasinConfig, PartialStreamConfig, StreamConfig

DEADLINE_SECONDS: Final = 4.0
"""Below the 5 s after which the clients' libraries give up."""

RETRY_SECONDS_MIN: Final = 0.01
RETRY_SECONDS_MAX: Final = 0.1

PING_SECONDS: Final = 0.5
PING_ANSWER_SECONDS: Final = 1.0
"""A node that leaves a ping unanswered this long is asked nothing more until it answers one."""

DIRECTORY_BASINS_MAX: Final = 10_000

Fill = Callable[[pb.Request], None]


@dataclass(slots=True)
class _Group:
    """Where a group lives, as far as is known here."""

    group_id: GroupId
    replicas: tuple[NodeId, ...]
    leader: NodeId | None = None


class ReplicaClient:
    """Implements `gateway.backend.Backend` over sessions with the nodes."""

    def __init__(
        self,
        *,
        sessions: Mapping[NodeId, NodeSession],
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        rng: random.Random,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        self._sessions = sessions
        self._loop = loop
        self._clock = clock
        self._rng = rng
        self._deadline_seconds = deadline_seconds
        self._catalog = _Group(CATALOG_GROUP, tuple(sorted(sessions)))
        self._directory: dict[str, _Group] = {}
        self._tasks = Tasks()
        self._silent: set[NodeId] = set()
        self.retries: dict[str, int] = {}
        """How often a request was sent again, by reason."""

    def start(self) -> None:
        """Begin to watch the nodes: a frozen one keeps its connections and answers nothing."""
        for node in self._sessions:
            self._tasks.spawn(self._watch(node), f"watch node {node}")

    async def _watch(self, node: NodeId) -> None:
        while True:
            await asyncio.sleep(PING_SECONDS)
            try:
                async with asyncio.timeout(PING_ANSWER_SECONDS):
                    await self._sessions[node].call(
                        CATALOG_GROUP, int(PING_ANSWER_SECONDS * 1000), _fill_ping
                    )
            except (ConnectionError, TimeoutError):
                self._silent.add(node)
            else:
                self._silent.discard(node)

    def _is_usable(self, node: NodeId) -> bool:
        return self._sessions[node].is_up and node not in self._silent

    @property
    def usable_nodes(self) -> int:
        return sum(self._is_usable(node) for node in self._sessions)

    async def close(self) -> None:
        await self._tasks.cancel_all()
        for session in self._sessions.values():
            await session.close()

    # -- one request, until it is answered

    async def _call(
        self, group: _Group, fill: Fill, *, write: bool, deadline: float
    ) -> pb.Response:
        """Ask the group's leader. Raises the node's refusal, DeadlineError or ReadDeadlineError
        when it is not known what became of the request, UnavailableError when nothing did."""
        delay = RETRY_SECONDS_MIN
        tried = 0
        refusal: ServiceError = UnavailableError("no leader was found")
        while (left := deadline - self._clock.monotonic()) > 0:
            node = self._pick(group, tried)
            tried += 1
            if node is not None:
                try:
                    response = await self._ask(node, group, fill, left)
                except LinkLostError as lost:
                    group.leader = None
                    if lost.sent and write:
                        raise DeadlineError("the connection was lost before the answer") from lost
                    self._note_retry("link_lost")
                    refusal = UnavailableError("the node cannot be reached")
                except TimeoutError as late:
                    group.leader = None
                    if write:
                        raise DeadlineError("no answer by the deadline") from late
                    raise ReadDeadlineError("no answer by the deadline") from late
                else:
                    if response.WhichOneof("result") != "refusal":
                        group.leader = node
                        return response
                    refusal = rpc.refusal_from_pb(response.refusal)
                    if not self._may_repeat(group, node, refusal):
                        raise refusal
                    if isinstance(refusal, rpc.NotLeaderHereError) and group.leader is not None:
                        continue
            await asyncio.sleep(min(delay * (0.5 + self._rng.random()), max(left, 0)))
            delay = min(delay * 2, RETRY_SECONDS_MAX)
        if isinstance(refusal, rpc.NotLeaderHereError | rpc.GroupUnknownError):
            raise UnavailableError("no leader was found")
        raise refusal

    def _pick(self, group: _Group, tried: int) -> NodeId | None:
        leader = group.leader
        if leader is not None and leader in self._sessions and self._is_usable(leader):
            return leader
        usable = [node for node in group.replicas if self._is_usable(node)]
        return usable[tried % len(usable)] if usable else None

    async def _ask(self, node: NodeId, group: _Group, fill: Fill, left: float) -> pb.Response:
        future = self._sessions[node].call(group.group_id, int(left * 1000), fill)
        # a timer and no task: this is the hot path
        timer = self._loop.call_later(left, _expire, future)
        try:
            return await future
        finally:
            timer.cancel()

    def _may_repeat(self, group: _Group, node: NodeId, refusal: ServiceError) -> bool:
        """Only what certainly had no effect is sent again."""
        match refusal:
            case rpc.NotLeaderHereError():
                group.leader = refusal.leader if refusal.leader != node else None
                self._note_retry("not_leader")
                return True
            case rpc.GroupUnknownError():
                group.leader = None
                self._note_retry("group_unknown")
                return True
            case DrainingError() | UnavailableError() | HotServerError():
                group.leader = None
                self._note_retry(refusal.code.value)
                return not refusal.may_have_taken_effect
            case _:
                return False

    def _note_retry(self, reason: str) -> None:
        self.retries[reason] = self.retries.get(reason, 0) + 1

    def _deadline(self) -> float:
        return self._clock.monotonic() + self._deadline_seconds

    async def _ask_catalog(self, fill: Fill, *, write: bool, deadline: float) -> pb.Response:
        return await self._call(self._catalog, fill, write=write, deadline=deadline)

    async def _ask_basin(
        self, basin: str, fill: Fill, *, write: bool, deadline: float
    ) -> pb.Response:
        group = self._directory.get(basin)
        if group is None:
            group = await self._resolve(basin, deadline)
        try:
            return await self._call(group, fill, write=write, deadline=deadline)
        except BasinDeletionPendingError:
            # perhaps this was the basin's predecessor of the same name
            fresh = await self._resolve(basin, deadline)
            if fresh.group_id == group.group_id:
                raise
            return await self._call(fresh, fill, write=write, deadline=deadline)
        except UnavailableError:
            self._directory.pop(basin, None)
            # a basin that is gone answers so for ever; the catalog knows
            try:
                await self._resolve(basin, deadline + 0.2)
            except UnavailableError:
                self._note_retry("catalog_unavailable")
            raise

    async def _ask_stream(
        self, basin: str, stream: str, fill: Fill, *, write: bool, deadline: float
    ) -> pb.Response:
        """As `_ask_basin`; makes the stream where the basin's configuration says so."""
        try:
            return await self._ask_basin(basin, fill, write=write, deadline=deadline)
        except StreamNotFoundError:
            config = await self.get_basin_config(basin)
            if not (config.create_stream_on_append if write else config.create_stream_on_read):
                raise
        with contextlib.suppress(AlreadyExistsError):
            await self.create_stream(basin, stream, None)
        return await self._ask_basin(basin, fill, write=write, deadline=deadline)

    async def _resolve(self, basin: str, deadline: float) -> _Group:
        def fill(request: pb.Request) -> None:
            request.resolve_basin.basin = basin

        self._directory.pop(basin, None)
        try:
            response = await self._ask_catalog(fill, write=False, deadline=deadline)
        except ReadDeadlineError as late:
            # whatever was to be done to the basin has not begun
            raise UnavailableError("the catalog gave no answer in time") from late
        return self._remember(response.basin)

    def _remember(self, info: pb.BasinInfo) -> _Group:
        replicas = tuple(NodeId(n) for n in info.replicas)
        group = _Group(GroupId(info.group_id), replicas, replicas[0])
        if len(self._directory) >= DIRECTORY_BASINS_MAX:
            self._directory.pop(next(iter(self._directory)))
        self._directory[info.name] = group
        return group

    # -- basins

    async def create_basin(self, name: str, config: BasinConfig) -> Created:
        deadline = self._deadline()

        def fill(request: pb.Request) -> None:
            request.create_basin.basin = name
            config_pb.put_basin(request.create_basin.config, config)

        response = await self._ask_catalog(fill, write=True, deadline=deadline)
        group = self._remember(response.basin)

        def wait(request: pb.Request) -> None:
            request.await_basin.basin = name

        try:
            await self._call(group, wait, write=True, deadline=deadline)
        except UnavailableError as late:
            # the basin exists from its catalog entry on, only its group is not ready yet
            raise DeadlineError("the basin is still being created") from late
        return Created(_basin_info(response.basin))

    async def list_basins(
        self, prefix: str, start_after: str, limit: int
    ) -> tuple[list[BasinInfo], bool]:
        def fill(request: pb.Request) -> None:
            request.list_basins.prefix = prefix
            request.list_basins.start_after = start_after
            request.list_basins.limit = limit

        response = await self._ask_catalog(fill, write=False, deadline=self._deadline())
        found = response.basins
        return [_basin_info(info) for info in found.basins], found.has_more

    async def get_basin_config(self, name: str) -> BasinConfig:
        def fill(request: pb.Request) -> None:
            request.get_basin_config.basin = name

        response = await self._ask_basin(name, fill, write=False, deadline=self._deadline())
        return config_pb.get_basin(response.basin_config)

    async def delete_basin(self, name: str) -> None:
        """Returns once the catalog and the group both refuse everything."""
        deadline = self._deadline()

        def fill(request: pb.Request) -> None:
            request.delete_basin.basin = name

        response = await self._ask_catalog(fill, write=True, deadline=deadline)
        group = self._remember(response.basin)

        def seal(request: pb.Request) -> None:
            request.seal_basin.basin = name

        try:
            await self._call(group, seal, write=True, deadline=deadline)
        except BasinDeletionPendingError:
            pass
        except UnavailableError as late:
            if await self._is_gone(name, group.group_id):
                return
            raise DeadlineError("the deletion is not finished yet") from late

    async def _is_gone(self, name: str, group_id: GroupId) -> bool:
        """The basin was purged between two steps of its own deletion."""
        try:
            group = await self._resolve(name, self._clock.monotonic() + 0.5)
        except BasinNotFoundError:
            return True
        except ServiceError:
            return False
        return group.group_id != group_id

    # -- streams

    async def create_stream(
        self, basin: str, stream: str, config: PartialStreamConfig | None
    ) -> Created:
        def fill(request: pb.Request) -> None:
            request.create_stream.stream = stream
            if config is not None:
                config_pb.put_partial(request.create_stream.config, config)

        response = await self._ask_basin(basin, fill, write=True, deadline=self._deadline())
        return Created(_stream_info(response.stream))

    async def list_streams(
        self, basin: str, prefix: str, start_after: str, limit: int
    ) -> tuple[list[StreamInfo], bool]:
        def fill(request: pb.Request) -> None:
            request.list_streams.prefix = prefix
            request.list_streams.start_after = start_after
            request.list_streams.limit = limit

        response = await self._ask_basin(basin, fill, write=False, deadline=self._deadline())
        found = response.streams
        return [_stream_info(info) for info in found.streams], found.has_more

    async def get_stream_config(self, basin: str, stream: str) -> StreamConfig:
        def fill(request: pb.Request) -> None:
            request.get_stream_config.stream = stream

        response = await self._ask_basin(basin, fill, write=False, deadline=self._deadline())
        return config_pb.get_complete(response.stream_config)

    async def delete_stream(self, basin: str, stream: str) -> None:
        def fill(request: pb.Request) -> None:
            request.delete_stream.stream = stream

        await self._ask_basin(basin, fill, write=True, deadline=self._deadline())

    # -- records

    async def append(
        self,
        basin: str,
        stream: str,
        batch: StoredBatch,
        match_seq_num: int | None,
        fencing_token: str | None,
    ) -> AppendAck:
        def fill(request: pb.Request) -> None:
            rpc.append_to_pb(request.append, stream, batch, match_seq_num, fencing_token)

        response = await self._ask_stream(
            basin, stream, fill, write=True, deadline=self._deadline()
        )
        return rpc.ack_from_pb(response.append)

    async def read(
        self,
        basin: str,
        stream: str,
        start: ReadStart,
        bounds: ReadBounds,
        *,
        refuse_at_tail: bool,
        wait_ms: int,
    ) -> ReadResult:
        def fill(request: pb.Request) -> None:
            out = request.read
            out.stream = stream
            out.start_kind = start.kind
            out.start_value = start.value
            out.clamp = start.clamp
            if bounds.count is not None:
                out.count = bounds.count
            if bounds.metered_bytes is not None:
                out.metered_bytes = bounds.metered_bytes
            if bounds.until_ms is not None:
                out.until_ms = bounds.until_ms
            out.refuse_at_tail = refuse_at_tail
            out.wait_ms = wait_ms

        # the wait is the node's; the deadline must not end it
        deadline = self._deadline() + min(wait_ms, 5000) / 1000
        response = await self._ask_stream(basin, stream, fill, write=False, deadline=deadline)
        found = response.read
        return ReadResult(
            start_seq_num=found.start_seq_num,
            batches=tuple(rpc.sequenced_from_pb(batch) for batch in found.batches),
            tail=rpc.position_from_pb(found.tail),
            may_have_more=found.may_have_more,
            incarnation=(found.group_id, found.stream_id),
        )

    async def check_tail(self, basin: str, stream: str) -> Position:
        def fill(request: pb.Request) -> None:
            request.check_tail.stream = stream

        response = await self._ask_stream(
            basin, stream, fill, write=False, deadline=self._deadline()
        )
        return rpc.position_from_pb(response.tail)


def _fill_ping(request: pb.Request) -> None:
    request.ping.SetInParent()


def _expire(future: asyncio.Future[pb.Response]) -> None:
    if not future.done():
        future.set_exception(TimeoutError())


def _basin_info(info: pb.BasinInfo) -> BasinInfo:
    return BasinInfo(
        name=info.name,
        created_at_ms=TimestampMs(info.created_at_ms),
        deleted_at_ms=(TimestampMs(info.deleted_at_ms) if info.HasField("deleted_at_ms") else None),
    )


def _stream_info(info: pb.StreamInfo) -> StreamInfo:
    return StreamInfo(
        name=info.name,
        created_at_ms=TimestampMs(info.created_at_ms),
        deleted_at_ms=(TimestampMs(info.deleted_at_ms) if info.HasField("deleted_at_ms") else None),
        cipher=info.cipher if info.HasField("cipher") else None,
    )
