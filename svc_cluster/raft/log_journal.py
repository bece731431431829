"""A `LogView` as PySyncObj wants a journal to be. It has the library's names for its methods, and
imports nothing of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from svc_cluster.base.log_ops import LogEntry
from svc_cluster.raft.log_view import LogView


class _Slice:
    """Entries of the log without copying them. Valid until the log changes."""

    __slots__ = ("_journal", "_range")

    def __init__(self, journal: LogJournal, slots: range) -> None:
        self._journal = journal
        self._range = slots

    def __len__(self) -> int:
        return len(self._range)

    def __getitem__(self, item: int | slice) -> Any:
        if isinstance(item, slice):
            return _Slice(self._journal, self._range[item])
        return self._journal[self._range[item]]

    def __iter__(self) -> Iterator[tuple[bytes, int, int]]:
        return (self._journal[slot] for slot in self._range)

    def log_entries(self) -> tuple[LogEntry, ...]:
        """The same as values of ours. The slice must not reach down to the base."""
        assert self._range.start > 0, "the base is not an entry"
        return tuple(self._journal.log.entries[self._range.start - 1 : self._range.stop - 1])


class LogJournal:
    """The log as the library wants it: never empty, slot 0 is the base.

    So a new group begins with an empty log behind (0, 0), alike on every node, and the library
    does not add the entry that it begins an empty journal with.
    """

    def __init__(self, log: LogView, append_entries_max: int) -> None:
        self.log = log
        self._append_entries_max = append_entries_max

    def add(self, command: bytes, idx: int, term: int) -> None:
        self.log.append(command, idx, term)

    def clear(self) -> None:
        raise AssertionError("the library's snapshots are not used")

    def deleteEntriesFrom(self, entryFrom: int) -> None:
        self.log.truncate_from(self.log.base_index + entryFrom)

    def deleteEntriesTo(self, entryTo: int) -> None:
        raise AssertionError("the library's compaction is not used")

    def __len__(self) -> int:
        return len(self.log.entries) + 1

    def __getitem__(self, item: int | slice) -> Any:
        entries = self.log.entries
        if item == -1 and entries:
            entry = entries[-1]
            return (entry.payload, entry.log_index, entry.term)
        if isinstance(item, slice):
            slots = range(len(entries) + 1)[item]
            if item.stop is None:
                # What follows upon a place is for a message, and the rest for the ones behind it; a
                # follower asks so only whether anything follows.
                slots = slots[: self._append_entries_max]
            return _Slice(self, slots)
        slot = item if item >= 0 else len(entries) + 1 + item
        if slot == 0:
            return (b"\x01", self.log.base_index, self.log.base_term)
        entry = entries[slot - 1]
        return (entry.payload, entry.log_index, entry.term)

    def setRaftCommitIndex(self, raftCommitIndex: int) -> None:
        self.log.set_commit(raftCommitIndex)

    def getRaftCommitIndex(self) -> int:
        return self.log.commit_index

    def setCurrentTerm(self, term: int, votedForNodeId: int | None) -> None:
        self.log.set_hard_state(term, votedForNodeId)

    def getCurrentTerm(self) -> int:
        return self.log.term

    def getVotedForNodeId(self) -> int | None:
        return self.log.voted_for

    def onOneSecondTimer(self) -> None:
        """The library's clock is the group's: nothing is due by it."""
