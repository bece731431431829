"""The small deciding parts on their own: votes, gates, windows, read rounds, settings, core."""

from __future__ import annotations

import pysyncobj.syncobj as library
import pytest

from svc_cluster.base.ids import LogIndex, NodeId, Term
from svc_cluster.raft import core
from svc_cluster.raft.flow import Flow
from svc_cluster.raft.gate import FollowerAcks, Gate, LeaderAcks
from svc_cluster.raft.messages import StaleTerm
from svc_cluster.raft.prevote import PreVoteRound
from svc_cluster.raft.raft_settings import RaftSettings
from svc_cluster.raft.read_index import ReadRounds
from svc_cluster.raft.votes import VoteLedger

A, B, C = NodeId(1), NodeId(2), NodeId(3)


def test_a_vote_counts_once_per_member_and_term() -> None:
    """Repeated, old and strangers' votes do not count."""
    ledger = VoteLedger(frozenset({A, B}))
    assert ledger.count(Term(2), A)
    assert not ledger.count(Term(2), A)
    assert ledger.count(Term(2), B)
    assert not ledger.count(Term(2), C)
    assert ledger.count(Term(3), A)
    assert not ledger.count(Term(2), B)


def test_a_prevote_round_is_won_once() -> None:
    """By distinct members, in the term that was asked about."""
    asking = PreVoteRound(frozenset({A, B}), quorum=3)
    asking.start(Term(5), C)
    assert not asking.won_by(A, Term(5))
    assert not asking.won_by(A, Term(5))
    assert not asking.won_by(NodeId(9), Term(5))
    assert not asking.won_by(B, Term(4))
    assert asking.won_by(B, Term(5))
    assert not asking.won_by(B, Term(5))


def test_held_messages_leave_in_order_when_they_may() -> None:
    """Those that wait for more stay; those of another term are gone."""
    gate = Gate()
    gate.hold(1, A, StaleTerm(Term(2)))
    gate.hold(3, B, StaleTerm(Term(2)))
    gate.hold(1, C, StaleTerm(Term(1)))
    assert gate.release(0, Term(2)) == []
    assert gate.release(2, Term(2)) == [(A, StaleTerm(Term(2)))]
    assert gate.release(3, Term(3)) == []
    assert gate.release(9, Term(2)) == []


def test_a_follower_acknowledges_news_once() -> None:
    """As far as durable, in the term in which it was verified."""
    acks = FollowerAcks()
    acks.verified(Term(2), A, LogIndex(5))
    assert acks.newly_durable(Term(2), LogIndex(3)) == (A, 3)
    assert acks.newly_durable(Term(2), LogIndex(3)) is None
    assert acks.newly_durable(Term(2), LogIndex(9)) == (A, 5)
    assert acks.newly_durable(Term(3), LogIndex(9)) is None
    acks.verified(Term(3), B, LogIndex(1))
    assert acks.newly_durable(Term(3), LogIndex(9)) == (B, 1)


def test_a_leader_shows_acknowledgements_up_to_its_own_disk() -> None:
    """What was acknowledged beyond is shown when the own log is durable, once."""
    acks = LeaderAcks()
    assert acks.on_ack(A, LogIndex(7), LogIndex(4)) == 4
    assert acks.acked(A) == 7
    assert acks.newly_durable(LogIndex(6)) == [(A, 6)]
    assert acks.newly_durable(LogIndex(6)) == []
    assert acks.newly_durable(LogIndex(9)) == [(A, 7)]
    acks.clear()
    assert acks.acked(A) == 0


def test_a_window_fills_and_empties() -> None:
    """A peer is full at the limit, until enough is acknowledged or its window is forgotten."""
    flow = Flow(10, 100)
    flow.sent(A, LogIndex(3), 6, 3)
    assert not flow.is_full(A)
    flow.sent(A, LogIndex(5), 4, 2)
    assert flow.is_full(A)
    flow.acked(A, LogIndex(2))
    assert flow.is_full(A)
    flow.acked(A, LogIndex(4))
    assert not flow.is_full(A)
    flow.sent(A, LogIndex(6), 9, 1)
    flow.forget(A)
    assert not flow.is_full(A)
    assert not flow.is_full(B)


def test_a_window_of_very_small_entries_fills_by_their_number() -> None:
    """However few bytes they have, until enough of them are acknowledged."""
    flow = Flow(1_000, 5)
    flow.sent(A, LogIndex(3), 0, 3)
    flow.sent(B, LogIndex(4), 0, 4)
    assert not flow.is_full(A)
    assert not flow.is_full(B)
    flow.sent(A, LogIndex(5), 0, 2)
    assert flow.is_full(A)
    assert not flow.is_full(B)
    flow.acked(A, LogIndex(4))
    assert not flow.is_full(A)
    flow.sent(A, LogIndex(8), 0, 3)
    assert flow.is_full(A)
    flow.acked(A, LogIndex(8))
    assert not flow.is_full(A)


def test_a_read_is_confirmed_by_a_quorum_of_later_answers() -> None:
    """With four others, two must answer something newer than the read."""
    rounds = ReadRounds(others_needed=2, ticket_seconds_max=1.5)
    early = rounds.start(LogIndex(10), sequence=5, now=0.0)
    late = rounds.start(LogIndex(11), sequence=8, now=0.1)
    rounds.answer(A, 9)
    rounds.answer(B, 5)
    assert rounds.take_states() == []
    rounds.answer(B, 6)
    assert [(s.ticket, s.read_index) for s in rounds.take_states()] == [(early, 10)]
    rounds.answer(C, 9)
    assert [(s.ticket, s.read_index) for s in rounds.take_states()] == [(late, 11)]


def test_a_read_that_nobody_confirms_expires() -> None:
    """Tickets are refused when their time is over, and all of them when leadership is."""
    rounds = ReadRounds(others_needed=1, ticket_seconds_max=1.5)
    first = rounds.start(LogIndex(1), 1, now=0.0)
    second = rounds.start(LogIndex(1), 1, now=1.0)
    rounds.expire(1.6)
    assert [(s.ticket, s.read_index) for s in rounds.take_states()] == [(first, None)]
    rounds.fail_all()
    assert [(s.ticket, s.read_index) for s in rounds.take_states()] == [(second, None)]
    assert not rounds.wants_round()


@pytest.mark.parametrize(
    "wrong",
    [
        {"heartbeat": 0.2},
        {"election_max": 0.5},
        {"leader_fallback": 0.9},
        {"append_batch_bytes": 1000},
        {"in_flight_bytes_max": 0},
        {"in_flight_entries_max": 0},
        {"append_entries_max": 1},
    ],
)
def test_settings_that_do_not_fit_together_are_refused(wrong: dict[str, float]) -> None:
    """Each rule between the values is checked when they are made."""
    with pytest.raises(ValueError, match=r"must be|wanted"):
        RaftSettings(**wrong)  # type: ignore[arg-type]


def test_another_version_of_the_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The adapter rests on private names and on the order of statements of one version."""
    core._check_library()
    monkeypatch.setattr(core, "VERSION", "0.3.18")
    with pytest.raises(RuntimeError, match=r"0\.3\.17"):
        core._check_library()


@pytest.mark.parametrize("name", ["monotonicTime", "createJournal"])
def test_a_library_without_a_needed_name_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Each private name is looked for before anything is built on it."""
    monkeypatch.delattr(library, name)
    with pytest.raises(RuntimeError, match=name):
        core._check_library()
