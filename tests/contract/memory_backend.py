"""A Backend without a cluster: stored batches in lists, in one process, not durable.

It keeps the rules of the wire (conditions, timestamps, trimming, deletion) over real StoredBatch
values, so that the HTTP side can be tested on its own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, TypeVar, cast

from svc_cluster._pb.s2.v1 import s2_pb2 as pb
from svc_cluster.base.clock import Clock
from svc_cluster.base.errors import (
    AlreadyExistsError,
    BasinNotFoundError,
    FencingTokenMismatchError,
    InvalidError,
    PastTailError,
    SeqNumMismatchError,
    ServiceError,
    StreamNotFoundError,
)
from svc_cluster.base.ids import SeqNum, TimestampMs
from svc_cluster.gateway.cluster.backend import (
    AppendWatch,
    BasinInfo,
    ProvisionedBasin,
    ProvisionedStream,
    ReadResult,
    StreamInfo,
)
from svc_cluster.model.access_token import AskedBy, AuthenticationOff
from svc_cluster.model.cipher import StreamIdentity
from svc_cluster.model.idempotency_table import is_final_refusal
from svc_cluster.model.location import LOCATIONS_DEFAULT, Location
from svc_cluster.model.provision import Provision
from svc_cluster.model.read_bounds import ReadBounds, ReadStart, StartKind
from svc_cluster.model.reconfigure import (
    BasinPatch,
    StreamPatch,
    ensure_basin,
    patch_basin,
    patch_stream,
    with_storage_class,
)
from svc_cluster.model.record import (
    AppendAck,
    CommandKind,
    Position,
    SequencedBatch,
    StoredBatch,
)
from svc_cluster.model.stream_config import (
    BasinConfig,
    NewStream,
    StreamConfig,
)
from svc_cluster.stream.timestamping import place, stamp

READ_BYTES_MAX = 1_048_576
F = TypeVar("F", bound=Callable[..., Awaitable[Any]])
WAIT_MS_MAX = 5_000


@dataclass
class _Stream:
    info: StreamInfo
    config: StreamConfig
    creation_hash: bytes = b""
    batches: list[SequencedBatch] = field(default_factory=list)
    tail: Position = field(default_factory=lambda: Position(SeqNum(0), TimestampMs(0)))
    trim_point: int = 0
    fencing_token: str = ""
    grown: asyncio.Event = field(default_factory=asyncio.Event)


NODES = 1
"""As many as a cluster of these would have."""


@dataclass
class _Basin:
    info: BasinInfo
    config: BasinConfig
    creation_hash: bytes = b""
    replicas: int = NODES
    streams: dict[str, _Stream] = field(default_factory=dict)


class SerialAppends:
    """Implements `backend.Appends`: each batch when its acknowledgement is asked for."""

    def __init__(
        self,
        append: Callable[[StoredBatch, int | None, str | None], Awaitable[AppendAck]],
    ) -> None:
        self._append = append
        self._put: deque[tuple[StoredBatch, int | None, str | None]] = deque()

    def put(self, batch: StoredBatch, match_seq_num: int | None, fencing_token: str | None) -> None:
        self._put.append((batch, match_seq_num, fencing_token))

    async def next_ack(self) -> AppendAck:
        return await self._append(*self._put.popleft())

    def close(self) -> None:
        self._put.clear()


def repeatable(method: F) -> F:
    """A write of a MemoryBackend that is answered once for each key, as the cluster does it."""

    @wraps(method)
    async def once(
        self: MemoryBackend, *arguments: Any, request_key: bytes = b"", **named: Any
    ) -> Any:
        outcomes = self._outcomes
        if request_key in outcomes:
            kept = outcomes[request_key]
            if isinstance(kept, ServiceError):
                raise kept
            if isinstance(kept, AppendAck):
                kept = replace(kept, is_repeated=True)
            return kept
        try:
            outcome = await method(self, *arguments, **named)
        except ServiceError as refusal:
            if request_key and is_final_refusal(refusal):
                outcomes[request_key] = refusal
            raise
        if request_key:
            outcomes[request_key] = outcome
        return outcome

    return cast(F, once)


class MemoryBackend:
    """Deletion is immediate; retention is not applied."""

    def __init__(self, clock: Clock, locations: Sequence[Location] = LOCATIONS_DEFAULT) -> None:
        self._clock = clock
        self._basins: dict[str, _Basin] = {}
        self._locations = list(locations)
        self._default_location = locations[0]
        self._outcomes: dict[bytes, Any] = {}

    async def locations(self) -> tuple[list[Location], Location]:
        return self._locations, self._default_location

    @repeatable
    async def set_default_location(
        self,
        name: str,
        *,
        request_key: bytes = b"",
    ) -> Location:
        self._default_location = self._location(name)
        return self._default_location

    def _location(self, name: str) -> Location:
        for location in self._locations:
            if location.name == name:
                return location
        raise InvalidError("there is no such location")

    @repeatable
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
        existing = self._basins.get(name)
        if existing is None:
            if (replication_factor or 0) > NODES:
                raise InvalidError(f"{NODES} nodes take replicas")
            place = self._default_location if location is None else self._location(location)
            info = BasinInfo(name, self._clock.wall_ms(), None, place.name)
            self._basins[name] = _Basin(info, config, creation_hash, replication_factor or NODES)
            return ProvisionedBasin(info)
        if creation_hash and creation_hash == existing.creation_hash:
            return ProvisionedBasin(existing.info, Provision.NOOP)
        raise AlreadyExistsError

    @repeatable
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
        existing = self._basins.get(name)
        if existing is None:
            initial = with_storage_class(config, storage_class)
            return await self.create_basin(
                name, initial, location=location, replication_factor=replication_factor
            )
        if replication_factor not in (None, existing.replicas):
            raise InvalidError(f"the basin has {existing.replicas} replicas")
        if location not in (None, existing.info.location):
            raise InvalidError("the location of a basin cannot be changed")
        before = existing.config
        existing.config = ensure_basin(before, config, storage_class)
        outcome = Provision.NOOP if existing.config == before else Provision.UPDATED
        return ProvisionedBasin(existing.info, outcome)

    @repeatable
    async def reconfigure_basin(
        self,
        name: str,
        patch: BasinPatch,
        *,
        request_key: bytes = b"",
    ) -> BasinConfig:
        basin = self._basin(name)
        basin.config = patch_basin(basin.config, patch)
        return basin.config

    async def list_basins(
        self, prefix: str, start_after: str, limit: int
    ) -> tuple[list[BasinInfo], bool]:
        names = _page(self._basins, prefix, start_after)
        return [self._basins[name].info for name in names[:limit]], len(names) > limit

    async def get_basin_config(self, name: str) -> BasinConfig:
        return self._basin(name).config

    @repeatable
    async def delete_basin(
        self,
        name: str,
        *,
        request_key: bytes = b"",
    ) -> None:
        self._basin(name)
        del self._basins[name]

    @repeatable
    async def create_stream(
        self,
        basin: str,
        stream: str,
        new: NewStream,
        creation_hash: bytes = b"",
        *,
        request_key: bytes = b"",
    ) -> ProvisionedStream:
        owner = self._basin(basin)
        existing = owner.streams.get(stream)
        if existing is None:
            info = StreamInfo(stream, self._clock.wall_ms(), None)
            config = new.resolved(owner.config.default_stream_config)
            owner.streams[stream] = _Stream(info, config, creation_hash)
            return ProvisionedStream(info)
        if creation_hash and creation_hash == existing.creation_hash:
            return ProvisionedStream(existing.info, Provision.NOOP)
        raise AlreadyExistsError

    @repeatable
    async def ensure_stream(
        self,
        basin: str,
        stream: str,
        new: NewStream,
        *,
        request_key: bytes = b"",
    ) -> ProvisionedStream:
        owner = self._basin(basin)
        existing = owner.streams.get(stream)
        if existing is None:
            return await self.create_stream(basin, stream, new)
        before = existing.config
        existing.config = new.resolved(owner.config.default_stream_config)
        outcome = Provision.NOOP if existing.config == before else Provision.UPDATED
        return ProvisionedStream(existing.info, outcome)

    @repeatable
    async def reconfigure_stream(
        self,
        basin: str,
        stream: str,
        patch: StreamPatch,
        storage_class_default: str,
        *,
        request_key: bytes = b"",
    ) -> StreamConfig:
        target = self._stream(basin, stream)
        target.config = patch_stream(
            target.config,
            self._basin(basin).config.default_stream_config,
            patch,
            storage_class_default=storage_class_default,
        )
        return target.config

    async def auto_create_stream(
        self, basin: str, stream: str, new: NewStream, *, on_read: bool
    ) -> None:
        owner = self._basin(basin)
        config = owner.config
        if stream in owner.streams:
            return
        if not (config.create_stream_on_read if on_read else config.create_stream_on_append):
            raise StreamNotFoundError
        await self.create_stream(basin, stream, new)

    async def list_streams(
        self, basin: str, prefix: str, start_after: str, limit: int
    ) -> tuple[list[StreamInfo], bool]:
        streams = self._basin(basin).streams
        names = _page(streams, prefix, start_after)
        return [streams[name].info for name in names[:limit]], len(names) > limit

    async def get_stream_config(self, basin: str, stream: str) -> StreamConfig:
        return self._stream(basin, stream).config

    async def describe_stream(self, basin: str, stream: str) -> StreamIdentity:
        """All streams are plain here."""
        self._stream(basin, stream)
        return StreamIdentity(0, 0, None)

    @repeatable
    async def delete_stream(
        self,
        basin: str,
        stream: str,
        *,
        request_key: bytes = b"",
    ) -> None:
        self._stream(basin, stream)
        del self._basin(basin).streams[stream]

    @repeatable
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
        target = self._stream(basin, stream)
        if fencing_token is not None and fencing_token != target.fencing_token:
            raise FencingTokenMismatchError(target.fencing_token)
        if match_seq_num is not None and match_seq_num != target.tail.seq_num:
            raise SeqNumMismatchError(target.tail.seq_num)
        placement = place(
            batch,
            first_seq_num=target.tail.seq_num,
            base_timestamp_ms=target.tail.timestamp_ms,
            config=target.config,
            now_ms=self._clock.wall_ms(),
        )
        target.batches.append(SequencedBatch(placement, batch.records))
        target.tail = Position(placement.end_seq_num, placement.last_timestamp_ms)
        for command in batch.commands:
            if command.kind is CommandKind.FENCE:
                target.fencing_token = command.token
            else:
                furthest = placement.first_seq_num + command.offset + 1
                target.trim_point = max(target.trim_point, min(command.trim_point, furthest))
        target.grown.set()
        target.grown = asyncio.Event()
        start = Position(placement.first_seq_num, TimestampMs(_stamps(target.batches[-1])[0]))
        return AppendAck(start, target.tail, target.tail)

    def open_appends(self, basin: str, stream: str) -> SerialAppends:
        return SerialAppends(
            lambda batch, match, token: self.append(basin, stream, batch, match, token)
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
        target = self._stream(basin, stream)
        seq_num = max(_resolve_start(target, start), target.trim_point)
        if refuse_at_tail and seq_num == target.tail.seq_num and wait_ms == 0:
            raise PastTailError(target.tail.seq_num, target.tail.timestamp_ms)
        if seq_num == target.tail.seq_num and wait_ms > 0:
            try:
                async with asyncio.timeout(min(wait_ms, WAIT_MS_MAX) / 1000):
                    await target.grown.wait()
            except TimeoutError:
                pass
        return _scan(target, seq_num, bounds)

    async def check_tail(self, basin: str, stream: str) -> Position:
        return self._stream(basin, stream).tail

    def _basin(self, name: str) -> _Basin:
        if name not in self._basins:
            raise BasinNotFoundError
        return self._basins[name]

    def _stream(self, basin: str, stream: str) -> _Stream:
        streams = self._basin(basin).streams
        if stream not in streams:
            raise StreamNotFoundError
        return streams[stream]


def _scan(target: _Stream, seq_num: int, bounds: ReadBounds) -> ReadResult:
    found: list[SequencedBatch] = []
    metered_bytes = 0
    behind = [b for b in target.batches if b.placement.end_seq_num > seq_num]
    for batch in behind:
        if bounds.count is not None and bounds.count <= sum(
            b.placement.record_count for b in found
        ) - (seq_num - found[0].placement.first_seq_num if found else 0):
            break
        if metered_bytes >= READ_BYTES_MAX:
            break
        found.append(batch)
        metered_bytes += batch.placement.metered_bytes
    return ReadResult(seq_num, tuple(found), target.tail, len(found) < len(behind))


def _resolve_start(target: _Stream, start: ReadStart) -> int:
    tail = target.tail
    match start.kind:
        case StartKind.FIRST_RETAINED:
            return target.trim_point
        case StartKind.TAIL_OFFSET:
            return max(0, tail.seq_num - start.value)
        case StartKind.SEQ_NUM:
            if start.value <= tail.seq_num:
                return start.value
        case StartKind.TIMESTAMP:
            for batch in target.batches:
                for offset, timestamp_ms in enumerate(_stamps(batch)):
                    if timestamp_ms >= start.value:
                        return batch.placement.first_seq_num + offset
            if start.value <= tail.timestamp_ms:
                return tail.seq_num
    if start.clamp:
        return tail.seq_num
    raise PastTailError(tail.seq_num, tail.timestamp_ms)


def _stamps(batch: SequencedBatch) -> list[int]:
    stored = pb.AppendInput.FromString(batch.records).records
    return stamp(
        batch.placement, [r.timestamp if r.HasField("timestamp") else None for r in stored]
    )


def _page(names: Iterable[str], prefix: str, start_after: str) -> list[str]:
    chosen = [n for n in names if n.startswith(prefix) and n.encode() > start_after.encode()]
    return sorted(chosen, key=str.encode)
