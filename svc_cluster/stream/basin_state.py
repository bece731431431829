"""One basin's applied state on one replica: what is in the store, decoded as far as it is needed.

Only `apply.commit` changes it, after the store holds the write set. Values are immutable, so what
a caller was given stays as it was.
"""

from __future__ import annotations

from itertools import islice

from svc_cluster.base.ids import LogIndex, StreamId, Term
from svc_cluster.base.key_reader import KeyReader
from svc_cluster.base.limits import STREAM_STATES_CACHED_MAX
from svc_cluster.model.idempotency_table import Expired, IdempotencyRow, IdempotencyTable
from svc_cluster.stream import keys, rows
from svc_cluster.stream.basin_usage import BasinUsage
from svc_cluster.stream.rows import (
    FIRST_STREAM_ID,
    AppliedRow,
    BasinHead,
    StreamEntry,
    StreamState,
)


class BasinState:
    """Reads what it needs from `reader` and keeps the states of the streams used last."""

    def __init__(
        self,
        reader: KeyReader,
        *,
        cached_max: int = STREAM_STATES_CACHED_MAX,
    ) -> None:
        assert cached_max > 0, "the stream in use must fit"
        self.reader = reader
        self._cached_max = cached_max
        value = reader.get(keys.APPLIED_KEY)
        self._applied = AppliedRow() if value is None else rows.decode_applied(value)
        value = reader.get(keys.BASIN_KEY)
        self._basin = None if value is None else rows.decode_basin(value)
        self.idempotency = IdempotencyTable(
            reader, keys.IDEMPOTENCY_ROWS, keys.IDEMPOTENCY_TIMES, keys.IDEMPOTENCY_COUNT_KEY
        )
        """The idempotency keys of requests and their answers."""
        self.usage = BasinUsage(reader, cached_max=cached_max)
        """What was counted and is stored; for whoever applies and whoever asks for it."""
        # Least recently used first. Every cached stream has its name in `_ids`, and only those.
        self._streams: dict[StreamId, StreamState] = {}
        self._ids: dict[str, StreamId] = {}
        self._stream_count: int | None = None
        """None: nobody has asked yet."""

    @property
    def applied_index(self) -> LogIndex:
        """The last log entry whose effects are in here; 0 before the first."""
        return self._applied.applied_index

    @property
    def applied_term(self) -> Term:
        """The term of that entry."""
        return self._applied.term

    @property
    def digest(self) -> int:
        """64 bits over everything applied so far: equal on replicas of equal applied index."""
        return self._applied.digest

    @property
    def basin(self) -> BasinHead | None:
        """None until the bootstrap entry is applied."""
        return self._basin

    @property
    def sealed(self) -> bool:
        return self._basin is not None and self._basin.sealed_at_ms is not None

    def stream(self, stream_id: StreamId) -> StreamState | None:
        """The stream, also while it is being deleted; None once it is purged."""
        cached = self._streams.pop(stream_id, None)
        if cached is not None:
            self._streams[stream_id] = cached
            return cached
        value = self.reader.get(keys.stream_key(stream_id))
        if value is None:
            return None
        stream = rows.decode_stream(stream_id, value)
        self._keep(stream)
        return stream

    def stream_by_name(self, name: str) -> StreamState | None:
        """The stream of that name, also while it is being deleted."""
        stream_id = self._ids.get(name)
        if stream_id is None:
            value = self.reader.get(keys.name_key(name))
            if value is None:
                return None
            stream_id = rows.decode_entry(name, value).stream_id
        stream = self.stream(stream_id)
        assert stream is not None, "a name leads to a stream until both are purged"
        return stream

    def idempotency_row(self, key: bytes) -> IdempotencyRow | None:
        return self.idempotency.find(key)

    def idempotency_keys_before(self, before_ms: int, at_most: int) -> list[Expired]:
        return self.idempotency.before(before_ms, at_most)

    @property
    def stream_count(self) -> int:
        """Return the number of all streams there are, those that are being deleted among them.
        Where usage is counted, so are they; otherwise they are counted here once, and then kept."""
        if self.usage.reading is not None:
            return self.usage.reading[1].streams
        if self._stream_count is None:
            self._stream_count = sum(1 for _ in self.reader.scan(*keys.name_range("", "")))
        return self._stream_count

    def list_streams(
        self, prefix: str, start_after: str, limit: int
    ) -> tuple[list[StreamEntry], bool]:
        """Return streams whose name begins with `prefix` and comes behind `start_after`, and
        whether there are more. They are in byte order, at most `limit` (at least 1); an empty
        `start_after` begins with the first."""
        assert limit > 0, "a page holds at least one stream"
        start, end = keys.name_range(prefix, start_after)
        if start >= end:
            return [], False
        pairs = list(islice(self.reader.scan(start, end), limit + 1))
        page = [rows.decode_entry(keys.name_of(key), value) for key, value in pairs[:limit]]
        return page, len(pairs) > limit

    def take_over(
        self,
        applied: AppliedRow,
        basin: BasinHead | None,
        streams: dict[StreamId, StreamState | None],
    ) -> None:
        """The store holds these changes now (`basin` None: unchanged). For `apply.commit` only."""
        self._applied = applied
        if self._stream_count is not None:
            first = FIRST_STREAM_ID if self._basin is None else self._basin.next_stream_id
            made = 0 if basin is None else basin.next_stream_id - first
            purged = sum(1 for stream in streams.values() if stream is None)
            self._stream_count += made - purged
        if basin is not None:
            self._basin = basin
        for stream_id, stream in streams.items():
            previous = self._streams.pop(stream_id, None)
            if previous is not None:
                del self._ids[previous.name]
            if stream is not None:
                self._keep(stream)

    def _keep(self, stream: StreamState) -> None:
        self._streams[stream.stream_id] = stream
        self._ids[stream.name] = stream.stream_id
        if len(self._streams) > self._cached_max:
            oldest = self._streams.pop(next(iter(self._streams)))
            del self._ids[oldest.name]
