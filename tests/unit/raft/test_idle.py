"""Whether a replica has anything to carry out: what a tick brings must not be missed."""

from __future__ import annotations

import random

from svc_cluster.base.ids import Generation, GroupId, LogIndex, NodeId
from svc_cluster.base.log_ops import RecoveredLog
from svc_cluster.raft.engine import EngineGroup
from svc_cluster.raft.group import PeerUp, Tick
from svc_cluster.raft.raft_settings import RaftSettings

MEMBERS = [NodeId(1), NodeId(2), NodeId(3)]


def test_a_tick_that_begins_an_election_leaves_something_to_do() -> None:
    """Ticks before it leave nothing, and neither do those behind it, once that is carried out."""
    engine = EngineGroup(
        group_id=GroupId(1),
        node_id=MEMBERS[0],
        members=MEMBERS,
        recovered=RecoveredLog(GroupId(1), Generation(1)),
        applied_index=LogIndex(0),
        rng=random.Random(1),
        settings=RaftSettings(),
    )
    engine.step(PeerUp(MEMBERS[1]))
    engine.step(Tick(10.0))
    engine.ready()
    seen = engine.role, engine.term
    engine.step(Tick(10.01))
    assert engine.is_idle(seen)
    engine.step(Tick(20.0))
    assert not engine.is_idle(seen), "it asks the others for their votes"
    ready = engine.ready()
    assert ready is not None
    assert [to for to, _ in ready.messages] == [MEMBERS[1]]
    assert engine.is_idle((engine.role, engine.term))
    other = next(term for term in (0, 1, 99) if term != engine.term)
    assert not engine.is_idle((engine.role, type(engine.term)(other))), "a new term was not seen"
