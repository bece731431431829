"""What the handlers need of the cluster. `replica_client.py` is the implementation: it finds
leaders, follows their hints, and retries only what had no effect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from svc_cluster.base.ids import TimestampMs
from svc_cluster.model.read_bounds import ReadBounds, ReadStart
from svc_cluster.model.record import AppendAck, Position, SequencedBatch, StoredBatch
from svc_cluster.model.stream_config import BasinConfig, PartialStreamConfig, StreamConfig


@dataclass(frozen=True, slots=True)
class BasinInfo:
    name: str
    created_at_ms: TimestampMs
    deleted_at_ms: TimestampMs | None
    location: str | None = None


@dataclass(frozen=True, slots=True)
class StreamInfo:
    name: str
    created_at_ms: TimestampMs
    deleted_at_ms: TimestampMs | None
    cipher: str | None = None


@dataclass(frozen=True, slots=True)
class Created:
    """`existed`: an idempotent replay found the resource; nothing was done."""

    info: BasinInfo | StreamInfo
    existed: bool = False


@dataclass(frozen=True, slots=True)
class ReadResult:
    """Whole batches: the first may begin before `start_seq_num` and the last may go beyond the
    bounds; the gateway cuts at records. `batches` is empty when nothing was found by the time the
    wait was over. `tail` is linearizable as of the answer. `may_have_more`: the node stopped before
    the tail, at the bounds or at its own size limit (about 1 MiB); without batches, the next record
    is beyond the bounds. `incarnation` differs between streams that had the name one after another.
    """

    start_seq_num: int
    batches: tuple[SequencedBatch, ...]
    tail: Position
    may_have_more: bool
    incarnation: tuple[int, int] = (0, 0)


class Backend(Protocol):
    """All calls raise ServiceError subclasses (base/errors.py) and nothing else."""

    async def create_basin(self, name: str, config: BasinConfig) -> Created:
        """AlreadyExistsError, BasinDeletionPendingError."""
        ...

    async def list_basins(
        self, prefix: str, start_after: str, limit: int
    ) -> tuple[list[BasinInfo], bool]:
        """Names in byte order, exclusive of `start_after`; and whether more match beyond."""
        ...

    async def get_basin_config(self, name: str) -> BasinConfig: ...

    async def delete_basin(self, name: str) -> None: ...

    async def create_stream(
        self, basin: str, stream: str, config: PartialStreamConfig | None
    ) -> Created: ...

    async def list_streams(
        self, basin: str, prefix: str, start_after: str, limit: int
    ) -> tuple[list[StreamInfo], bool]: ...

    async def get_stream_config(self, basin: str, stream: str) -> StreamConfig: ...

    async def delete_stream(self, basin: str, stream: str) -> None: ...

    async def append(
        self,
        basin: str,
        stream: str,
        batch: StoredBatch,
        match_seq_num: int | None,
        fencing_token: str | None,
    ) -> AppendAck:
        """SeqNumMismatchError, FencingTokenMismatchError, DeadlineError, UnavailableError..."""
        ...

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
        """Read once. With `wait_ms` above 0 and nothing to return yet, wait that long for records
        (capped by the node at 5 s a call: the caller calls again with the same `start_seq_num`).
        Raises PastTailError for a start beyond the tail (and, with `refuse_at_tail`, at it)."""
        ...

    async def check_tail(self, basin: str, stream: str) -> Position: ...
