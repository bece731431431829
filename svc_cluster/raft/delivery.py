"""Which entries are handed out to be applied: once each, in order, committed and durable here."""

from __future__ import annotations

from svc_cluster.base.ids import LogIndex
from svc_cluster.base.log_ops import LogEntry
from svc_cluster.raft.log_view import LogView


class Delivery:
    """How far the log has been handed out."""

    def __init__(self, log: LogView, applied_index: LogIndex, bytes_max: int) -> None:
        """Begins behind `applied_index`. `bytes_max`: of payload handed out at one time, beside the
        entry with which it is reached."""
        self._log = log
        self._bytes_max = bytes_max
        self.delivered = applied_index
        """The last entry that was handed out."""

    def is_behind(self, commit_index: LogIndex) -> bool:
        """Whether anything more could be handed out."""
        return self.delivered < self._deliverable(commit_index)

    def _deliverable(self, commit_index: LogIndex) -> LogIndex:
        """Committed, and durable here."""
        return LogIndex(min(commit_index, self._log.durable_index))

    def take(self, commit_index: LogIndex) -> list[LogEntry]:
        """The next entries, none where there are no more."""
        end = self._deliverable(commit_index)
        if end <= self.delivered:
            return []
        first_slot = self.delivered - self._log.base_index
        assert first_slot >= 0, "what was not handed out is never trimmed"
        committed: list[LogEntry] = []
        byte_count = 0
        for entry in self._log.entries[first_slot : end - self._log.base_index]:
            committed.append(entry)
            byte_count += len(entry.payload)
            if byte_count >= self._bytes_max:
                break
        self.delivered = committed[-1].log_index
        return committed
