"""Changes on top of a view: what a basin will be once they are applied."""

from __future__ import annotations

from svc_cluster.base.ids import StreamId
from svc_cluster.model.idempotency_table import Expired, IdempotencyRow
from svc_cluster.stream.effects import Change, View
from svc_cluster.stream.journal import Journal
from svc_cluster.stream.rows import BasinHead, StreamState


class Overlay:
    """A view of its own, made of a base and the changes adopted since. The base is not touched."""

    __slots__ = (
        "_base",
        "basin_changed",
        "idempotency_keys_expired",
        "idempotency_rows",
        "ids",
        "journal",
        "streams",
    )

    def __init__(self, base: View, journal: Journal | None = None) -> None:
        """`journal`: has what was adopted since somebody began it."""
        self._base = base
        self.journal = Journal() if journal is None else journal
        self.basin_changed: BasinHead | None = None
        self.streams: dict[StreamId, StreamState | None] = {}
        """Changed streams in order of their first change; None: purged."""
        self.ids: dict[str, StreamId | None] = {}
        """Names that were given (to that stream) or freed (None)."""
        self.idempotency_rows: dict[bytes, IdempotencyRow] = {}
        """Those added, by request key."""
        self.idempotency_keys_expired: dict[bytes, int] = {}
        """Those removed, by request key: when each was decided."""

    @property
    def basin(self) -> BasinHead | None:
        return self.basin_changed if self.basin_changed is not None else self._base.basin

    def stream(self, stream_id: StreamId) -> StreamState | None:
        if stream_id in self.streams:
            return self.streams[stream_id]
        return self._base.stream(stream_id)

    def stream_by_name(self, name: str) -> StreamState | None:
        if name in self.ids:
            stream_id = self.ids[name]
            return None if stream_id is None else self.stream(stream_id)
        found = self._base.stream_by_name(name)
        return None if found is None else self.stream(found.stream_id)

    def idempotency_row(self, key: bytes) -> IdempotencyRow | None:
        added = self.idempotency_rows.get(key)
        if added is not None or key in self.idempotency_keys_expired:
            return added
        return self._base.idempotency_row(key)

    def idempotency_keys_before(self, before_ms: int, at_most: int) -> list[Expired]:
        """Return the keys of the base; one that was added here is too young."""
        expired = self.idempotency_keys_expired
        found = self._base.idempotency_keys_before(before_ms, at_most + len(expired))
        return [one for one in found if one[1] not in expired][:at_most]

    def adopt(self, change: Change) -> None:
        """Take over one command's effect."""
        put = self.journal.put
        if change.idempotency_row is not None:
            key, row = change.idempotency_row
            put(self.idempotency_rows, key, row)
        for decided_at_ms, key in change.expired:
            put(self.idempotency_keys_expired, key, decided_at_ms)
        if change.basin is not None:
            self.journal.set(self, "basin_changed", change.basin)
        after = change.after
        if after is not None:
            put(self.streams, after.stream_id, after)
            if change.before is None:
                put(self.ids, after.name, after.stream_id)
        elif change.before is not None:
            put(self.streams, change.before.stream_id, None)
            put(self.ids, change.before.name, None)

    def clear(self) -> None:
        self.journal.begin()
        self.basin_changed = None
        self.streams.clear()
        self.ids.clear()
        self.idempotency_rows.clear()
        self.idempotency_keys_expired.clear()
