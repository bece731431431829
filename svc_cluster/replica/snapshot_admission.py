"""Which snapshots a node takes: of whom, over which log, and of which release."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from svc_cluster.base.configuration import configuration_of
from svc_cluster.base.ids import GroupId, LogIndex, NodeId, Term
from svc_cluster.base.seldom import Seldom
from svc_cluster.raft.learner_group import LearnerGroup
from svc_cluster.replica.group_replica import AnyGroup
from svc_cluster.replica.group_services import GroupServices


class SnapshotAdmission:
    """It tells the receiver of snapshots why one is not taken, or None where it is."""

    def __init__(
        self, services: GroupServices, group_of: Callable[[GroupId], AnyGroup | None]
    ) -> None:
        self._services = services
        self._group_of = group_of
        self._unknown_states = Seldom()

    def sender_refusal(self, group_id: GroupId, sender: NodeId, sender_term: Term) -> str | None:
        """Only the leader's snapshots count. A term has one leader: who leads the term of this
        replica is it, also while no heartbeat comes through."""
        group = self._group_of(group_id)
        if group is None:
            return "no such group here"
        engine = group.engine
        if isinstance(engine, LearnerGroup):
            # what a leader has applied is decided, whichever term of this configuration it leads
            known = engine.learner.configuration
            is_current = known is not None and configuration_of(sender_term) == known.number
            return None if is_current else "this is another configuration's snapshot"
        if sender_term and sender_term != engine.term:
            return "this is another term's snapshot"
        if engine.leader != sender and (engine.leader is not None or not sender_term):
            return "another node leads the group"
        return None

    def state_refusal(
        self, group_id: GroupId, log_index: LogIndex, term: Term, recovery: int
    ) -> str | None:
        group = self._group_of(group_id)
        if group is None:
            return "no such group here"
        if group.fault:
            return "the replica has stopped after a fault"
        if group.stopped:
            return "another install is under way"
        engine = group.engine
        if recovery != engine.recovery:
            return "this was asked for by another life of the replica"
        if recovery:
            return None  # the leader has made sure that it lacks nothing that was promised here
        # installing would throw away entries that this replica has acknowledged
        if engine.commit_index >= log_index or engine.term_at(log_index) == term:
            return "the log holds this already"
        return None

    def unknown_state(self, group_id: GroupId, encoding: int, kinds: Iterable[str]) -> str | None:
        """A state that a newer release may have made is not taken: behind it lies what this one
        would have stopped before. 0 and no kinds are of versions that do not tell."""
        group = self._group_of(group_id)
        assert group is not None, "checked by the receiver in this turn of the loop"
        machine = group.machine
        unknown = sorted(set(kinds) - machine.kinds)
        if encoding <= machine.known.encoding and not unknown:
            return None
        count = self._unknown_states.note(self._services.clock.monotonic())
        if count is not None:
            self._services.log_of(group_id).warning(
                "snapshot_of_newer_release",
                count=count,
                encoding=encoding,
                unknown_kinds=unknown[:10],
                remedy="run a newer release on this node: the replica waits for it",
            )
        return "the state is a newer release's"
