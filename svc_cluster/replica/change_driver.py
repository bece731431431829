"""The leader of a group carries out the change of its members that the catalog has ordered.

It waits until the next members are ready, asks for leave, seals; the leader of the configuration
that begins says so to the catalog. Why a change that is given up is never sealed: docs/adr/0059.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.configuration import Configuration, first_configuration
from svc_cluster.base.ids import GroupId, NodeId, ReplicaId, Term
from svc_cluster.base.tasks import Tasks
from svc_cluster.catalog.group_change import GroupChange, GroupRow, members_of_replicas
from svc_cluster.raft.readiness import HEARD_SECONDS_MAX, ReplicaWord, Sealing, refusal
from svc_cluster.raft.seal import GroupSeal
from svc_cluster.replica.seamed import number_of

if TYPE_CHECKING:
    from svc_cluster.replica.host import Host, Replica

LOOK_SECONDS: Final = 0.1
"""How often the leader looks whether the next members are ready."""

PAUSE_SECONDS: Final = 1.0
"""For so long writes wait at most, before the seal, for those that are on their way."""

SEALED_SECONDS: Final = 2.0
"""For so long they wait behind the seal, while the next configuration begins."""

ABSENT_SECONDS: Final = 10.0
"""A node that has been away for so long is not waited for: nobody knows what it still has."""

UNSEEN_SECONDS: Final = 2.0
"""Between two looks at a node, behind which it is not known that it was away all the time."""

WAIT_SECONDS: Final = 0.005

DAMAGED_SECONDS: Final = 2.0
"""For so long a new replica says that it is damaged before its change is given up. One that stood
in its place before, and goes, has said its last word by then."""

WISHED_SECONDS: Final = 1.0
"""Between two wishes that a change be given up."""


class ChangeDriver:
    """The one of a node, for the groups that it leads."""

    def __init__(self, host: Host, on_failure: Callable[[BaseException], None]) -> None:
        self._host = host
        self._tasks = Tasks(on_failure=on_failure)
        self._running: set[GroupId] = set()
        self.words: dict[GroupId, dict[NodeId, ReplicaWord]] = {}
        """What replicas that are no members have said of themselves when they asked for more."""
        self.reasons: dict[GroupId, str] = {}
        """Why a change that is to be sealed here is not, as looked at last."""
        self.ended: dict[GroupId, str] = {}
        """How the last change ended that was given up here, until another one is begun."""
        self._damaged: dict[GroupId, tuple[tuple[int, NodeId], float]] = {}
        """Which new replica says that it is damaged: of which change, on which node, since when."""
        self._away: dict[NodeId, tuple[float, float]] = {}
        """Nodes with members of open changes that were away at every look: since when, and when
        they were looked at last."""
        self.seals = 0
        """Seals that this node has made."""

    async def stop(self) -> None:
        await self._tasks.cancel_all()

    def look(self, replica: Replica, record: GroupRow) -> None:
        """Begin with what is open for a group that is led here; may be repeated."""
        group_id = record.group_id
        if record.change is not None and group_id not in self._running:
            self._running.add(group_id)
            self.ended.pop(group_id, None)
            self._tasks.spawn(self._run(group_id), "change members")

    def heard(self, group_id: GroupId, node_id: NodeId, word: ReplicaWord) -> None:
        """A replica has said what it holds."""
        self.words.setdefault(group_id, {})[node_id] = word

    def _open(self, group_id: GroupId) -> tuple[Replica, GroupRow, GroupChange] | None:
        """What there is to be done here now; None: nothing."""
        replica, record = self._host.replica(group_id), self._host.rows.trusted(group_id)
        if replica is None or record is None or record.change is None:
            return None
        return (replica, record, record.change) if replica.group.is_serving else None

    async def _run(self, group_id: GroupId) -> None:
        try:
            while (found := self._open(group_id)) is not None:
                found[0].group.rest.used()  # at rest nobody says what the members hold
                if not await self._step(*found):
                    return
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            self._running.discard(group_id)
            self.reasons.pop(group_id, None)
            self.words.pop(group_id, None)
            self._damaged.pop(group_id, None)

    async def _step(self, replica: Replica, record: GroupRow, change: GroupChange) -> bool:
        """One step. Whether there is another one to be made here."""
        engine = replica.group.engine
        number = number_of(engine)
        if number == record.configuration + 1:
            self.ended.pop(record.group_id, None)  # the wish came too late
            await self._report(record, change, pb.CHANGE_STEP_CONFIGURED, engine.term)
            return True
        if number != record.configuration:
            return False
        if change.is_cancelled:
            # no seal is in the log of who serves, and none is made behind this row
            await self._report(record, change, pb.CHANGE_STEP_GIVEN_UP, engine.term)
            return True
        damaged = self._damaged_newcomer(replica, change)
        if damaged is not None:
            await self._give_up(replica, record, change, damaged)
            return True
        reason = self.refusal(replica, record, change)
        self.reasons[record.group_id] = reason or ""
        if reason is not None:
            return True
        if change.sealing_term != engine.term:
            await self._report(record, change, pb.CHANGE_STEP_READY, engine.term)
            return True
        await self._seal(replica, change)
        return True

    def _damaged_newcomer(self, replica: Replica, change: GroupChange) -> NodeId | None:
        """A node that is to have a replica, on which the new one goes on saying that it is damaged.
        Nothing mends a copy that is no member: it may have forgotten a promise of a later
        configuration. A word may still be of a copy of before, which goes meanwhile."""
        group, now = replica.group, self._host.services.clock.monotonic()
        words = self.words.get(group.group_id, {})
        of, since = self._damaged.get(group.group_id, (None, now))
        for node in change.replicas:
            word = words.get(node)
            if word is None or node in group.engine.members or not word.recovers:
                continue
            if now - word.heard_at > HEARD_SECONDS_MAX:
                continue
            if of != (change.change_id, node):
                of, since = (change.change_id, node), now
            self._damaged[group.group_id] = of, since
            return node if now - since >= DAMAGED_SECONDS else None
        self._damaged.pop(group.group_id, None)
        return None

    async def _give_up(
        self, replica: Replica, record: GroupRow, change: GroupChange, damaged: NodeId
    ) -> None:
        """Wish the change given up, as an operator would. The damaged copy goes with it; whoever
        wants it asks again, for a replica under another number.

        The leader's own word, that it makes no seal, is not given: behind it leave may come that
        was asked for before, to who then still sees a change."""
        group_id = record.group_id
        reason = f"the new replica on node {damaged} is damaged"
        self.reasons[group_id] = reason
        told = f"the move to {', '.join(map(str, change.replicas))} was given up: {reason}"
        if self.ended.get(group_id) != told:
            self.ended[group_id] = told
            self._host.services.log_of(group_id).warning(
                "change_given_up", change_id=change.change_id, reason=reason
            )
        await self._report(record, change, pb.CHANGE_STEP_GIVEN_UP, Term(0))
        await asyncio.sleep(WISHED_SECONDS)

    async def _report(
        self,
        record: GroupRow,
        change: GroupChange,
        step: pb.ChangeStep,
        term: Term,
    ) -> None:
        def fill(request: pb.Request) -> None:
            said = request.report_change
            said.group_id, said.change_id = record.group_id, change.change_id
            said.term, said.step = term, step
            said.configuration = record.configuration + 1

        await self._host.ask_catalog(fill)

    # -- the seal

    async def _seal(self, replica: Replica, change: GroupChange) -> None:
        group = replica.group
        with replica.proposer.pause():
            await _while(lambda: group.pending_proposals > 0, PAUSE_SECONDS)
            if not self._may_seal(replica, change):
                return
            members = members_of_replicas(change.replicas, change.replica_ids)
            if group.seam.seal(GroupSeal(change.change_id, members)):
                self.seals += 1
            await _while(lambda: not group.stopped, SEALED_SECONDS)

    def _may_seal(self, replica: Replica, change: GroupChange) -> bool:
        """Everything once more, as it is now; nothing may wait between this and the seal."""
        group = replica.group
        found = self._open(group.group_id)
        if found is None or found[0] is not replica or group.pending_proposals:
            return False
        _, record, now = found
        is_allowed = now.sealing_term == group.engine.term and not now.is_cancelled
        is_same = now.change_id == change.change_id
        if not (is_allowed and is_same and number_of(group.engine) == record.configuration):
            return False
        return self.refusal(replica, record, now) is None

    def refusal(self, replica: Replica, record: GroupRow, change: GroupChange) -> str | None:
        """Why the configuration cannot be sealed now; None: it can."""
        services, engine = self._host.services, replica.group.engine
        now = services.clock.monotonic()
        known = engine.configuration or first_configuration(engine.members)
        view = Sealing(
            services.version.active,
            known,
            members_of_replicas(change.replicas, change.replica_ids),
            engine.last_index,
            now,
            self._held(replica, known, change, now),
            frozenset(
                member.replica_id
                for member in known.members
                if self._may_be_there(member.node_id, now)
            ),
        )
        return refusal(view)

    def _may_be_there(self, node_id: NodeId, now: float) -> bool:
        """Whether a node has not been away for long; called at each look."""
        if node_id == self._host.services.node_id or self._host.is_peer_up(node_id):
            self._away.pop(node_id, None)
            return True
        since, looked_at = self._away.get(node_id, (now, now))
        if now - looked_at > UNSEEN_SECONDS:
            since = now  # no change was open: it may have been there meanwhile
        self._away[node_id] = (since, now)
        return now - since < ABSENT_SECONDS

    def _held(
        self, replica: Replica, known: Configuration, change: GroupChange, now: float
    ) -> dict[ReplicaId, ReplicaWord]:
        engine, held = replica.group.engine, {}
        if replica.group.seam.heard_at is None:
            replica.group.seam.heard_at = {}  # listened to from now on
        heard = replica.group.seam.heard_at
        for member in known.members:
            node = member.node_id
            if node == engine.node_id:
                held[member.replica_id] = ReplicaWord(engine.durable_index, now)
            elif node in heard:
                recovers = engine.repair_of(node) is not None
                word = ReplicaWord(engine.match_index(node), heard[node], recovers)
                held[member.replica_id] = word
        words = self.words.get(replica.group.group_id, {})
        for node, replica_id in zip(change.replicas, change.replica_ids, strict=True):
            if replica_id not in held and node in words and node not in known.nodes:
                held[replica_id] = words[node]
        return held


async def _while(holds: Callable[[], bool], seconds: float) -> None:
    """Wait as long as it holds, and no longer than this."""
    for _ in range(round(seconds / WAIT_SECONDS)):
        if not holds():
            return
        await asyncio.sleep(WAIT_SECONDS)
