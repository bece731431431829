"""The times and totals of a node's groups, from what the groups tell."""

from __future__ import annotations

from svc_cluster.base.ids import LogIndex, NodeId, Term
from svc_cluster.base.log_ops import LogEntry
from svc_cluster.raft.group import Message, Role
from svc_cluster.raft.messages import AppendRequest, AppendResponse
from svc_cluster.replica.group_watch import PROPOSED_MAX, GroupWatch, NodeFigures

PEER, OTHER = NodeId(2), NodeId(3)


class Watched:
    """A watch of which the test holds the clock, and all that it tells."""

    def __init__(self) -> None:
        self.now = 0.0
        self.committed: list[float] = []
        self.applied: list[float] = []
        self.trips: list[tuple[NodeId, float]] = []
        self.figures = NodeFigures(
            on_committed=self.committed.append,
            on_applied=self.applied.append,
            on_round_trip=lambda peer, seconds: self.trips.append((peer, seconds)),
        )
        self.watch = GroupWatch(lambda: self.now, self.figures)


def entries(first: int, last: int) -> tuple[LogEntry, ...]:
    return tuple(LogEntry(LogIndex(at), Term(1), b"") for at in range(first, last + 1))


def request(read_sequence: int, term: int = 1) -> AppendRequest:
    return AppendRequest(Term(term), LogIndex(1), Term(1), LogIndex(1), (), read_sequence)


def answer(read_sequence: int, term: int = 1, sender: NodeId = PEER) -> Message:
    body = AppendResponse(Term(term), LogIndex(2), True, False, read_sequence)
    return Message(sender, body)


def test_each_entry_proposed_here_is_timed_to_its_commit() -> None:
    """Two are committed at one time and the third later; each has its own time, once."""
    seen = Watched()
    for at in (1, 2, 3):
        seen.now = float(at)
        seen.watch.proposed(LogIndex(at))
    seen.now = 4.0
    seen.watch.committed(entries(1, 2), Role.LEADER)
    assert seen.committed == [3.0, 2.0]
    seen.now = 9.0
    seen.watch.committed(entries(3, 3), Role.LEADER)
    seen.watch.committed(entries(3, 3), Role.LEADER)
    assert seen.committed == [3.0, 2.0, 6.0]
    assert seen.figures.entries_committed == 4


def test_what_a_follower_commits_is_not_its_own() -> None:
    seen = Watched()
    seen.watch.committed(entries(1, 5), Role.FOLLOWER)
    assert seen.figures.entries_committed == 0
    assert seen.committed == []


def test_what_was_proposed_in_another_role_has_no_time() -> None:
    """The place is another leader's now: its commit says nothing of the proposal."""
    seen = Watched()
    seen.watch.proposed(LogIndex(7))
    seen.watch.sent(PEER, request(1))
    seen.watch.role_changed(Role.LEADER, Role.FOLLOWER)
    seen.watch.role_changed(Role.CANDIDATE, Role.LEADER)
    seen.watch.committed(entries(7, 7), Role.LEADER)
    seen.watch.heard(answer(1))
    assert seen.committed == []
    assert seen.trips == []


def test_times_of_proposals_are_bounded() -> None:
    seen = Watched()
    for at in range(PROPOSED_MAX + 10):
        seen.watch.proposed(LogIndex(at))
    seen.watch.committed(entries(0, PROPOSED_MAX + 9), Role.LEADER)
    assert len(seen.committed) == PROPOSED_MAX


def test_a_round_trip_ends_with_the_answer_to_that_message() -> None:
    """An answer to an earlier message does not end it; one of a later message does; what was sent
    meanwhile is not timed; peers are apart."""
    seen = Watched()
    seen.watch.sent(PEER, request(5))
    seen.now = 1.0
    seen.watch.sent(PEER, request(6))
    seen.watch.sent(OTHER, request(6))
    seen.watch.heard(answer(4))
    assert seen.trips == []
    seen.now = 3.0
    seen.watch.heard(answer(6))
    assert seen.trips == [(PEER, 3.0)]
    seen.watch.heard(answer(7))
    seen.now = 4.0
    seen.watch.heard(answer(6, sender=OTHER))
    assert seen.trips == [(PEER, 3.0), (OTHER, 3.0)]


def test_an_answer_of_another_term_ends_a_round_trip_without_a_time() -> None:
    seen = Watched()
    seen.watch.sent(PEER, request(5))
    seen.watch.heard(answer(1, term=2))
    assert seen.trips == []
    seen.watch.sent(PEER, request(1, term=2))
    seen.now = 2.0
    seen.watch.heard(answer(1, term=2))
    assert seen.trips == [(PEER, 2.0)]


def test_elections_are_won_or_lost() -> None:
    seen = Watched()
    for was, now in (
        (Role.FOLLOWER, Role.CANDIDATE),
        (Role.CANDIDATE, Role.LEADER),
        (Role.LEADER, Role.FOLLOWER),
        (Role.FOLLOWER, Role.CANDIDATE),
        (Role.CANDIDATE, Role.CANDIDATE),
        (Role.CANDIDATE, Role.FOLLOWER),
    ):
        seen.watch.role_changed(was, now)
    assert (seen.figures.elections_won, seen.figures.elections_lost) == (1, 1)


def test_an_apply_is_timed_from_its_first_look() -> None:
    seen = Watched()
    seen.watch.apply_begins()
    seen.now = 0.25
    seen.watch.applied()
    assert seen.applied == [0.25]


def test_the_times_of_an_entry_are_taken_once_each_and_in_order() -> None:
    """An entry that was proposed after the log operations were handed over is not on the disk with
    them; and what is on the disk stays so since when it is."""
    seen = Watched()
    watch = seen.watch
    times = []
    for at in (1, 2, 3):
        seen.now = float(at)
        watch.proposed(LogIndex(at))
        times.append(watch.newest)
    first, second, third = (each for each in times if each is not None)
    seen.now = 5.0
    watch.durable(second)
    assert [each.durable for each in (first, second, third)] == [5.0, 5.0, 0.0]
    seen.now = 6.0
    watch.durable(second)
    watch.durable(third)
    watch.durable(None)
    assert [each.durable for each in (first, second, third)] == [5.0, 5.0, 6.0]
    seen.now = 7.0
    watch.committed(entries(1, 2), Role.LEADER)
    assert [each.committed for each in (first, second, third)] == [7.0, 7.0, 0.0]
    watch.committed(entries(3, 3), Role.LEADER)
    assert watch.newest is None
