"""Numbered batches at the sequencer: only the next of a session is taken, in one leadership."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svc_cluster.base.errors import SeqNumMismatchError, ServiceError, UnavailableError
from svc_cluster.base.ids import LogIndex, StreamId
from svc_cluster.model.record import SessionSequence
from svc_cluster.stream.journal import Journal
from svc_cluster.stream.sequencer import Sequencer
from svc_cluster.stream.sessions import Sessions
from tests.unit.stream.support import NOW, Leader, batch, reasons

ONE, OTHER = b"1" * 16, b"2" * 16


def with_stream() -> Leader:
    leader = Leader()
    leader.create("s")
    return leader


def append(leader: Leader, number: int, *, session: bytes = ONE, match: int | None = None) -> None:
    """Handed out; nothing is proposed yet."""
    leader.sequencer.append(
        "s", batch(), match, None, NOW, session=SessionSequence(session, number)
    )


def refused(leader: Leader, number: int, *, session: bytes = ONE) -> bool:
    """Without effect: the tail that is assumed stays."""
    before = leader.sequencer.append("s", batch(), None, None, NOW).placement.end_seq_num
    try:
        append(leader, number, session=session)
    except UnavailableError:
        after = leader.sequencer.append("s", batch(), None, None, NOW).placement.first_seq_num
        assert after == before
        return True
    return False


def test_only_the_next_number_of_a_session_is_taken() -> None:
    """Neither one that comes early, nor one again; sessions do not know of each other."""
    leader = with_stream()
    assert refused(leader, 1)
    append(leader, 0)
    assert refused(leader, 0)
    assert refused(leader, 2)
    append(leader, 0, session=OTHER)
    append(leader, 1)
    assert refused(leader, 3, session=OTHER)
    append(leader, 2)
    append(leader, 1, session=OTHER)


def test_behind_a_refused_batch_nothing_of_its_session_is_taken() -> None:
    """The one behind has no condition of its own: only its sequence keeps it out."""
    leader = with_stream()
    append(leader, 0)
    with pytest.raises(SeqNumMismatchError):
        append(leader, 1, match=17)
    assert refused(leader, 2)
    assert refused(leader, 3)


def test_a_batch_that_never_reached_the_sequencer_keeps_those_behind_it_out() -> None:
    """As when its deadline passed in the queue, or the queue was full."""
    leader = with_stream()
    append(leader, 0)
    assert refused(leader, 2)


@pytest.mark.parametrize("what", ["reset", "rejected"])
def test_a_session_does_not_outlive_what_was_assumed(what: str) -> None:
    """A leadership that ends, or a command that apply rejects: the next number is refused, and so
    is every later one, until a new session begins."""
    leader = with_stream()
    append(leader, 0)
    getattr(leader.sequencer, what)()
    leader.sequencer.reset()
    assert refused(leader, 1)
    assert refused(leader, 2)
    append(leader, 0, session=OTHER)


def test_a_session_does_not_go_over_to_the_streams_successor() -> None:
    """The stream is deleted, purged and made again under the same name."""
    leader = with_stream()
    first = leader.stream("s").stream_id
    leader.run(
        leader.sequencer.append("s", batch(), None, None, NOW, session=SessionSequence(ONE, 0))
    )
    leader.run(leader.sequencer.delete_stream("s", NOW))
    leader.run(leader.sequencer.purge(first))
    leader.create("s")
    assert refused(leader, 1)


def test_a_new_leader_takes_no_session_of_another() -> None:
    """Its sequencer has the same applied state and has seen none of the batches."""
    leader = with_stream()
    leader.run(
        leader.sequencer.append("s", batch(), None, None, NOW, session=SessionSequence(ONE, 0))
    )
    successor = Sequencer(leader.state)
    with pytest.raises(UnavailableError):
        successor.append("s", batch(), None, None, NOW, session=SessionSequence(ONE, 1))


def test_what_is_kept_of_sessions_is_bounded() -> None:
    """The one that was silent for longest is forgotten: it is refused, never mistaken."""
    sessions = Sessions(sessions_max=2)
    ids = [bytes([n]) * 16 for n in range(3)]
    stream = StreamId(1)
    for session_id in ids[:2]:
        sessions.take(SessionSequence(session_id, 0), stream, Journal())
    sessions.take(SessionSequence(ids[0], 1), stream, Journal())
    sessions.take(SessionSequence(ids[2], 0), stream, Journal())
    assert len(sessions) == 2
    sessions.check(SessionSequence(ids[0], 2), stream)
    with pytest.raises(UnavailableError):
        sessions.check(SessionSequence(ids[1], 1), stream)


ACTIONS = st.one_of(
    st.tuples(st.just("send"), st.integers(0, 2), st.integers(0, 6), st.booleans()),
    st.tuples(st.just("propose"), st.just(0), st.just(0), st.just(False)),
    st.tuples(st.just("lose"), st.just(0), st.just(0), st.just(False)),
    st.tuples(st.just("apply"), st.just(0), st.just(0), st.just(False)),
)


@settings(deadline=None, max_examples=200)
@given(st.lists(ACTIONS, max_size=60))
def test_whatever_arrives_in_whatever_order_no_batch_is_there_without_the_one_before(
    actions: list[tuple[str, int, int, bool]],
) -> None:
    """Ordinals come in any order, from before and after a change of leader, some with a condition
    that fails, while entries are proposed, applied, or lost with the leadership; only what was lost
    is sent again. Of each session the applied batches are the first ones, in their order."""
    leader = with_stream()
    handed_out: list[tuple[object, SessionSequence]] = []
    in_flight: list[tuple[LogIndex, list[tuple[object, SessionSequence]]]] = []
    applied: dict[bytes, list[int]] = {}
    taken: set[SessionSequence] = set()
    for action, session, number, conditional in actions:
        match action:
            case "send":
                sequence = SessionSequence(bytes([session]) * 16, number)
                if sequence in taken:
                    continue
                try:
                    command = leader.sequencer.append(
                        "s", batch(), 10**6 if conditional else None, None, NOW, session=sequence
                    )
                except ServiceError:
                    continue
                taken.add(sequence)
                handed_out.append((command, sequence))
            case "propose" if handed_out:
                index = LogIndex(leader.state.applied_index + len(in_flight) + 1)
                leader.sequencer.proposed(index)
                in_flight.append((index, handed_out))
                handed_out = []
            case "apply" if in_flight:
                index, entry = in_flight.pop(0)
                plan = leader.apply([command for command, _ in entry])  # type: ignore[misc]
                assert reasons(plan) == [None] * len(entry)
                leader.sequencer.applied(index)
                for _, sequence in entry:
                    applied.setdefault(sequence.session_id, []).append(sequence.number)
            case "lose":
                leader.sequencer.reset()
                lost = [*handed_out, *(each for _, entry in in_flight for each in entry)]
                taken -= {sequence for _, sequence in lost}
                handed_out, in_flight = [], []
            case _:
                pass  # there is nothing to propose or to apply
    for numbers in applied.values():
        assert numbers == list(range(len(numbers)))
