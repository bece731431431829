"""A gateway process of the simulation, and clients that speak to its backend."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from svc_cluster.base.errors import (
    AlreadyExistsError,
    BasinDeletionPendingError,
    BasinNotFoundError,
    FencingTokenMismatchError,
    PastTailError,
    SeqNumMismatchError,
    ServiceError,
    StreamDeletionPendingError,
    StreamNotFoundError,
)
from svc_cluster.base.ids import NodeId
from svc_cluster.base.metrics import Metrics
from svc_cluster.codec.batch_codec import ReadBudget
from svc_cluster.codec.request_key import append_hash, request_key
from svc_cluster.gateway.app import GatewayApp
from svc_cluster.gateway.cluster.backend import ReadResult
from svc_cluster.gateway.cluster.node_watch import NodeWatch
from svc_cluster.gateway.cluster.replica_client import ReplicaClient
from svc_cluster.gateway.cluster.usage_client import UsageClient
from svc_cluster.link.session import NodeSession
from svc_cluster.model.read_bounds import ReadBounds, ReadStart, StartKind
from svc_cluster.model.reconfigure import UNSET, BasinPatch, StreamPatch
from svc_cluster.model.record import StoredBatch
from svc_cluster.model.stream_config import (
    BasinConfig,
    NewStream,
    PartialStreamConfig,
    Retention,
    StreamConfig,
)
from tests.at_once import build_batch, cut
from tests.linearizability.history import SeenRecord
from tests.simulation.adapters import SimRpcClient, gateway_speaker, rpc_address
from tests.simulation.checkers.usage import USAGE_INTERVAL_S, ReportedUsage, SeenReports
from tests.simulation.clock import SimClock
from tests.simulation.configs import CLUSTER_ID
from tests.simulation.loop import Incarnation, SimLoop
from tests.simulation.network import SimNetwork
from tests.simulation.workload import (
    Acked,
    Config,
    GoneError,
    Item,
    NoEffectError,
    OnBatch,
    PastTailSeenError,
    Records,
    SessionBatch,
    SessionEvents,
    TailMismatchError,
    TokenMismatchError,
    UnknownOutcomeError,
)

T = TypeVar("T")

_GONE = (
    BasinNotFoundError,
    BasinDeletionPendingError,
    StreamNotFoundError,
    StreamDeletionPendingError,
)


@dataclass(frozen=True, slots=True)
class GatewayProcess:
    """What runs in one life of a gateway."""

    backend: ReplicaClient
    app: GatewayApp


class _Links:
    """The conversations of a gateway with nodes that come and go."""

    def __init__(
        self, sessions: dict[NodeId, NodeSession], begin: Callable[[NodeId], NodeSession]
    ) -> None:
        self._sessions = sessions
        self._begin = begin

    def meet(self, node: NodeId, address: str, other: str = "") -> None:
        if node not in self._sessions:
            self._sessions[node] = self._begin(node)

    def leave(self, node: NodeId) -> None:
        self._sessions.pop(node, None)


class SimGateway:
    """One gateway across its lives. Clients' requests run in its process and die with it."""

    def __init__(
        self,
        loop: SimLoop,
        network: SimNetwork,
        clock: SimClock,
        name: str,
        nodes: Sequence[NodeId],
        rng: random.Random,
        *,
        deadline_seconds: float,
    ) -> None:
        self.name = name
        self._deadline_seconds = deadline_seconds
        self._loop = loop
        self._network = network
        self._clock = clock
        self._nodes = tuple(nodes)
        self._rng = rng
        self._owner: Incarnation | None = None
        self._process: GatewayProcess | None = None
        self._waiting: dict[int, asyncio.Future[object]] = {}
        self.usage = ReportedUsage()
        """By all its lives together."""
        self.crashes = 0
        self.nodes_come = False
        """From its next life on it takes up conversations with nodes that come."""
        self.start()

    @property
    def alive(self) -> bool:
        return self._owner is not None

    def start(self) -> None:
        self._owner = self._loop.incarnation(self.name)
        self._owner.run(self._build)

    def _build(self) -> None:
        speaker = gateway_speaker(CLUSTER_ID, self.name)
        rpc = SimRpcClient(self._loop, self._network, self.name, lambda: speaker)
        sessions = {node: rpc.session(node) for node in self._nodes}
        backend = ReplicaClient(
            sessions=sessions,
            loop=self._loop,
            clock=self._clock,
            rng=self._rng,
            deadline_seconds=self._deadline_seconds,
        )
        backend.start()
        app = GatewayApp(
            backend,
            clock=self._clock,
            rng=self._rng,
            metrics=Metrics(),
            usage=SeenReports(UsageClient(backend.directory, self._clock), self.usage),
            usage_interval_seconds=USAGE_INTERVAL_S,
        )
        app.start()
        if self.nodes_come:
            links = _Links(sessions, rpc.session)
            own = {node: rpc_address(node) for node in self._nodes}
            _ = self._loop.create_task(NodeWatch(backend.directory, links, own).run())
        self._process = GatewayProcess(backend, app)

    def crash(self) -> None:
        """Everything under way here is broken off; its clients see a broken connection."""
        assert self._owner is not None
        self._owner.kill()
        self._owner = None
        self._process = None
        self._network.crash(self.name)
        self.crashes += 1
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(ConnectionResetError(f"{self.name} is gone"))

    async def ask(self, operation: Callable[[GatewayProcess], Awaitable[T]]) -> T:
        """Run `operation` in the gateway's process. Raises ConnectionRefusedError when it is not
        there, ConnectionResetError when it dies meanwhile."""
        owner, process = self._owner, self._process
        if owner is None or process is None:
            raise ConnectionRefusedError(self.name)
        number = self._network.number()
        future: asyncio.Future[T] = self._loop.create_future()
        self._waiting[number] = future  # type: ignore[assignment]

        async def work() -> None:
            try:
                result = await operation(process)
            except Exception as failure:
                if not future.done():
                    future.set_exception(failure)
            else:
                if not future.done():
                    future.set_result(result)

        _ = owner.spawn(work(), f"request {number} at {self.name}")
        try:
            return await future
        finally:
            self._waiting.pop(number, None)


class BackendClient:
    """Implements `workload.SimClient` on a gateway's backend, below HTTP."""

    def __init__(self, gateway: SimGateway) -> None:
        self._gateway = gateway
        self._reads = 0

    async def _ask(self, operation: Callable[[ReplicaClient], Awaitable[T]]) -> T:
        try:
            return await self._gateway.ask(lambda process: operation(process.backend))
        except SeqNumMismatchError as refusal:
            raise TailMismatchError(refusal.tail_seq_num) from refusal
        except FencingTokenMismatchError as refusal:
            raise TokenMismatchError(refusal.current_token) from refusal
        except PastTailError as refusal:
            raise PastTailSeenError(refusal.tail_seq_num) from refusal
        except _GONE as refusal:
            raise GoneError(repr(refusal)) from refusal
        except ServiceError as refusal:
            if refusal.may_have_taken_effect:
                raise UnknownOutcomeError(repr(refusal)) from refusal
            raise NoEffectError(repr(refusal)) from refusal
        except ConnectionRefusedError as refusal:
            raise NoEffectError(repr(refusal)) from refusal
        except ConnectionError as lost:
            raise UnknownOutcomeError(repr(lost)) from lost

    async def create_basin(self, basin: str) -> None:
        try:
            await self._ask(lambda client: client.create_basin(basin, BasinConfig()))
        except NoEffectError as refusal:
            if not isinstance(refusal.__cause__, AlreadyExistsError):
                raise

    async def create_stream(self, basin: str, stream: str) -> None:
        try:
            await self._ask(lambda client: client.create_stream(basin, stream, NewStream()))
        except NoEffectError as refusal:
            if not isinstance(refusal.__cause__, AlreadyExistsError):
                raise

    async def reconfigure(self, basin: str, stream: str | None, change: Config) -> Config:
        patch = StreamPatch(
            retention=Retention(change["retention"]) if "retention" in change else UNSET,
            delete_on_empty_min_age_seconds=change.get("min_age", UNSET),
        )
        if stream is None:
            whole = BasinPatch(patch)
            told = await self._ask(lambda client: client.reconfigure_basin(basin, whole))
            return _config(told.default_stream_config)
        return _config(
            await self._ask(
                lambda client: client.reconfigure_stream(basin, stream, patch, "standard")
            )
        )

    async def config(self, basin: str, stream: str | None) -> Config:
        if stream is None:
            told = await self._ask(lambda client: client.get_basin_config(basin))
            return _config(told.default_stream_config)
        return _config(await self._ask(lambda client: client.get_stream_config(basin, stream)))

    async def append(
        self,
        basin: str,
        stream: str,
        items: Sequence[Item],
        match_seq_num: int | None = None,
        fencing_token: str | None = None,
        request_token: str | None = None,
    ) -> Acked:
        batch = _stored(items)
        key = b""
        if request_token is not None:
            hashed = append_hash(batch, match_seq_num, fencing_token)
            key = request_key("POST", "append", (basin, stream), request_token, hashed)
        ack = await self._ask(
            lambda client: client.append(
                basin, stream, batch, match_seq_num, fencing_token, request_key=key
            )
        )
        return Acked(ack.start.seq_num, ack.end.seq_num, ack.tail.seq_num)

    async def append_session(
        self, basin: str, stream: str, batches: Sequence[SessionBatch], events: SessionEvents
    ) -> None:
        """All at once, however many they are."""

        async def converse(client: ReplicaClient) -> None:
            appends = client.open_appends(basin, stream)
            try:
                for batch in batches:
                    events.sent()
                    appends.put(_stored(batch.items), batch.match_seq_num, batch.fencing_token)
                for _ in batches:
                    ack = await appends.next_ack()
                    events.acked(Acked(ack.start.seq_num, ack.end.seq_num, ack.tail.seq_num))
            finally:
                appends.close()

        await self._ask(converse)

    async def read(
        self, basin: str, stream: str, start: int, count: int, wait_s: int = 0
    ) -> Records:
        found = await self._read(basin, stream, start, count, wait_s)
        self._reads += 1
        if found.batches and self._reads % 2:
            # what any replica says behind that is as good an answer to this read
            other = await self._read(basin, stream, start, count, 0, behind=found.seen)
            found = other if other.batches else found
        budget = ReadBudget(count=count)
        records = tuple(
            SeenRecord(record.seq_num, record.timestamp_ms, record.body.decode("latin-1"))
            for record in cut(found.batches, found.start_seq_num, budget)
        )
        limited = found.may_have_more or budget.exhausted
        return Records(records, found.tail.seq_num, limited)

    async def _read(
        self, basin: str, stream: str, start: int, count: int, wait_s: int, behind: int = 0
    ) -> ReadResult:
        return await self._ask(
            lambda client: client.read(
                basin,
                stream,
                ReadStart(StartKind.SEQ_NUM, start),
                ReadBounds(count=count),
                refuse_at_tail=False,
                wait_ms=wait_s * 1000,
                committed=behind > 0,
                behind=behind,
            )
        )

    async def check_tail(self, basin: str, stream: str) -> int:
        tail = await self._ask(lambda client: client.check_tail(basin, stream))
        return tail.seq_num

    async def follow(
        self, basin: str, stream: str, start: int, seconds: float, on_batch: OnBatch
    ) -> None:
        """Reads that wait, one after another: below HTTP there are no event streams."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while loop.time() < end:
            seen = await self.read(basin, stream, start, 50, wait_s=1)
            if seen.records:
                on_batch(seen.records)
                start = seen.records[-1].seq_num + 1
            await asyncio.sleep(0.01)

    async def delete_stream(self, basin: str, stream: str) -> None:
        await self._ask(lambda client: client.delete_stream(basin, stream))

    async def delete_basin(self, basin: str) -> None:
        await self._ask(lambda client: client.delete_basin(basin))


def _stored(items: Sequence[Item]) -> StoredBatch:
    return build_batch(
        [
            (None, () if item.command is None else ((b"", item.command),), item.data)
            for item in items
        ]
    )


def _config(told: StreamConfig | PartialStreamConfig | None) -> Config:
    if told is None:
        return {}
    values = {
        "retention": None if told.retention is None else told.retention.age_seconds,
        "min_age": told.delete_on_empty_min_age_seconds,
    }
    return {name: value for name, value in values.items() if value is not None}
