"""When each stream is to be looked at again: to expire its records, to delete or to purge it."""

from __future__ import annotations

from heapq import heappop, heappush

from svc_cluster.base.ids import StreamId, TimestampMs


class Timetable:
    """One due time a stream, the earliest that was put. Costs O(log n) a change.

    A stream that was put again with an earlier time leaves its old place behind, which is skipped
    when it comes up.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[TimestampMs, StreamId]] = []
        self._due_ms: dict[StreamId, TimestampMs] = {}

    def __len__(self) -> int:
        return len(self._due_ms)

    def put(self, stream_id: StreamId, due_ms: TimestampMs) -> None:
        """Look at the stream at `due_ms`, or earlier if that was wanted before."""
        known = self._due_ms.get(stream_id)
        if known is None or due_ms < known:
            self._due_ms[stream_id] = due_ms
            heappush(self._heap, (due_ms, stream_id))

    def discard(self, stream_id: StreamId) -> None:
        self._due_ms.pop(stream_id, None)

    def clear(self) -> None:
        self._heap.clear()
        self._due_ms.clear()

    @property
    def next_due_ms(self) -> TimestampMs | None:
        """When something is due at the earliest; perhaps too early. None: nothing is."""
        return self._heap[0][0] if self._due_ms else None

    def pop_due(self, now_ms: TimestampMs) -> StreamId | None:
        """The stream that is overdue the longest, which is forgotten; None when none is due."""
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            due_ms, stream_id = heappop(heap)
            if self._due_ms.get(stream_id) == due_ms:
                del self._due_ms[stream_id]
                return stream_id
        return None
