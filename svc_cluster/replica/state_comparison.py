"""A replica asks the others for the digest of their state, and tells its own."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from svc_cluster.base.ids import NodeId
from svc_cluster.raft.messages import MarkKind, StateMark
from svc_cluster.replica.group_services import GroupServices
from svc_cluster.replica.state_marks import Outgoing, StateMarks

if TYPE_CHECKING:
    from svc_cluster.replica.group_replica import AnyGroup


class StateComparison:
    """One replica's part in it; what it finds is told by the group's `on_diverged`."""

    def __init__(self, group: AnyGroup, services: GroupServices) -> None:
        engine, machine = group.engine, group.machine
        self._group = group
        self._services = services
        self._marks = StateMarks(engine.node_id, engine.members, machine.known.encoding)
        # in a quiet group nothing else is applied for long, and it is asked for this
        self._marks.applied(machine.applied_index, machine.digest)
        self.scrub_versions: dict[NodeId, tuple[int, int]] = {}
        """Version of the scrub and encoding that other replicas have said."""

    def begin(self) -> bool:
        """Ask the others, with this replica as leader, for their state's digest at the index
        applied here. To be called now and then. Returns whether the last round ended in doubt: no
        quorum has one state."""
        group = self._group
        if not group.is_serving or len(group.engine.members) == 1:
            return False
        in_doubt = self._marks.undecided
        term = group.engine.term
        self._send(self._marks.ask(term, group.applied_index, group.machine.digest))
        return in_doubt

    def are_equal(self, others: Collection[NodeId]) -> bool:
        """Whether those are known to hold what this replica holds, with all that is applied here.
        Of nobody else that is always so."""
        return not others or self._marks.are_equal(self._group.applied_index, others)

    def received(self, sender: NodeId, mark: StateMark) -> None:
        """Another replica asks for, or tells, a digest."""
        group = self._group
        engine = group.engine
        if group.stopped or engine.recovery or mark.sender_term != engine.term:
            return
        expected = group.is_serving if mark.kind is MarkKind.ANSWER else sender == engine.leader
        if not expected:
            return
        self.scrub_versions[sender] = (mark.scrub, mark.encoding)
        self._send(self._marks.received(sender, mark))
        if self._marks.diverged:
            group.on_diverged("a quorum has another state")
        elif mark.kind is MarkKind.ANSWER:
            group.attempt(group.rest.compared)

    def applied(self) -> None:
        """Another entry is in the state; perhaps somebody waits for its digest."""
        machine = self._group.machine
        self._send(self._marks.applied(machine.applied_index, machine.digest))

    def _send(self, marks: Outgoing) -> None:
        for peer, mark in marks:
            said = replace(mark, scrub=self._services.scrub_version)
            self._services.peers.send(peer, self._group.group_id, said)
