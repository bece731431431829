"""What a leader tells its clients while its entries are under way, and when it leads no more."""

from __future__ import annotations

from svc_cluster.base.errors import (
    DeadlineError,
    InternalError,
    SeqNumMismatchError,
    ServiceError,
    UnavailableError,
)
from svc_cluster.base.ids import Term, TimestampMs
from svc_cluster.codec.rpc import NotLeaderHereError
from svc_cluster.raft.group import Message, Role
from svc_cluster.raft.messages import StaleTerm
from tests.at_once import encode_entry
from tests.unit.replica.leading import FAR, STREAM, Rig, played
from tests.unit.stream.support import batch


def test_a_refusal_is_told_when_what_it_rests_on_is_committed() -> None:
    """The second append does not match the tail that the first one makes, which only this leader
    knows so far: the refusal comes with the commit, not with a heartbeat's confirmation before."""

    async def body(rig: Rig) -> None:
        before = rig.group.engine.last_index
        first, refused = rig.submit(), rig.submit(match_seq_num=0)
        await rig.settle()
        assert rig.group.engine.last_index == before + 1, "nothing is proposed for a refusal"
        await rig.answer(up_to=before)
        await rig.answer(up_to=before)
        assert (first, refused) == ([], [])
        await rig.answer()
        await rig.answer()
        [(ack, error)] = first
        assert error is None
        assert ack is not None
        assert (ack.start.seq_num, ack.end.seq_num) == (0, 1)
        [(nothing, refusal)] = refused
        assert nothing is None
        assert isinstance(refusal, SeqNumMismatchError)
        assert refusal.tail_seq_num == 1
        assert not refusal.may_have_taken_effect
        assert rig.group.engine.last_index == before + 1

    played(body)


def test_a_refusal_whose_ground_was_lost_is_not_told() -> None:
    """The entry that made the refusal true is replaced by another leader's: the client is told to
    go elsewhere, and nothing of a tail that never was."""

    async def body(rig: Rig) -> None:
        before = rig.group.engine.last_index
        rig.submit()
        refused = rig.submit(match_seq_num=0)
        await rig.settle()
        await rig.follow(2, encode_entry([]), behind=before, commit_index=before + 1)
        [(nothing, refusal)] = refused
        assert nothing is None
        assert isinstance(refusal, NotLeaderHereError)
        assert not refusal.may_have_taken_effect

    played(body)


def test_a_change_whose_deciding_fails_harms_no_other_of_its_entry() -> None:
    """It fails with a bug of ours when it has a place at the stream's tail already. It is told that
    it had no effect, and the appends before and behind it get the places that they would have had
    without it."""

    async def body(rig: Rig) -> None:
        before = rig.group.engine.last_index
        told: list[tuple[object, ServiceError | None]] = []

        def faulty(now_ms: TimestampMs) -> None:
            rig.replica.sequencer.append(STREAM, batch(), None, None, now_ms)
            raise ZeroDivisionError

        first = rig.submit()
        rig.replica.appender.change(faulty, FAR, lambda *result: told.append(result))
        second = rig.submit()
        await rig.settle()
        assert rig.group.engine.last_index == before + 1, "one entry"
        await rig.answer()
        await rig.answer()
        assert [ack and (ack.start.seq_num, ack.end.seq_num) for ack, _ in first + second] == [
            (0, 1),
            (1, 2),
        ]
        [(nothing, fault)] = told
        assert nothing is None
        assert isinstance(fault, InternalError)
        assert not fault.may_have_taken_effect

    played(body)


def test_what_was_assumed_ends_with_the_leadership() -> None:
    """An append is lost with its leadership. Leading again, the same node gives the next append the
    place that the lost one had."""

    async def body(rig: Rig) -> None:
        before = rig.group.engine.last_index
        for _ in range(2):
            # so that nothing that is applied later passes for the lost append's entry
            rig.group.propose(encode_entry([]), 1e12, lambda outcomes, error: None)
        lost = await rig.append(match_seq_num=0)
        assert rig.group.engine.last_index == before + 3
        await rig.follow(2, encode_entry([]), behind=before, commit_index=before + 1)
        assert rig.replica.state.applied_index == before + 1
        assert lost == [], "another leader may still have it"
        await rig.lead()
        await rig.answer()
        again = await rig.append(match_seq_num=0)
        await rig.answer()
        await rig.answer()
        [(ack, refusal)] = again
        assert refusal is None
        assert ack is not None
        assert (ack.start.seq_num, ack.end.seq_num) == (0, 1)
        [(nothing, error)] = lost
        assert nothing is None
        assert isinstance(error, UnavailableError)
        assert not error.may_have_taken_effect

    played(body)


def test_another_leaders_entry_at_the_same_place_acknowledges_nobody() -> None:
    """At the index of the append another term's entry is committed: the append had no effect, and
    that is what its client is told."""

    async def body(rig: Rig) -> None:
        before = rig.group.engine.last_index
        answers: list[tuple[object, ServiceError | None]] = []
        at = rig.group.propose(
            encode_entry([]), 1e12, lambda outcomes, error: answers.append((outcomes, error))
        )
        assert at == before + 1
        await rig.settle()
        await rig.follow(2, encode_entry([]), behind=before, commit_index=at)
        assert rig.replica.state.applied_index == at
        [(outcomes, error)] = answers
        assert outcomes is None
        assert isinstance(error, UnavailableError)
        assert not error.may_have_taken_effect
        assert rig.group.pending_proposals == 0

    played(body)


def test_a_deadline_says_that_the_write_may_have_happened() -> None:
    """Proposed and not committed in time: the outcome is unknown, and the entry still commits."""

    async def body(rig: Rig) -> None:
        answers = await rig.append(deadline=1e9)
        rig.group.sweep(1e9 - 1)
        assert answers == []
        rig.group.sweep(1e9 + 1)
        [(ack, error)] = answers
        assert ack is None
        assert isinstance(error, DeadlineError)
        assert error.may_have_taken_effect
        await rig.answer()
        await rig.answer()
        stream = rig.replica.state.stream_by_name("s")
        assert stream is not None
        assert stream.tail_seq_num == 1
        assert len(answers) == 1

    played(body)


def test_reads_that_wait_for_an_entry_end_with_the_leadership() -> None:
    """A read is confirmed and waits for an entry that is not committed. When the leadership is
    lost it is refused at once: that entry may never come."""

    async def body(rig: Rig) -> None:
        before = rig.group.engine.last_index
        at = rig.group.propose(encode_entry([]), 1e12, lambda outcomes, error: None)
        await rig.settle()
        answers: list[ServiceError | None] = []
        rig.group.linearize(answers.append, at_least=at)
        await rig.settle()
        await rig.answer(up_to=before)
        assert answers == [], "confirmed, and not applied that far"
        rig.group.step(Message(rig.group.engine.members[1], StaleTerm(Term(rig.term + 1))))
        await rig.settle()
        assert rig.group.engine.role is Role.FOLLOWER
        [error] = answers
        assert isinstance(error, NotLeaderHereError)

    played(body)
