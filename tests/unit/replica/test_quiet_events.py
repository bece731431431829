"""What a group has to carry out because of an event, and of which there is nothing."""

from __future__ import annotations

from svc_cluster.base.configuration import TERM_BITS
from svc_cluster.base.ids import LogIndex, NodeId, Term
from svc_cluster.raft.group import Message, PeerUp, Tick
from svc_cluster.raft.messages import AppendResponse
from svc_cluster.replica.quiet_events import brings_nothing
from tests.unit.replica.leading import Rig, played


def _waiting(rig: Rig) -> int:
    """Visits that wait for a turn."""
    return len(rig.group._services.turns)


def _acknowledged(rig: Rig, peer: int, *, term: Term | None = None) -> Message:
    """The peer has all of the log."""
    last = rig.group.engine.last_index
    said = rig.term if term is None else term
    body = AppendResponse(said, LogIndex(last + 1), True, False, 10**6)
    return Message(NodeId(peer), body)


def test_the_acknowledgement_of_a_quorum_is_carried_out_and_those_behind_it_are_noted() -> None:
    async def body(rig: Rig) -> None:
        answers = rig.submit()
        await rig.settle()
        assert _waiting(rig) == 0 and not answers
        rig.group.step(_acknowledged(rig, 3))
        assert _waiting(rig) == 1
        await rig.settle()
        [(ack, error)] = answers
        assert ack is not None and error is None
        engine = rig.group.engine
        assert engine.match_index(NodeId(2)) < engine.last_index
        rig.group.step(_acknowledged(rig, 2))
        assert _waiting(rig) == 0
        assert engine.match_index(NodeId(2)) == engine.last_index, "it is known all the same"

    played(body)


def test_a_read_that_an_acknowledgement_confirms_is_answered() -> None:
    """No entry waits for it: the read does."""

    async def body(rig: Rig) -> None:
        told: list[object] = []
        rig.group.linearize(told.append)
        await rig.settle()
        assert not told
        rig.group.step(_acknowledged(rig, 2))
        assert _waiting(rig) == 1
        await rig.settle()
        assert told == [None]

    played(body)


def test_who_speaks_of_a_later_configuration_is_looked_at() -> None:
    """Be it with an acknowledgement: this replica asks what it has missed."""

    async def body(rig: Rig) -> None:
        asked: list[int] = []
        rig.group.seam.on_behind = lambda: asked.append(1)
        rig.group.step(_acknowledged(rig, 3))
        await rig.settle()
        assert not asked
        rig.group.step(_acknowledged(rig, 2, term=Term(1 << TERM_BITS)))
        await rig.settle()
        assert asked

    played(body)


def test_everything_else_is_carried_out() -> None:
    async def body(rig: Rig) -> None:
        await rig.settle()
        engine, seen = rig.group.engine, rig.group._seen
        assert brings_nothing(Tick(rig.now), engine, seen)
        assert brings_nothing(_acknowledged(rig, 2), engine, seen)
        assert not brings_nothing(PeerUp(NodeId(2)), engine, seen)
        assert not brings_nothing(Tick(rig.now), engine, (seen[0], Term(seen[1] + 1)))

    played(body)
