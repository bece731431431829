"""Shared by the WAL tests: short words for operations, and a log that is filled quickly."""

from __future__ import annotations

from svc_cluster.base.ids import Generation, GroupId, LogIndex, NodeId, Term
from svc_cluster.base.log_ops import (
    AppendEntries,
    CreateReplica,
    LogEntry,
    LogOp,
    RecoveredLog,
    SetCommit,
    SetHardState,
    TrimPrefix,
    TruncateSuffix,
)
from svc_cluster.storage.wal import Wal, WalSettings
from tests.unit.storage.fakes import FakeDisk

TAG = 0x1234_5678_9ABC_DEF0
SMALL = WalSettings(segment_bytes=16 * 1024, retain_bytes=32 * 1024, reserve_bytes=0)


def payload_of(group: int, log_index: int, term: int, size: int = 20) -> bytes:
    word = b"%d/%d/%d;" % (group, log_index, term)
    return (word * (size // len(word) + 1))[: max(size, len(word))]


def entries(group: int, first: int, count: int, term: int = 1, size: int = 20) -> AppendEntries:
    return AppendEntries(
        tuple(
            LogEntry(LogIndex(i), Term(term), payload_of(group, i, term, size))
            for i in range(first, first + count)
        )
    )


def create(generation: int = 1) -> LogOp:
    return CreateReplica(Generation(generation))


def hard_state(term: int, vote: int | None) -> LogOp:
    return SetHardState(Term(term), None if vote is None else NodeId(vote))


def commit(log_index: int) -> LogOp:
    return SetCommit(LogIndex(log_index))


def trim(log_index: int, term: int = 1) -> LogOp:
    return TrimPrefix(LogIndex(log_index), Term(term))


def truncate(first_removed: int) -> LogOp:
    return TruncateSuffix(LogIndex(first_removed))


def open_wal(disk: FakeDisk, settings: WalSettings = SMALL, tag: int = TAG) -> Wal:
    return Wal.open(disk, tag, settings)


def put(wal: Wal, disk: FakeDisk, group: int, *ops: LogOp) -> None:
    """Append and carry out every submission."""
    reached: list[bool] = []
    wal.append(GroupId(group), ops, lambda: reached.append(True))
    disk.run()
    assert reached, "an append becomes durable"


def log_of(wal: Wal, group: int) -> RecoveredLog:
    return wal.recovered[GroupId(group)]


def indexes(log: RecoveredLog) -> list[int]:
    return [entry.log_index for entry in log.entries]
