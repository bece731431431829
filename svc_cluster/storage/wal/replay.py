"""Rebuilds every group's log from the frames that recovery hands over, in log order.

It also decides which groups a hole in the log may have hurt. A group is proven intact when its
next frame continues its own count of frames, when a batch header covers the hole, or when a state
frame says what the log must end with and it does. A group that is not proven intact is damaged.
"""

from __future__ import annotations

from dataclasses import replace

from svc_cluster.base.ids import Generation, GroupId, LogIndex, NodeId, Term
from svc_cluster.base.log_ops import LogEntry, RecoveredLog
from svc_cluster.storage.payload.entry_places import EntryPlaces
from svc_cluster.storage.payload.payload_files import PayloadFiles
from svc_cluster.storage.payload.payload_frame import (
    EntryName,
    PayloadPlace,
    decode_place,
    encode_place,
)
from svc_cluster.storage.wal import wal_frame as fr
from svc_cluster.storage.wal.ledger import GroupLedger, Ledger
from svc_cluster.storage.wal.wal_frame import FrameBody, Position, WalFrame
from svc_cluster.storage.wal.wal_settings import WalFormatError


class _GroupReplay:
    """A log in the making.

    The entries may begin above the base for a while: where segments were freed, the frame that
    moved the base stands behind the entries that are left.
    """

    __slots__ = (
        "contradicted",
        "count",
        "first",
        "holes_seen",
        "log",
        "places",
        "rooted",
        "seqs",
        "state_seq",
    )

    def __init__(self, group: GroupId) -> None:
        self.log = RecoveredLog(group, Generation(0))
        self.first = 1
        """Index of the first of the entries, if there are any."""
        self.places = EntryPlaces()
        """Where payloads of the entries stand that are not read yet."""
        self.seqs: list[int] = []
        """The segment of each entry."""
        self.rooted = False
        """A CREATE or STATE frame was seen: the base is known."""
        self.contradicted = False
        """The newest STATE frame ends with another entry than the entries do."""
        self.count: int | None = None
        self.holes_seen = 0
        self.state_seq = 0

    @property
    def last(self) -> tuple[int, int]:
        """Index and term of the last entry, or of the base."""
        log = self.log
        if log.entries:
            return log.entries[-1].log_index, log.entries[-1].term
        return log.base_index, log.base_term

    def append(self, entry: LogEntry, segment_seq: int, place: PayloadPlace | None = None) -> None:
        log = self.log
        if not log.entries:
            self.first = entry.log_index
        elif entry.log_index != self.first + len(log.entries):
            log.damaged = True  # behind a hole; what follows it cannot be placed
            return
        log.entries.append(entry)
        self.seqs.append(segment_seq)
        if place is not None:
            self.places.note(entry.log_index, place)

    def truncate(self, first_removed: int) -> None:
        self.places.truncate(first_removed)
        kept = max(0, first_removed - self.first)
        del self.log.entries[kept:], self.seqs[kept:]

    def move_base(self, base_index: int, base_term: int) -> None:
        self.places.trim(base_index)
        surplus = min(max(0, base_index + 1 - self.first), len(self.log.entries))
        del self.log.entries[:surplus], self.seqs[:surplus]
        self.first += surplus
        self.log.base_index, self.log.base_term = LogIndex(base_index), Term(base_term)

    def clear(self) -> None:
        self.log.entries.clear()
        self.seqs.clear()
        self.places.clear()

    def read_payloads(self, payloads: PayloadFiles) -> None:
        """Everything that is left was synced once: a payload that is not there is damage."""
        for slot, entry in enumerate(self.log.entries):
            place = self.places.get(entry.log_index)
            if place is None:
                continue
            name = EntryName(self.log.group_id, entry.log_index, entry.term)
            payload = payloads.read_entry(place, name)
            if payload is None:
                self.log.damaged = True
                self.truncate(self.first + slot)
                return
            self.log.entries[slot] = replace(entry, payload=payload)

    def finish(self, holes: int) -> None:
        """Judge the whole; entries that do not follow the base are dropped."""
        log = self.log
        if not self.rooted:
            log.base_index, log.base_term = LogIndex(0), Term(0)
        has_gap = bool(log.entries) and self.first != log.base_index + 1
        if not self.rooted or has_gap:
            self.clear()
        if not self.rooted or has_gap or self.contradicted or self.holes_seen < holes:
            log.damaged = True
        log.commit_index = LogIndex(max(log.base_index, min(log.commit_index, log.last_index)))


class Replay:
    """`apply` every frame, `hole` for every damaged stretch, then `finish`."""

    def __init__(self) -> None:
        self._groups: dict[GroupId, _GroupReplay] = {}
        self._destroyed: dict[GroupId, int] = {}
        self._holes: list[Position] = []

    def hole(self, start: Position) -> None:
        """Synced frames from `start` on are lost; whose they were is unknown."""
        self._holes.append(start)

    def damage(self, frame: WalFrame) -> None:
        """A synced frame whose header is whole and whose payload is not."""
        body = frame.body
        if body.group and not self._is_gone(body):
            self._destroyed.pop(body.group, None)
            self._group(body.group).log.damaged = True
            self._group(body.group).count = frame.group_seq

    @property
    def has_holes(self) -> bool:
        """Something was lost, of which not all that it held is known."""
        return bool(self._holes)

    def apply(self, frame: WalFrame, place: Position) -> None:
        """A frame that has its checksums and is none that a writer makes is damage as well. Raises
        WalFormatError for one that a newer release may have made."""
        body = frame.body
        if fr.is_of_newer_release(body):
            raise WalFormatError(
                f"the write-ahead log has a frame of kind {body.kind} that only a newer release "
                "understands: start that on it"
            )
        if not fr.is_well_formed(body):
            if body.group:
                self.damage(frame)
            else:
                self.hole(place)
            return
        if body.kind == fr.BATCH:
            if self._holes:
                self._take_batch_header(fr.decode_batch_header(body.payload))
            return
        if self._is_gone(body):
            return
        self._destroyed.pop(body.group, None)
        group = self._group(body.group)
        self._check_count(group, frame)
        if body.kind == fr.DESTROY:
            del self._groups[body.group]
            self._destroyed[body.group] = place[0]
        else:
            _apply(group, body, place[0])
            told_all = body.kind in (fr.STATE, fr.SNAPSHOT) and not group.contradicted
            if told_all and not group.log.damaged:
                group.holes_seen = len(self._holes)

    def _is_gone(self, body: FrameBody) -> bool:
        """Whether a frame is of a replica that was destroyed and not made again. The frame that
        made it again may be in a hole: what is left of that replica is damaged."""
        is_destroyed = body.group in self._destroyed
        return is_destroyed and body.kind != fr.CREATE and not self._holes

    def finish(self, payloads: PayloadFiles) -> tuple[dict[GroupId, RecoveredLog], Ledger]:
        """The logs, and the ledger with which the writer goes on. Payloads that stand apart are
        read here, once it is known which entries are left."""
        ledger = Ledger()
        ledger.destroyed = self._destroyed
        logs = {}
        for group_id, group in self._groups.items():
            log = group.log
            group.finish(len(self._holes))
            group.read_payloads(payloads)
            log.commit_index = LogIndex(min(log.commit_index, log.last_index))
            logs[group_id] = log
            ledger.groups[group_id] = _ledger_of(group)
        return logs, ledger

    def _group(self, group_id: GroupId) -> _GroupReplay:
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = _GroupReplay(group_id)
        return group

    def _check_count(self, group: _GroupReplay, frame: WalFrame) -> None:
        expected = 0 if group.count is None else (group.count + 1) & 0xFFFFFFFF
        continues = frame.group_seq == expected
        if group.count is None and not self._holes:
            continues = True  # the frames before it were freed with their segment
        group.count = frame.group_seq
        if continues:
            group.holes_seen = len(self._holes)
        elif frame.body.kind not in (fr.STATE, fr.SNAPSHOT):
            group.log.damaged = True

    def _take_batch_header(self, header: fr.BatchHeader) -> None:
        """Settle, for each group, the holes that the batch header covers."""
        for group_id, seq in header.items.items():
            group = GroupId(group_id)
            if group not in self._groups and group not in self._destroyed:
                self._group(group).log.damaged = True
            elif group in self._groups and self._groups[group].count != seq:
                self._groups[group].log.damaged = True
        for replay in self._groups.values():
            pending = self._holes[replay.holes_seen :]
            if pending and min(pending) >= header.covers_from:
                replay.holes_seen = len(self._holes)


def _apply(group: _GroupReplay, body: FrameBody, segment_seq: int) -> None:
    log = group.log
    match body.kind:
        case fr.ENTRY:
            entry = LogEntry(LogIndex(body.log_index), Term(body.term), body.payload)
            group.append(entry, segment_seq)
        case fr.ENTRY_AT:
            entry = LogEntry(LogIndex(body.log_index), Term(body.term), b"")
            group.append(entry, segment_seq, decode_place(body.payload))
        case fr.TRUNCATE:
            group.truncate(body.log_index)
        case fr.HARD_STATE:
            vote = fr.voted_for(body)
            log.term = Term(max(log.term, body.term))
            log.voted_for = None if vote is None else NodeId(vote)
        case fr.COMMIT:
            log.commit_index = LogIndex(max(log.commit_index, body.log_index))
        case fr.TRIM:
            if body.log_index > log.base_index:
                group.move_base(body.log_index, body.term)
        case fr.SNAPSHOT:
            group.clear()
            group.move_base(body.log_index, body.term)
            log.commit_index = LogIndex(max(log.commit_index, body.log_index))
            log.generation = Generation(fr.generation_of(body))
            log.damaged = group.contradicted = False
        case fr.CREATE:
            log.generation = Generation(fr.generation_of(body))
            group.rooted, group.state_seq = True, segment_seq
        case fr.CONFIGURE:
            _configure(group, body)
        case fr.STATE:
            _restate(group, fr.decode_state(body.payload), segment_seq)
        case _:
            log.damaged = True


def _configure(group: _GroupReplay, body: FrameBody) -> None:
    """What is above the seal goes, with the votes and the term. The seal itself is decided."""
    log, configuration = group.log, fr.configuration_in(body)
    group.truncate(body.log_index + 1)
    log.configuration = configuration
    log.term, log.voted_for = Term(body.term), None
    if body.log_index >= configuration.seal_index:
        log.commit_index = max(log.commit_index, configuration.seal_index)
    log.commit_index = LogIndex(min(log.commit_index, body.log_index))


def _restate(group: _GroupReplay, state: fr.GroupState, segment_seq: int) -> None:
    log = group.log
    group.move_base(state.base_index, state.base_term)
    log.generation = Generation(state.generation)
    log.term = Term(state.term)
    log.voted_for = None if state.voted_for is None else NodeId(state.voted_for)
    log.commit_index = LogIndex(state.commit_index)
    log.configuration = state.configuration
    group.contradicted = group.last != (state.last_index, state.last_term)
    log.damaged = log.damaged or state.damaged
    group.rooted, group.state_seq = True, segment_seq


def _ledger_of(group: _GroupReplay) -> GroupLedger:
    log, ledger = group.log, GroupLedger()
    ledger.generation = log.generation
    ledger.base_index = ledger.last_index = log.base_index
    ledger.base_term = log.base_term
    ledger.term, ledger.voted_for = log.term, log.voted_for
    ledger.commit_index = log.commit_index
    ledger.configuration = log.configuration
    ledger.flushed_index = log.base_index
    ledger.damaged = log.damaged
    ledger.state_seq = group.state_seq
    # A damaged replica's count jumps, so that its later frames never look like a continuation.
    ledger.frame_count = ((group.count or 0) + (2 if log.damaged else 1)) & 0xFFFFFFFF
    for entry, segment_seq in zip(log.entries, group.seqs, strict=True):
        body = FrameBody(fr.ENTRY, log.group_id, entry.log_index, entry.term)
        place = group.places.get(entry.log_index)
        if place is not None:
            body = body._replace(kind=fr.ENTRY_AT, payload=encode_place(place))
        ledger.note(body, segment_seq)
    return ledger
