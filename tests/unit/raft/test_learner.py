"""A replica that is no member: it takes what is decided, tells it on, and answers the late."""

from __future__ import annotations

import pytest

from svc_cluster.base.configuration import Configuration
from svc_cluster.base.ids import Generation, LogIndex, NodeId, Term
from svc_cluster.base.log_ops import AppendEntries, Configure, LogEntry, RecoveredLog
from svc_cluster.raft.feed import FEED_BYTES_MAX, FEED_ENTRIES_MAX, Feed
from svc_cluster.raft.group import Durable, EngineFault, PeerLieError
from svc_cluster.raft.learner import Learner
from svc_cluster.raft.messages import Ended
from svc_cluster.raft.raft_settings import RaftSettings
from tests.unit.raft.harness import GROUP, Node, append, entry, log_of
from tests.unit.raft.sealing import ONE, begun, configuration, sealed

FIRST = configuration(0, (0, 0), 1, 2, 3)
NEXT = configuration(1, (3, 2), 1, 2, 5)
DECIDED = (entry(1, 1), entry(2, 1), sealed(3, 2, 1, 2, 5), entry(4, ONE + 1))


def learner(recovered: RecoveredLog | None = None, applied_index: int = 0) -> Learner:
    if recovered is None:
        recovered = RecoveredLog(GROUP, Generation(1), configuration=NEXT)
    return Learner(
        recovered=recovered,
        applied_index=LogIndex(applied_index),
        settings=RaftSettings(),
    )


def feed(first: int, last: int, of: Configuration = NEXT) -> Feed:
    """The decided entries `first ..= last`."""
    before = DECIDED[first - 2].term if first > 1 else Term(0)
    return Feed(of, LogIndex(first - 1), before, DECIDED[first - 1 : last])


def sync(one: Learner) -> list[LogEntry]:
    """Everything reaches the disk; returns what is to be applied."""
    committed: list[LogEntry] = []
    while (ready := one.ready()) is not None:
        committed += ready.committed
        one.durable(Durable(ready.number))
    return committed


def test_a_learner_takes_feeds_in_any_order_and_applies_each_entry_once() -> None:
    """Late, twice, overlapping and with gaps; over the seal with which its configuration began."""
    one = learner()
    applied: list[LogEntry] = []
    for told in (feed(3, 4), feed(1, 2), feed(1, 2), feed(2, 4), feed(1, 1, FIRST), feed(4, 4)):
        one.take(told)
        applied += sync(one)
    assert tuple(applied) == DECIDED
    assert one.next_at(LogIndex(4)) is None


def test_nothing_is_taken_of_a_configuration_before_that_is_begun() -> None:
    """A learner's log ends with the seal of its own, as everybody's: then it begins the next."""
    one = learner(RecoveredLog(GROUP, Generation(1)))
    one.take(feed(1, 4))
    assert one.next_at(LogIndex(0)) == NEXT
    assert one.last_index == 0
    ending = one.end(NEXT)
    assert ending.op == Configure(NEXT, LogIndex(0))
    begun_one = learner(ending.recovered)
    begun_one.take(feed(1, 4))
    assert len(sync(begun_one)) == 4
    old = learner(RecoveredLog(GROUP, Generation(1), configuration=FIRST))
    old.take(feed(1, 3, FIRST))
    sync(old)
    assert [old.next_at(LogIndex(applied)) for applied in (0, 2, 3)] == [None, None, NEXT]
    with pytest.raises(EngineFault, match="behind the seal"):
        old.take(Feed(FIRST, LogIndex(3), Term(2), (entry(4, ONE + 1),)))


def test_the_seal_stays_in_a_learners_log_until_it_has_begun_the_next() -> None:
    """Who trims it would tell its state under the configuration that has ended."""
    one = learner(RecoveredLog(GROUP, Generation(1), configuration=FIRST))
    one.take(feed(1, 3, FIRST))
    sync(one)
    one.trim(LogIndex(3))
    assert one.term_at(LogIndex(1)) is None
    assert one.next_at(LogIndex(3)) == NEXT


def test_nothing_is_applied_before_it_is_durable() -> None:
    """As on a member: a crash may not leave a store ahead of its log."""
    one = learner()
    one.take(feed(1, 2))
    ready = one.ready()
    assert ready is not None
    assert ready.log_ops == [AppendEntries(DECIDED[:2])]
    assert ready.committed == []
    one.durable(Durable(ready.number))
    assert sync(one) == list(DECIDED[:2])


def test_a_feed_that_contradicts_what_is_held_is_a_lie() -> None:
    """A learner holds decided entries only, so that one of the two lies."""
    one = learner()
    one.take(feed(1, 2))
    with pytest.raises(PeerLieError):
        one.take(Feed(NEXT, LogIndex(1), Term(1), (entry(2, 7),)))
    with pytest.raises(PeerLieError):
        one.take(Feed(NEXT, LogIndex(2), Term(7)))


def test_a_learner_becomes_a_member_with_what_it_holds() -> None:
    """It holds the seal, or does not, as any member."""
    for last, complete in ((2, False), (3, True)):
        one = learner(RecoveredLog(GROUP, Generation(1), configuration=FIRST))
        one.take(feed(1, last, FIRST))
        sync(one)
        ending = one.end(NEXT)
        assert ending.op == Configure(NEXT, LogIndex(last))
        node = Node(5, [], ending.recovered, applied_index=last)
        assert node.group.members == (1, 2, 5)
        assert node.group.seam.holds_beginning == complete


def test_who_has_left_answers_the_late_and_nothing_else() -> None:
    """What is said in its own configuration is not for it; who speaks of a later one is asked."""
    one = learner(begun(1, (3, 2), 1, 2, 5, terms=(1, 1, 2)))
    one.hear(NodeId(3), append(9, (3, 2), 9))
    one.hear(NodeId(1), append(ONE + 1, (3, 2), ONE + 1))
    ready = one.ready()
    assert ready is not None
    assert ready.messages == [(3, Ended(Term(ONE), NEXT))]
    asked = [one.behind]
    one.hear(NodeId(1), append(2 * ONE + 1, (3, 2), 2 * ONE + 1))
    assert [*asked, one.behind] == [None, 1]
    later = configuration(2, (9, ONE + 1), 4)
    one.hear(NodeId(4), Ended(later.first_term, later))
    one.hear(NodeId(4), Ended(Term(ONE), NEXT))
    assert one.next_at(LogIndex(0)) == later


def test_a_feed_has_what_is_applied_and_no_more() -> None:
    """By entries and by bytes; from where it is asked; none where only a snapshot has it."""
    log = begun(1, (3, 2), 1, 2, 5, terms=(1, 1, 2, 2, 2))
    one = learner(log)
    told = one.feed(LogIndex(1), LogIndex(4))
    assert told == Feed(NEXT, LogIndex(1), Term(1), tuple(log.entries[1:4]))
    beyond = one.feed(LogIndex(9), LogIndex(4))
    assert beyond == Feed(NEXT, LogIndex(4), Term(2))
    many = learner(begun(1, (3, 2), 1, terms=(1,) * (FEED_ENTRIES_MAX + 9)))
    full = many.feed(LogIndex(0), LogIndex(FEED_ENTRIES_MAX + 9))
    assert full is not None
    assert len(full.entries) == FEED_ENTRIES_MAX
    large = begun(1, (3, 2), 1, terms=(1, 1, 1))
    large.entries[1] = LogEntry(LogIndex(2), Term(1), b"\x09" * FEED_BYTES_MAX)
    cut = learner(large).feed(LogIndex(0), LogIndex(3))
    assert cut is not None
    assert [e.log_index for e in cut.entries] == [1, 2]
    based = log_of(2, base=(5, 2))
    based.configuration = NEXT
    assert learner(based, 5).feed(LogIndex(4), LogIndex(6)) is None


def test_a_member_feeds_no_entry_that_is_not_decided() -> None:
    """What its leader has only sent is not part of the group yet."""
    node = Node(2, [1, 2, 3])
    node.receive(1, append(1, (0, 0), 1, 1, 1, commit_index=2))
    node.sync()
    told = node.group.seam.feed(LogIndex(0), LogIndex(node.applied_index))
    assert told is not None
    assert [e.log_index for e in told.entries] == [1, 2]
    assert told.configuration.number == 0


def test_a_damaged_learner_neither_takes_nor_tells() -> None:
    """What it held as a voter may not have been decided."""
    log = begun(1, (3, 2), 1, 2, 5, terms=(1, 1))
    log.damaged = True
    one = learner(log)
    one.take(feed(1, 4))
    assert one.last_index == 2
    assert sync(one) == []
    assert one.feed(LogIndex(0), LogIndex(2)) is None
    assert one.end(configuration(2, (9, ONE + 1), 5)).recovered.damaged


def test_a_learner_that_knows_no_configuration_tells_nothing() -> None:
    """It cannot say of what its entries are part, and asks who speaks of a later one."""
    one = learner(RecoveredLog(GROUP, Generation(1)))
    one.hear(NodeId(3), append(1, (1, 1), 1))
    assert (one.ready(), one.behind, one.feed(LogIndex(0), LogIndex(1))) == (None, None, None)
    one.hear(NodeId(3), append(ONE + 1, (1, 1), 1))
    assert (one.ready(), one.behind, one.feed(LogIndex(0), LogIndex(1))) == (None, 3, None)


def test_who_may_have_been_a_first_member_begins_a_later_configuration_alone() -> None:
    """The catalog does not keep who the first members were. Told that it is one of them, by a peer
    that is far behind, it would vote again in terms in which it has voted; not even a seal in its
    own log is followed then."""
    held = [entry(1, 1), entry(2, 1), sealed(3, 2, 1, 2, 5)]
    log = RecoveredLog(GROUP, Generation(1), term=Term(7), entries=held)
    one = learner(log, applied_index=3)
    one.take(feed(1, 3, FIRST))
    one.hear(NodeId(3), Ended(FIRST.first_term, FIRST))
    one.learn(FIRST)
    assert (one.next_at(LogIndex(3)), one.ready(), one.last_index) == (None, None, 3)
    one.take(feed(1, 4))
    assert one.next_at(LogIndex(3)) == NEXT
    ending = one.end(NEXT)
    assert ending.op == Configure(NEXT, LogIndex(3))
    assert ending.recovered.term == NEXT.first_term
