"""How much a leader has sent to each peer that is not acknowledged yet."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from svc_cluster.base.ids import LogIndex, NodeId


@dataclass(slots=True)
class _Window:
    """A window has the messages that one peer was sent, and their sums. Of each message it has the
    last entry, the bytes and the number of entries."""

    messages: deque[tuple[LogIndex, int, int]] = field(default_factory=deque)
    bytes: int = 0
    entries: int = 0


class Flow:
    """Entries in flight per peer, and their bytes; a peer that is full of either is sent only
    heartbeats."""

    def __init__(self, bytes_max: int, entries_max: int) -> None:
        self._bytes_max = bytes_max
        self._entries_max = entries_max
        self._windows: dict[NodeId, _Window] = {}

    def sent(self, peer: NodeId, last_index: LogIndex, byte_count: int, entry_count: int) -> None:
        window = self._windows.setdefault(peer, _Window())
        window.messages.append((last_index, byte_count, entry_count))
        window.bytes += byte_count
        window.entries += entry_count

    def acked(self, peer: NodeId, log_index: LogIndex) -> None:
        window = self._windows.get(peer)
        while window is not None and window.messages and window.messages[0][0] <= log_index:
            _, byte_count, entry_count = window.messages.popleft()
            window.bytes -= byte_count
            window.entries -= entry_count

    def forget(self, peer: NodeId) -> None:
        """What was under way is lost, or will be sent again."""
        self._windows.pop(peer, None)

    def clear(self) -> None:
        self._windows.clear()

    def is_full(self, peer: NodeId) -> bool:
        window = self._windows.get(peer)
        return window is not None and (
            window.bytes >= self._bytes_max or window.entries >= self._entries_max
        )
