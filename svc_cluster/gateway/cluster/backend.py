"""What the handlers need of the cluster. `replica_client.py` is the implementation: it finds
leaders, follows their hints, and retries only what had no effect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from svc_cluster.base.ids import TimestampMs
from svc_cluster.base.tracing import TraceContext
from svc_cluster.model.access_token import AskedBy, AuthenticationOff
from svc_cluster.model.cipher import StreamIdentity
from svc_cluster.model.leader_stages import LeaderStages
from svc_cluster.model.location import Location
from svc_cluster.model.provision import Provision
from svc_cluster.model.read_bounds import ReadBounds, ReadStart
from svc_cluster.model.reconfigure import BasinPatch, StreamPatch
from svc_cluster.model.record import AppendAck, Position, SequencedBatch, StoredBatch
from svc_cluster.model.stream_config import BasinConfig, NewStream, StreamConfig


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
class ProvisionedBasin:
    info: BasinInfo
    outcome: Provision = Provision.CREATED


@dataclass(frozen=True, slots=True)
class ProvisionedStream:
    info: StreamInfo
    outcome: Provision = Provision.CREATED


@dataclass(frozen=True, slots=True)
class ReadResult:
    """A ReadResult has whole batches. The first may begin before `start_seq_num` and the last may
    go beyond the bounds; the gateway cuts at records. `batches` is empty when nothing was found by
    the time the wait was over. `tail` is linearizable as of the answer. `may_have_more`: the node
    stopped before the tail, at the bounds or at its own size limit (about 1 MiB); without batches,
    the next record is beyond the bounds. `incarnation` differs between streams that had the name
    one after another.
    """

    start_seq_num: int
    batches: tuple[SequencedBatch, ...]
    tail: Position
    may_have_more: bool
    incarnation: tuple[int, int] = (0, 0)
    cipher: str | None = None
    """With which the data records are sealed; None: they are plain."""
    shared_caching: bool = False
    """Caches that serve many may keep the records, as far as the stream's owner is concerned."""
    tail_is_of_now: bool = True
    """False where the records have waited here, and the tail may have moved meanwhile."""
    seen: int = 0
    """Nothing of the result is later than this entry of the basin's log; 0: it is not known."""


class AppendWatch(Protocol):
    """An AppendWatch wants to know of one append more than its outcome."""

    @property
    def trace(self) -> TraceContext | None:
        """Under which span nodes tell of it; None: under none."""
        ...

    def led(self, stages: LeaderStages) -> None:
        """The leader has done it, and says where its time went there."""
        ...


class Appends(Protocol):
    """The batches of one append session: appended in the order they were put, many under way at
    once. For one owner; `close` it in the end."""

    def put(self, batch: StoredBatch, match_seq_num: int | None, fencing_token: str | None) -> None:
        """Give the next batch to the cluster and return at once. How much may be under way is the
        owner's to bound."""
        ...

    async def next_ack(self) -> AppendAck:
        """Return the acknowledgement of the first batch put that has none yet; there must be one.
        Raises what `append` raises; then no batch behind it is there, or will be, unless it is
        there itself: which of them are is known only where the error says that it had no effect.
        All is over then but `close`."""
        ...

    def close(self) -> None:
        """Forget what is under way; it may still be appended, as far as all before it is."""
        ...


class Backend(Protocol):
    """All calls raise ServiceError subclasses (base/errors.py) and nothing else.

    `request_key`: of a write that its client may repeat (codec/request_key.py); empty: nothing is
    repeated. What came of the first request with a key is answered to every later one, and nothing
    is done again; RateLimitedError when there is no room to keep another idempotency key.
    """

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
        """Create a basin; one that was created with this hash (not empty) is fine. That is NOOP,
        its configuration may be another by now. `location` and `replication_factor` None: the
        default; `asked_by`: whose quotas count. AlreadyExistsError, BasinDeletionPendingError,
        QuotaError; InvalidError where there is no such location, or there are fewer nodes."""
        ...

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
        """Create the basin, or replace its configuration as a whole; `storage_class` as in
        `model.reconfigure.ensure_basin`. BasinDeletionPendingError; InvalidError where `location`
        or the factor is another than that of the basin, or cannot be had."""
        ...

    async def locations(self) -> tuple[list[Location], Location]:
        """All there are, at least one, and which of them is the default."""
        ...

    async def set_default_location(
        self,
        name: str,
        *,
        request_key: bytes = b"",
    ) -> Location:
        """The new default. InvalidError where there is no such location."""
        ...

    async def list_basins(
        self, prefix: str, start_after: str, limit: int
    ) -> tuple[list[BasinInfo], bool]:
        """Names in byte order, exclusive of `start_after`; and whether more match beyond."""
        ...

    async def get_basin_config(self, name: str) -> BasinConfig: ...

    async def reconfigure_basin(
        self,
        name: str,
        patch: BasinPatch,
        *,
        request_key: bytes = b"",
    ) -> BasinConfig:
        """The configuration after the change. BasinNotFoundError, BasinDeletionPendingError."""
        ...

    async def delete_basin(
        self,
        name: str,
        *,
        request_key: bytes = b"",
    ) -> None: ...

    async def create_stream(
        self,
        basin: str,
        stream: str,
        new: NewStream,
        creation_hash: bytes = b"",
        *,
        request_key: bytes = b"",
    ) -> ProvisionedStream:
        """Does what `create_basin` does, in a basin. StreamDeletionPendingError."""
        ...

    async def ensure_stream(
        self,
        basin: str,
        stream: str,
        new: NewStream,
        *,
        request_key: bytes = b"",
    ) -> ProvisionedStream:
        """Create the stream, or replace its configuration as a whole."""
        ...

    async def reconfigure_stream(
        self,
        basin: str,
        stream: str,
        patch: StreamPatch,
        storage_class_default: str,
        *,
        request_key: bytes = b"",
    ) -> StreamConfig:
        """The configuration after the change. StreamNotFoundError."""
        ...

    async def auto_create_stream(
        self, basin: str, stream: str, new: NewStream, *, on_read: bool
    ) -> None:
        """Returns when there is a stream. StreamNotFoundError where the basin's configuration
        wants none made by a read (`on_read`) or an append, UnavailableError when it is not known
        in time."""
        ...

    async def list_streams(
        self, basin: str, prefix: str, start_after: str, limit: int
    ) -> tuple[list[StreamInfo], bool]: ...

    async def get_stream_config(self, basin: str, stream: str) -> StreamConfig: ...

    async def describe_stream(self, basin: str, stream: str) -> StreamIdentity:
        """Which stream has the name. StreamNotFoundError, StreamDeletionPendingError."""
        ...

    async def delete_stream(
        self,
        basin: str,
        stream: str,
        *,
        request_key: bytes = b"",
    ) -> None: ...

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
        """Raises KeyRequiredError and SealMismatchError when the batch was not sealed for the
        stream that has the name. Raises SeqNumMismatchError, FencingTokenMismatchError,
        DeadlineError, UnavailableError... `watch` is told before the return, where the leader
        tells."""
        ...

    def open_appends(self, basin: str, stream: str) -> Appends:
        """Begin an append session. Asks nobody yet."""
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
        has_key: bool = False,
        committed: bool = False,
        behind: int = 0,
    ) -> ReadResult:
        """Read once. With `wait_ms` above 0 and nothing to return yet, wait that long for records
        (capped by the node at 5 s a call: the caller calls again with the same `start_seq_num`).
        Raises PastTailError for a start beyond the tail (and, with `refuse_at_tail`, at it), and
        KeyRequiredError at once where records are encrypted and the caller has no key (`has_key`).
        With `committed`, which needs a start by sequence number, nobody confirms that there is no
        more: records are committed, the tail beside them may have been one a moment ago. Those of a
        request that has `seen` something before, which is said as `behind`, may be had from any
        node of the basin, and are of no earlier moment.
        """
        ...

    async def check_tail(self, basin: str, stream: str) -> Position: ...
