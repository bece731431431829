"""What the WAL remembers of each group while it runs: enough to free segments, no payloads.

The writer and recovery tell a ledger about every frame in log order, so both agree on what pins a
segment. The ledger never touches the disk.
"""

from __future__ import annotations

from collections.abc import Callable

from svc_cluster.base.configuration import Configuration
from svc_cluster.base.ids import GroupId, LogIndex
from svc_cluster.storage.payload.entry_places import EntryPlaces
from svc_cluster.storage.payload.payload_frame import PayloadPlace, decode_place
from svc_cluster.storage.wal import wal_frame as fr
from svc_cluster.storage.wal.wal_frame import FrameBody, GroupState

Applied = Callable[[GroupId], LogIndex]
"""How far a group has applied its log."""


class GroupLedger:
    """One replica's place in the log.

    `spans` says which entries stand in which segment: `[segment_seq, last log_index in it]`, both
    ascending, without anything that was truncated, trimmed or superseded. `terms` are the runs of
    equal terms: `[first log_index, term]`.
    """

    __slots__ = (
        "base_index",
        "base_term",
        "commit_index",
        "configuration",
        "damaged",
        "flushed_index",
        "frame_count",
        "generation",
        "last_index",
        "places",
        "spans",
        "state_seq",
        "term",
        "terms",
        "voted_for",
    )

    def __init__(self) -> None:
        self.generation = 0
        self.base_index = 0
        self.base_term = 0
        self.last_index = 0
        self.term = 0
        self.voted_for: int | None = None
        self.commit_index = 0
        self.configuration: Configuration | None = None
        """None: the one that the group was created with."""
        self.damaged = False
        self.flushed_index = 0
        self.frame_count = 0
        """Frames of this replica ever written, modulo 2**32; the next frame's `group_seq`."""
        self.state_seq = 0
        """The segment of the newest frame from which the replica can be rebuilt but its entries."""
        self.places = EntryPlaces()
        self.spans: list[list[int]] = []
        self.terms: list[list[int]] = []

    def note(self, body: FrameBody, segment_seq: int) -> None:
        """Take in the replica's next frame, which stands in segment `segment_seq`."""
        match body.kind:
            case fr.ENTRY:
                self._append(body.log_index, body.term, segment_seq)
            case fr.ENTRY_AT:
                self._append(body.log_index, body.term, segment_seq)
                self.places.note(body.log_index, decode_place(body.payload))
            case fr.TRUNCATE:
                self._truncate(body.log_index)
            case fr.HARD_STATE:
                assert body.term >= self.term, "terms never go back"
                self.term, self.voted_for = body.term, fr.voted_for(body)
            case fr.COMMIT:
                self.commit_index = max(self.commit_index, body.log_index)
            case fr.TRIM:
                self.trim(body.log_index, body.term)
            case fr.SNAPSHOT:
                self._install(body)
            case fr.CREATE:
                self.generation = fr.generation_of(body)
                self.state_seq = segment_seq
            case fr.STATE:
                self.state_seq = segment_seq
            case fr.CONFIGURE:
                self._configure(body)
            case _:
                raise AssertionError(f"frame kind {body.kind} does not belong to a replica")

    def trim(self, log_index: int, term: int) -> None:
        """The log begins behind `log_index`, unless it already begins later."""
        if log_index <= self.base_index:
            return
        assert log_index <= self.last_index, "a log is trimmed only where it has entries"
        self.base_index, self.base_term = log_index, term
        self.places.trim(log_index)
        while self.spans and self.spans[0][1] <= log_index:
            self.spans.pop(0)
        while len(self.terms) > 1 and self.terms[1][0] <= log_index:
            self.terms.pop(0)

    def term_at(self, log_index: int) -> int:
        """Term of an entry in `[base_index, last_index]`."""
        if log_index == self.base_index:
            return self.base_term
        for first, term in reversed(self.terms):
            if first <= log_index:
                return term
        raise AssertionError("an entry behind the base has a term")

    def pins(self, segment_seq: int) -> bool:
        """Whether an entry in the oldest segment is not in the flushed state store yet."""
        return self.stands_in(segment_seq) and self.spans[0][1] > self.flushed_index

    def stands_in(self, segment_seq: int) -> bool:
        """Whether the oldest kept entries stand in segment `segment_seq`, the oldest one."""
        return bool(self.spans) and self.spans[0][0] <= segment_seq

    def leave(self, segment_seq: int) -> GroupState:
        """Move the base above every entry up to segment `segment_seq`; the state to write."""
        while self.stands_in(segment_seq):
            last = self.spans[0][1]
            assert last <= self.flushed_index, "only flushed entries are given up"
            self.trim(last, self.term_at(last))
        return self.state()

    def state(self) -> GroupState:
        return GroupState(
            self.generation,
            self.base_index,
            self.base_term,
            self.term,
            self.voted_for,
            self.commit_index,
            self.last_index,
            self.term_at(self.last_index),
            self.damaged,
            self.configuration,
        )

    def _append(self, log_index: int, term: int, segment_seq: int) -> None:
        assert log_index == self.last_index + 1, "entries are consecutive"
        self.last_index = log_index
        if self.spans and self.spans[-1][0] == segment_seq:
            self.spans[-1][1] = log_index
        else:
            self.spans.append([segment_seq, log_index])
        if not self.terms or self.terms[-1][1] != term:
            self.terms.append([log_index, term])

    def _truncate(self, first_removed: int) -> None:
        assert first_removed > self.base_index, "what is trimmed cannot be truncated"
        last = first_removed - 1
        if last >= self.last_index:
            return
        self.last_index = last
        self.places.truncate(first_removed)
        while self.spans:
            before = self.spans[-2][1] if len(self.spans) > 1 else self.base_index
            if before < last:
                self.spans[-1][1] = last
                break
            self.spans.pop()
        while self.terms and self.terms[-1][0] > last:
            self.terms.pop()

    def _configure(self, body: FrameBody) -> None:
        assert body.term >= self.term, "terms never go back"
        begun = fr.configuration_in(body)
        before = 0 if self.configuration is None else self.configuration.number
        assert begun.number > before, "configurations follow one another, and no frame begins 0"
        self._truncate(body.log_index + 1)
        self.configuration = begun
        self.term, self.voted_for = body.term, None
        if body.log_index >= self.configuration.seal_index:
            self.commit_index = max(self.commit_index, self.configuration.seal_index)
        self.commit_index = min(self.commit_index, body.log_index)

    def _install(self, body: FrameBody) -> None:
        self.generation = fr.generation_of(body)
        self.base_index = self.last_index = body.log_index
        self.base_term = body.term
        self.commit_index = max(self.commit_index, body.log_index)
        self.flushed_index = max(self.flushed_index, body.log_index)
        self.places.clear()
        self.spans.clear()
        self.terms.clear()
        self.damaged = False


class Ledger:
    """All groups of the node."""

    def __init__(self) -> None:
        self.groups: dict[GroupId, GroupLedger] = {}
        self.destroyed: dict[GroupId, int] = {}
        """Destroyed replicas that were not made again, and the segment of their last frame."""

    def note(self, body: FrameBody, segment_seq: int) -> int:
        """Take in the next frame; returns its `group_seq`."""
        group = body.group
        if body.kind == fr.CREATE:
            assert group not in self.groups, "a replica is created once"
            self.destroyed.pop(group, None)
            self.groups[group] = GroupLedger()
        ledger = self.groups[group]
        group_seq = ledger.frame_count
        if body.kind == fr.DESTROY:
            del self.groups[group]
            self.destroyed[group] = segment_seq
        else:
            ledger.note(body, segment_seq)
            ledger.frame_count = (group_seq + 1) & 0xFFFFFFFF
        return group_seq

    def pinned_by(self, segment_seq: int) -> list[GroupId]:
        """Groups whose state must be flushed before the oldest segment may go."""
        return [group for group, ledger in self.groups.items() if ledger.pins(segment_seq)]

    def to_carry(self, segment_seq: int) -> list[GroupId]:
        """Groups that need a STATE frame before the oldest segment may go."""
        return [
            group
            for group, ledger in self.groups.items()
            if ledger.state_seq <= segment_seq or ledger.stands_in(segment_seq)
        ]

    def placed_numbers(self) -> set[int]:
        """The payload files in which entries of the log stand."""
        found: set[int] = set()
        for ledger in self.groups.values():
            found |= ledger.places.numbers()
        return found

    def places(self) -> list[PayloadPlace]:
        """Where the payloads of entries of the log stand that stand apart."""
        return [place for one in self.groups.values() for place in one.places]

    def unflushed_payload_bytes(self, applied: Applied) -> int:
        """Bytes in payload files that a restart would apply once more, and that a flush spares it.
        What is not applied yet no flush does anything for."""
        return sum(
            one.places.bytes_between(one.flushed_index, applied(group))
            for group, one in self.groups.items()
            if one.flushed_index < one.last_index and one.places  # nearly all rest
        )

    def forget(self, segment_seq: int) -> None:
        """The oldest segment is gone."""
        for group in [g for g, seq in self.destroyed.items() if seq <= segment_seq]:
            del self.destroyed[group]
