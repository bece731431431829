"""The log in memory, the operations it asks for, and what of it is durable."""

from __future__ import annotations

from svc_cluster.base.ids import LogIndex, NodeId, Term
from svc_cluster.base.log_ops import (
    AppendEntries,
    SetCommit,
    SetHardState,
    TrimPrefix,
    TruncateSuffix,
)
from svc_cluster.raft.log_view import LogView
from tests.unit.raft.harness import copy_of, entry, log_of, payload, replay


def view(*terms: int, base: tuple[int, int] = (0, 0)) -> LogView:
    return LogView(log_of(*terms, base=base), LogIndex(base[0]))


def test_operations_come_in_the_order_of_the_changes() -> None:
    """Neighbouring appends are one operation; everything else keeps its place."""
    log = view(1, 1)
    log.append(payload("a"), 3, 1)
    log.append(payload("b"), 4, 1)
    log.truncate_from(4)
    log.set_hard_state(2, 3)
    log.append(payload("c"), 4, 2)
    log.set_commit(4)
    assert log.take(1) == [
        AppendEntries((entry(3, 1, "a"), entry(4, 1, "b"))),
        TruncateSuffix(LogIndex(4)),
        SetHardState(Term(2), NodeId(3)),
        AppendEntries((entry(4, 2, "c"),)),
        SetCommit(LogIndex(4)),
    ]
    assert log.take(2) == []


def test_replaying_the_operations_gives_the_same_log() -> None:
    """What the disk makes of the operations is what memory holds."""
    disk = log_of(1, 1, 1)
    log = LogView(copy_of(disk), LogIndex(0))
    log.truncate_from(3)
    log.append(payload("x"), 3, 2)
    log.set_commit(2)
    log.trim_to(LogIndex(1))
    replay(disk, log.take(1))
    assert disk.entries == log.entries
    assert (disk.base_index, disk.base_term, disk.commit_index) == (1, 1, 2)


def test_what_does_not_change_is_not_written() -> None:
    """The same hard state or commit index again is no operation."""
    log = view(1)
    log.set_hard_state(1, None)
    log.set_commit(0)
    assert not log.has_ops()
    log.set_hard_state(2, None)
    log.set_hard_state(2, None)
    assert log.take(1) == [SetHardState(Term(2), None)]


def test_only_synced_batches_are_durable() -> None:
    """A batch covers what was recorded before it was taken."""
    log = view(1)
    log.append(payload("a"), 2, 1)
    log.take(1)
    log.append(payload("b"), 3, 1)
    assert log.mark_durable(1)
    assert (log.durable_index, log.last_index) == (2, 3)
    assert not log.mark_durable(1)
    log.take(5)
    assert log.mark_durable(7)
    assert log.durable_index == 3


def test_entries_written_over_are_not_durable_by_the_old_batch() -> None:
    """An index counts as durable when the entry that stands there now is on the disk."""
    log = view(1)
    for index in (2, 3, 4):
        log.append(payload("old"), index, 1)
    log.take(1)
    log.truncate_from(3)
    log.append(payload("new"), 3, 2)
    log.append(payload("new"), 4, 2)
    log.take(2)
    log.mark_durable(1)
    assert log.durable_index == 2
    log.mark_durable(2)
    assert log.durable_index == 4


def test_truncating_what_is_durable_makes_it_not_durable() -> None:
    """The replacement has to be synced anew."""
    log = view(1, 1, 1)
    log.truncate_from(2)
    log.append(payload("new"), 2, 2)
    assert log.durable_index == 1


def test_the_hard_state_is_durable_with_its_batch() -> None:
    """Later operations do not matter for it."""
    log = view(1)
    durable = [log.hard_state_durable]
    log.set_hard_state(5, 1)
    log.take(1)
    log.append(payload("x"), 2, 5)
    durable.append(log.hard_state_durable)
    log.mark_durable(1)
    durable.append(log.hard_state_durable)
    assert durable == [True, False, True]


def test_what_is_forgotten_is_not_among_the_bytes() -> None:
    """Behind a trim of two entries, the bytes and the place that keeps some are the third's."""
    log = view(1, 1, 1)
    size = len(log.entries[2].payload)
    log.trim_to(LogIndex(2))
    assert log.byte_count == size
    assert [log.index_keeping_bytes(size + more) for more in (-size, 0, 1)] == [3, 2, 2]


def test_a_trimmed_log_remembers_the_term_of_its_base() -> None:
    """Terms are known from the base to the last entry, and nowhere else."""
    log = view(1, 2, 2, 3)
    log.trim_to(LogIndex(2))
    assert log.take(1) == [TrimPrefix(LogIndex(2), Term(2))]
    assert [log.term_at(index) for index in range(1, 6)] == [None, 2, 2, 3, None]
    log.trim_to(LogIndex(4))
    assert (log.last_index, log.last_term, log.entries) == (4, 3, [])


def test_the_start_of_a_term_is_found_above_a_floor() -> None:
    """Neither below the floor nor into the base."""
    log = view(1, 2, 2, 2, 3)
    assert log.first_index_of_term(4, floor=1) == 2
    assert log.first_index_of_term(4, floor=3) == 3
    assert log.first_index_of_term(5, floor=1) == 5
    log.trim_to(LogIndex(2))
    assert log.first_index_of_term(4, floor=1) == 3
