"""One replica's log as memory has it, and what must reach the disk to make that true.

Every change is recorded as a log operation, in order. `take` seals what was recorded into a
numbered batch; `mark_durable` says that the batches up to a number are on the disk. The view
performs nothing and must not be asked what is committed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from itertools import accumulate

from svc_cluster.base.ids import LogIndex, NodeId, Term
from svc_cluster.base.log_ops import (
    AppendEntries,
    LogEntry,
    LogOp,
    RecoveredLog,
    SetCommit,
    SetHardState,
    TrimPrefix,
    TruncateSuffix,
)
from svc_cluster.raft.group import PAYLOAD_HEAD, EngineFault
from svc_cluster.raft.seal import SEAL_HEAD


@dataclass(slots=True)
class _LogBatch:
    number: int
    ordinal: int
    last_index: int
    """Last entry of this batch or before it that is still in the log as this batch wrote it."""


class LogView:
    """Entries `base_index + 1 ..= last_index`, the hard state and what of them is durable."""

    def __init__(self, recovered: RecoveredLog, commit_index: LogIndex) -> None:
        """Everything in `recovered` is durable. Raises EngineFault for a log in which something
        stands behind the seal of its configuration."""
        begun = recovered.configuration
        self._begun_index = begun.seal_index if begun is not None else LogIndex(0)
        self.seal_index: LogIndex | None = None
        """Where the entry stands that ends this configuration, committed or not; None: nowhere."""
        self.base_index = recovered.base_index
        self.base_term = recovered.base_term
        self.entries: list[LogEntry] = list(recovered.entries)
        # running sums, so that nobody adds up the whole log
        self._forgotten_bytes = 0
        """Payload of the entries that were in memory and are behind the base now."""
        self._ends = list(accumulate(len(entry.payload) for entry in self.entries))
        """For each entry: the payload of all up to it, with what is forgotten."""

        self.term = max(recovered.term, self.last_term)
        self.voted_for = recovered.voted_for if self.term == recovered.term else None
        self.commit_index = commit_index
        self.ordinal = 0
        """Number of operations recorded so far; a message that waits for the disk names one."""

        self.hard_ordinal = 0
        """The `ordinal` of the latest change of the hard state."""

        self.durable_ordinal = 0
        self.durable_index = recovered.last_index
        self._ops: list[LogOp] = []
        self._run: list[LogEntry] = []
        self._batches: deque[_LogBatch] = deque()
        for expected, entry in enumerate(self.entries, start=self.base_index + 1):
            assert entry.log_index == expected, "recovered entries must be consecutive"
            self._look_for_seal(entry.payload, entry.log_index)

    @property
    def last_index(self) -> LogIndex:
        return LogIndex(self.base_index + len(self.entries))

    @property
    def byte_count(self) -> int:
        """Payload of the entries in memory."""
        return self._end - self._forgotten_bytes

    @property
    def _end(self) -> int:
        return self._ends[-1] if self._ends else self._forgotten_bytes

    @property
    def last_term(self) -> Term:
        return self.entries[-1].term if self.entries else self.base_term

    @property
    def hard_state_durable(self) -> bool:
        return self.durable_ordinal >= self.hard_ordinal

    def term_at(self, log_index: int) -> Term | None:
        """None outside `[base_index, last_index]`."""
        if log_index == self.base_index:
            return self.base_term
        slot = log_index - self.base_index - 1
        return self.entries[slot].term if 0 <= slot < len(self.entries) else None

    def index_keeping_bytes(self, size: int) -> LogIndex:
        """Return the highest index such that the entries behind it have at least `size` bytes.
        Return the base when all of them together have fewer."""
        return LogIndex(self.base_index + bisect_right(self._ends, self._end - size))

    def first_index_of_term(self, log_index: int, floor: int) -> LogIndex:
        """Return the lowest index from which on every entry up to `log_index` has the term of the
        entry at `log_index`. It is at or above `floor`."""
        term = self.term_at(log_index)
        lowest = max(floor, self.base_index + 1)
        while log_index > lowest and self.term_at(log_index - 1) == term:
            log_index -= 1
        return LogIndex(log_index)

    def append(self, payload: bytes, log_index: int, term: int) -> None:
        assert log_index == self.last_index + 1, "an append must follow the last entry"
        assert term >= self.last_term, "terms in a log never fall"
        if self.seal_index is not None or payload[:1] == SEAL_HEAD:
            self._look_for_seal(payload, log_index)
        entry = LogEntry(LogIndex(log_index), Term(term), payload)
        self.entries.append(entry)
        self._ends.append(self._end + len(payload))
        self._run.append(entry)
        self.ordinal += 1

    def truncate_from(self, first_removed: int) -> None:
        """Remove the entries at and above `first_removed`, which must be behind the base."""
        assert self.base_index < first_removed <= self.last_index, "nothing to remove there"
        first = first_removed - self.base_index - 1
        del self.entries[first:]
        del self._ends[first:]
        last_kept = LogIndex(first_removed - 1)
        if self.seal_index is not None and self.seal_index > last_kept:
            self.seal_index = None
        self.durable_index = min(self.durable_index, last_kept)
        for batch in self._batches:
            batch.last_index = min(batch.last_index, last_kept)
        self._record(TruncateSuffix(LogIndex(first_removed)))

    def trim_to(self, log_index: LogIndex) -> None:
        """Forget the entries up to and including `log_index`; only its term is kept."""
        term = self.term_at(log_index)
        assert term is not None, "the new base must be in the log"
        assert log_index <= self.durable_index, "only what is durable is in the state store"
        assert self.seal_index is None or log_index < self.seal_index, "the end stays known"
        count = log_index - self.base_index
        if count:
            self._forgotten_bytes = self._ends[count - 1]
        del self.entries[:count]
        del self._ends[:count]
        self.base_index = log_index
        self.base_term = term
        self._record(TrimPrefix(log_index, term))

    def set_hard_state(self, term: int, voted_for: int | None) -> None:
        assert term >= self.term, "a term never falls"
        vote = None if voted_for is None else NodeId(voted_for)
        if (term, vote) == (self.term, self.voted_for):
            return
        self.term = Term(term)
        self.voted_for = vote
        self._record(SetHardState(self.term, vote))
        self.hard_ordinal = self.ordinal

    def seal(self, applied_index: LogIndex) -> LogEntry | None:
        """The entry that ends this configuration, once it is applied."""
        if self.seal_index is None or applied_index < self.seal_index:
            return None
        return self.entries[self.seal_index - self.base_index - 1]

    def capped(self, commit_index: LogIndex) -> LogIndex:
        """What is committed of the group: nothing behind the seal, where only no-ops can stand."""
        return commit_index if self.seal_index is None else min(commit_index, self.seal_index)

    def _look_for_seal(self, payload: bytes, log_index: int) -> None:
        if log_index <= self._begun_index:
            return
        if self.seal_index is None:
            if payload[:1] == SEAL_HEAD:
                self.seal_index = LogIndex(log_index)
        elif payload[:1] in (PAYLOAD_HEAD, SEAL_HEAD):
            raise EngineFault(f"entry {log_index} stands behind the seal at {self.seal_index}")

    def set_commit(self, commit_index: int) -> None:
        capped = self.capped(LogIndex(commit_index))
        if capped != self.commit_index:
            self.commit_index = capped
            self._record(SetCommit(self.commit_index))

    def take(self, number: int) -> list[LogOp]:
        """Seal what was recorded since the last call as batch `number`; may be empty."""
        self._end_run()
        ops = self._ops
        if not ops:
            return []
        self._ops = []
        self._batches.append(_LogBatch(number, self.ordinal, self.last_index))
        return ops

    def has_ops(self) -> bool:
        return bool(self._ops or self._run)

    def mark_durable(self, number: int) -> bool:
        """Batches up to `number` are on the disk. Returns whether that was news."""
        news = False
        while self._batches and self._batches[0].number <= number:
            batch = self._batches.popleft()
            self.durable_ordinal = batch.ordinal
            self.durable_index = LogIndex(max(self.durable_index, batch.last_index))
            news = True
        assert self.durable_index <= self.last_index, "durable entries are entries of the log"
        return news

    def release(self) -> None:
        """Let go of the entries in memory: the log ends where it ended and cannot be read or
        changed any more."""
        self.base_term, self.base_index = self.last_term, self.last_index
        self.entries, self._run, self._ops, self._ends = [], [], [], []
        self._forgotten_bytes = 0

    def _record(self, op: LogOp) -> None:
        self._end_run()
        self._ops.append(op)
        self.ordinal += 1

    def _end_run(self) -> None:
        if self._run:
            self._ops.append(AppendEntries(tuple(self._run)))
            self._run = []
