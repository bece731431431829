"""How much a leader has sent to each peer that is not acknowledged yet."""

from __future__ import annotations

from collections import deque

from svc_cluster.base.ids import LogIndex, NodeId


class Flow:
    """Bytes of entries in flight per peer; a full peer is sent only heartbeats."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._sent: dict[NodeId, deque[tuple[LogIndex, int]]] = {}
        self._bytes: dict[NodeId, int] = {}

    def sent(self, peer: NodeId, last_index: LogIndex, byte_count: int) -> None:
        self._sent.setdefault(peer, deque()).append((last_index, byte_count))
        self._bytes[peer] = self._bytes.get(peer, 0) + byte_count

    def acked(self, peer: NodeId, log_index: LogIndex) -> None:
        window = self._sent.get(peer)
        while window and window[0][0] <= log_index:
            self._bytes[peer] -= window.popleft()[1]

    def forget(self, peer: NodeId) -> None:
        """What was under way is lost, or will be sent again."""
        self._sent.pop(peer, None)
        self._bytes.pop(peer, None)

    def clear(self) -> None:
        self._sent.clear()
        self._bytes.clear()

    def is_full(self, peer: NodeId) -> bool:
        return self._bytes.get(peer, 0) >= self._bytes_max
