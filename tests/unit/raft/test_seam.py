"""Between two configurations: what is answered, who stands, and with what the next one begins."""

from __future__ import annotations

import pytest

from svc_cluster.base.configuration import Configuration
from svc_cluster.base.ids import LogIndex, NodeId, Term
from svc_cluster.base.log_ops import Configure
from svc_cluster.raft.feed import Feed
from svc_cluster.raft.group import EngineFault, PeerLieError, Role
from svc_cluster.raft.messages import (
    AppendRequest,
    Ended,
    PeerMessage,
    PreVoteRequest,
    PreVoteResponse,
    StaleTerm,
    VoteGranted,
    VoteRequest,
)
from svc_cluster.raft.seal import successor
from svc_cluster.raft.seam import Ending
from tests.unit.raft.harness import (
    Node,
    ack,
    answers,
    append,
    become_leader,
    entry,
    log_of,
    replay,
    terms_of,
)
from tests.unit.raft.sealing import ONE, begun, configuration, members, noop, sealed

NEXT = configuration(1, (3, 2), 1, 2, 5)
"""Began with the seal at index 3 of term 2."""


def member(*terms: int, node: int = 2) -> Node:
    """In configuration 1, with a log whose entries have these terms."""
    return Node(node, [1, 2, 5], begun(1, (3, 2), 1, 2, 5, terms=terms))


def said(node: Node) -> list[PeerMessage]:
    node.drain()
    return [body for _, body in node.take_sent()]


def test_every_message_of_an_ended_configuration_is_answered_with_the_next() -> None:
    """Nothing else is said, whoever asks, and nothing changes here."""
    node = member(1, 1, 2)
    asked: list[PeerMessage] = [
        append(9, (3, 2), 9),
        VoteRequest(Term(9), LogIndex(99), Term(9)),
        PreVoteRequest(Term(9), Term(10), LogIndex(99), Term(9)),
        VoteGranted(Term(9)),
        ack(9, 4),
        StaleTerm(Term(9)),
        Ended(Term(9), configuration(0, (0, 0), 1, 2, 3)),
    ]
    for sender in (1, 3):
        for body in asked[:-1]:
            node.receive(sender, body)
            assert node.take_sent() == [(NodeId(sender), Ended(Term(ONE), NEXT))]
    node.receive(3, asked[-1])
    assert said(node) == []
    assert (terms_of(node), node.group.term) == ([1, 1, 2], ONE)


def test_an_end_is_learnt_from_anybody_and_only_forwards() -> None:
    """The newest that was told counts; what comes late says nothing new."""
    node = Node(2, [1, 2, 3], log_of(1, 1))
    later = configuration(3, (9, 7), 2, 6, 7)
    node.receive(3, Ended(Term(ONE), NEXT))
    assert node.group.seam.told == NEXT
    node.receive(7, Ended(later.first_term, later))
    node.receive(3, Ended(Term(ONE), NEXT))
    assert node.group.seam.told == later
    node.receive(3, Ended(Term(ONE), configuration(4, (9, 7), 2)))
    assert node.group.seam.told == later, "it contradicts itself"


def test_who_speaks_of_a_later_configuration_is_asked_for_it() -> None:
    """Its message is not heard: who its members are is not known here."""
    node = Node(2, [1, 2, 3], log_of(1, 1))
    node.receive(5, append(ONE + 1, (2, 1), ONE + 1, commit_index=3))
    assert node.group.seam.behind == 5
    assert (terms_of(node), node.group.term) == ([1, 1], 1)
    assert said(node) == []


@pytest.mark.parametrize("terms", [(1, 1), (), (1, 1, 1)])
def test_who_lacks_the_seal_does_not_stand(terms: tuple[int, ...]) -> None:
    """Neither by time nor when asked, and nor does the only member of a configuration."""
    node = member(*terms)
    alone = Node(2, [2], begun(1, (3, 2), 2, terms=terms))
    for lacking in (node, alone):
        for now in (10.0, 12.0, 14.0):
            lacking.tick(now)
        lacking.group.campaign()
        assert said(lacking) == []
        assert lacking.group.role is Role.FOLLOWER
        assert lacking.group.term == ONE


def test_who_has_the_seal_stands_and_leads_above_it() -> None:
    """Its first entry follows upon the seal, in a term of the new configuration."""
    node = member(1, 1, 2)
    now = become_leader(node, 10.0, [5])
    node.sync()
    node.receive(5, ack(ONE + 1, 4, 9))
    node.tick(now + 0.1)
    assert (terms_of(node), node.group.commit_index) == ([1, 1, 2, ONE + 1], 4)
    assert node.group.members == (1, 2, 5)


def test_a_base_at_the_seal_is_as_good_as_the_seal() -> None:
    """A snapshot that reaches as far holds all that was decided."""
    disk = log_of(ONE + 1, base=(4, 2), term=ONE + 1)
    disk.configuration = NEXT
    node = Node(2, [1, 2, 3], disk, applied_index=4)
    become_leader(node, 10.0, [5])
    assert node.group.can_propose


def test_a_voter_refuses_who_lacks_the_seal() -> None:
    """Also a voter that lacks it itself: it follows the term, and has its vote for another."""
    node = member(1)
    node.tick(10.0)
    node.receive(5, PreVoteRequest(Term(ONE), Term(ONE + 1), LogIndex(2), Term(1)))
    assert said(node) == [PreVoteResponse(Term(ONE), Term(ONE + 1), granted=False)]
    node.receive(5, VoteRequest(Term(ONE + 1), LogIndex(2), Term(1)))
    node.sync()
    assert said(node) == []
    assert node.group.term == ONE + 1
    node.receive(1, VoteRequest(Term(ONE + 1), LogIndex(3), Term(2)))
    node.sync()
    assert said(node) == [VoteGranted(Term(ONE + 1))]


def test_who_lacks_the_seal_follows_and_its_acknowledgement_covers_it() -> None:
    """Its log is brought up to the leader's, and only then is there anything above the seal."""
    node = member(1, 1)
    node.receive(1, append(ONE + 1, (3, 2), ONE + 1))
    node.sync()
    refused = answers(node)
    assert [(answer.success, answer.next_index) for answer in refused] == [(False, 3)]
    node.receive(1, append(ONE + 1, (2, 1), 2, ONE + 1, commit_index=3, read_sequence=2))
    node.sync()
    assert (terms_of(node), node.group.commit_index) == ([1, 1, 2, ONE + 1], 3)
    assert answers(node)[-1].next_index == 5
    assert node.group.seam.holds_beginning


def test_who_lacks_the_seal_takes_it_from_who_has_ended() -> None:
    """So the only member that stays can lead, though nobody leads it."""
    node = Node(2, [2], begun(1, (3, 2), 2, terms=(1,)))
    feed = Feed(NEXT, LogIndex(0), Term(0), (entry(1, 1), entry(2, 1), sealed(3, 2, 2)))
    for told in (feed, feed):
        node.group.seam.take(told)
    node.drain()
    held = [node.group.seam.holds_beginning]
    node.sync()
    held.append(node.group.seam.holds_beginning)
    assert held == [False, True], "what is not on the disk is not held"
    node.tick(10.0)
    node.tick(11.0)
    node.sync()
    assert node.group.can_propose


def test_a_feed_that_contradicts_the_log_is_a_lie() -> None:
    """What is decided is decided once."""
    node = member(1)
    with pytest.raises(PeerLieError):
        node.group.seam.take(Feed(NEXT, LogIndex(0), Term(0), (entry(1, 2),)))
    with pytest.raises(PeerLieError):
        node.group.seam.take(Feed(NEXT, LogIndex(1), Term(2), ()))


def test_a_feed_with_a_gap_is_left() -> None:
    """It came before another one that was lost."""
    node = member(1)
    node.group.seam.take(Feed(NEXT, LogIndex(2), Term(1), (sealed(3, 2, 2),)))
    assert terms_of(node) == [1]


def end_of(node: Node, next_one: Configuration) -> Ending:
    """The ending; what the disk makes of it is what the next engine begins with."""
    node.drain()
    node.sync()
    ending = node.group.end(next_one)
    replay(node.disk, [ending.op])
    found, told = node.disk, ending.recovered
    assert (found.entries, found.base_index) == (told.entries, told.base_index)
    assert (found.term, found.voted_for) == (told.term, told.voted_for)
    assert (found.configuration, found.damaged) == (told.configuration, told.damaged)
    assert found.commit_index <= told.commit_index
    return ending


def test_the_end_removes_what_is_above_the_seal() -> None:
    """No-ops of later leaders; the seal is decided, and the vote is forgotten."""
    disk = log_of(1, 1, 2, 5, term=6, voted_for=3, commit_index=1)
    disk.entries[2:] = [sealed(3, 2, 1, 2, 5), noop(4, 5)]
    node = Node(2, [1, 2, 3], disk)
    ending = end_of(node, NEXT)
    assert ending.op == Configure(NEXT, LogIndex(3))
    recovered = ending.recovered
    assert [e.term for e in recovered.entries] == [1, 1, 2]
    assert (recovered.term, recovered.voted_for, recovered.commit_index) == (ONE, None, 3)
    with pytest.raises(EngineFault):
        node.group.propose(b"\x09late")


def test_the_end_without_the_seal_keeps_what_is_known_to_be_committed() -> None:
    """Entries of a leader that was deposed have no effect any more."""
    node = Node(1, [1, 2, 3], log_of(1, 1, 1, commit_index=2))
    ending = end_of(node, NEXT)
    assert ending.op == Configure(NEXT, LogIndex(2))
    assert [e.term for e in ending.recovered.entries] == [1, 1]
    assert ending.recovered.commit_index == 2


def test_who_slept_through_configurations_ends_its_own_once() -> None:
    """Whatever lies between: it holds a prefix of what is decided."""
    node = member(1, 1, 2, ONE + 1)
    node.receive(1, append(ONE + 1, (4, ONE + 1), commit_index=4))
    later = configuration(4, (90, 3 * ONE + 2), 2, 8, 9)
    recovered = end_of(node, later).recovered
    assert [e.term for e in recovered.entries] == [1, 1, 2, ONE + 1]
    assert (recovered.term, recovered.configuration) == (4 * ONE, later)


def test_a_damaged_replica_stays_so_in_the_next_configuration() -> None:
    """With a new number: it may have lost what it promised there."""
    disk = log_of(1, 1)
    disk.damaged = True
    node = Node(2, [1, 2, 3], disk)
    number = node.group.recovery
    assert number
    ending = end_of(node, NEXT)
    assert ending.recovered.damaged
    node.start()
    assert node.group.recovery
    node.receive(1, append(ONE + 1, (0, 0), 1, 1, 2, commit_index=3))
    node.sync()
    answer = answers(node)[-1]
    assert (answer.success, answer.recovery) == (False, node.group.recovery)
    assert node.group.last_index == 0, "nothing of it was known to be committed"


def test_a_replica_that_forgot_a_configuration_waits_to_be_told() -> None:
    """Its term says that it was in a later one: it neither hears nor answers anybody before."""
    disk = log_of(1, 1, term=ONE + 3)
    disk.damaged = True
    node = Node(2, [1, 2, 3], disk)
    for body in (append(1, (2, 1), 1), append(ONE + 3, (2, 1), ONE + 3)):
        node.receive(1, body)
    assert said(node) == []
    assert (terms_of(node), node.group.seam.behind) == ([1, 1], 1)
    node.receive(1, Ended(Term(ONE), NEXT))
    assert node.group.seam.told == NEXT
    disk = log_of(1, 1, term=ONE + 3)
    with pytest.raises(EngineFault, match="not of configuration"):
        Node(2, [1, 2, 3], disk)


@pytest.mark.parametrize(("term", "then"), [(ONE + 3, ONE + 3), (3 * ONE + 2, 3 * ONE + 2)])
def test_the_term_of_a_forgotten_configuration_does_not_go_back(term: int, then: int) -> None:
    """Told of a configuration that it was in, or of one before that: it goes on in the term that it
    was in, recovers, and has a vote nowhere."""
    disk = log_of(1, 1, term=term)
    disk.damaged = True
    node = Node(2, [1, 2, 3], disk)
    ending = end_of(node, NEXT)
    assert ending.op == Configure(NEXT, LogIndex(0), Term(term))
    assert (ending.recovered.term, ending.recovered.damaged) == (then, True)
    node.start()
    assert node.group.recovery
    assert node.group.seam.is_lost == (term > 2 * ONE)


def test_another_entry_decided_in_the_place_of_the_seal_is_a_fault() -> None:
    """Then two histories were decided, and nothing is to be built on either."""
    node = Node(2, [1, 2, 3], log_of(1, 1, 1, commit_index=3))
    node.drain()
    with pytest.raises(EngineFault, match="decided"):
        node.group.end(NEXT)


def test_a_seal_names_the_next_configuration() -> None:
    """Its number, members, and the place from which it begins."""
    before = configuration(4, (9, 4 * ONE + 1), 1, 2, 3)
    decided = successor(before, sealed(12, 4 * ONE + 7, 3, 4, 5))
    assert decided == Configuration(5, members(3, 4, 5), LogIndex(12), Term(4 * ONE + 7))


def test_a_message_of_the_own_configuration_is_heard_across_the_seal() -> None:
    """Entries of the configuration before are part of the same log."""
    node = member()
    entries = (entry(1, 1), entry(2, 1), sealed(3, 2, 1, 2, 5), noop(4, ONE + 1))
    node.receive(
        1,
        AppendRequest(Term(ONE + 1), LogIndex(0), Term(0), LogIndex(4), entries, 1),
    )
    node.sync()
    assert node.group.commit_index == 4
    assert [e.log_index for e in node.applied] == [1, 2, 3, 4]
