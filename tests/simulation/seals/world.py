"""Nodes with copies of one group that changes its members: one seed, one history."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

from svc_cluster.base.configuration import Configuration, GroupMember
from svc_cluster.base.ids import NodeId, ReplicaId
from svc_cluster.model.versions import SEALED_CONFIGURATIONS
from svc_cluster.raft.group import EngineFault
from svc_cluster.raft.readiness import ReplicaWord, Sealing, refusal
from svc_cluster.raft.seal import GroupSeal
from tests.simulation.core.checkers import ViolationError
from tests.simulation.seals.copy_of_group import Copy
from tests.simulation.seals.links import Links
from tests.simulation.seals.options import HostMistake, SealOptions

NEARLY = 4
"""Entries that a next member may lack where readiness is not asked for."""


@dataclass(frozen=True, slots=True)
class SealOutcome:
    """What came of one seed."""

    seed: int
    violation: str | None
    acked: int
    reads: int
    counts: dict[str, int]
    trace: str
    """Digest of everything that was sent, and when."""


class SealWorld(Links):
    """All copies of one run in virtual time."""

    def __init__(self, options: SealOptions) -> None:
        super().__init__(options)
        for member in self.first.members:
            self._place(member.node_id, member.replica_id)

    def _place(self, node_id: NodeId, replica_id: ReplicaId) -> Copy:
        copy = Copy(self, node_id, replica_id)
        self.places[node_id] = self.copies[replica_id] = copy
        return copy

    # Running

    def run(self) -> SealOutcome:
        violation = None
        try:
            self._run()
        except ViolationError as error:
            violation = f"{error} at {self.now:.3f}"
        except EngineFault as fault:
            violation = f"ENGINE_FAULT {fault} at {self.now:.3f}"
        except AssertionError as error:
            violation = f"ASSERTION {error} at {self.now:.3f}"
        checkers = self.checkers
        return SealOutcome(
            self.options.seed,
            violation,
            checkers.acked_count,
            checkers.read_count,
            dict(checkers.counts),
            self.trace.hexdigest(),
        )

    def _run(self) -> None:
        for copy in list(self.places.values()):
            copy.start()
        self._often((0.02, 0.06), self._tick_all)
        self._often((0.1, 1.0), self._flush_one)
        self._often((0.05, 0.4), self._pull_around)
        rate = self.options.proposals_per_second
        self._often((0.2 / rate, 1.8 / rate), self._work)
        seal_seconds = self.options.seal_seconds
        self._often((seal_seconds / 2, seal_seconds * 1.5), self._seal_somewhere)
        self._often((0.1, 0.9), self._open_learner)
        self._often((0.1, 0.9), self._destroy_old)
        fault_seconds = self.options.fault_seconds
        self._often((fault_seconds / 2, fault_seconds * 1.5), self._fault)
        self._run_until(self.now + self.options.chaos_seconds)
        self._calm_down()

    def _often(self, pause: tuple[float, float], action: Callable[[], None]) -> None:
        def once() -> None:
            action()
            self.schedule(self.rng.uniform(*pause), once)

        self.schedule(self.rng.uniform(0.0, pause[1]), once)

    def _run_until(self, end: float) -> None:
        while self.queue and self.queue[0][0] <= end:
            self.now, _, action = heapq.heappop(self.queue)
            action()
        self.now = end

    def _calm_down(self) -> None:
        """All is healed: the newest configuration serves, and its members become equal."""
        self.calm = True
        self.blocked.clear()
        for copy in list(self.places.values()):
            self._restart(copy)
        self.connect_all()
        quiet = self.options.quiet_seconds
        self._run_until(self.now + quiet / 2)
        acked = self.checkers.acked_count
        for _ in range(3):
            self._run_until(self.now + quiet / 2)
            if self.checkers.acked_count > acked and self._is_settled():
                return
        newest = self.checkers.newest
        members = [self.copies[member.replica_id] for member in newest.members]
        lost = [copy for copy in members if copy.gone or copy.disk.damaged]
        if lost:
            # who repairs hears all others: of five with one damaged and one gone it waits
            self.checkers.counts["without_all"] += 1
            return
        found = [(copy.node_id, str(copy.configuration), copy.is_whole) for copy in members]
        raise ViolationError(f"NOT_LIVE {newest} with {found}")

    def _is_settled(self) -> bool:
        newest = self.checkers.newest
        members = [self.copies[member.replica_id] for member in newest.members]
        return all(copy.is_whole and copy.configuration == newest for copy in members)

    # What happens all the time

    def _tick_all(self) -> None:
        for copy in list(self.places.values()):
            copy.tick()

    def _flush_one(self) -> None:
        self.rng.choice(list(self.places.values())).flush_and_trim()

    def _work(self) -> None:
        for copy in list(self.places.values()):
            self.proposed += 1
            copy.propose(b"\x09%d" % self.proposed + b"." * self.rng.choice([0, 0, 5, 30]))
            if self.rng.random() < 0.4:
                copy.read()

    def _pull_around(self) -> None:
        for copy in list(self.places.values()):
            others = [node for node in self.places if node != copy.node_id]
            if others and copy.wants_feed:
                self.pull(copy, self.rng.choice(others))

    # Seals

    def _seal_somewhere(self) -> None:
        if self.calm:
            return
        for copy in list(self.places.values()):
            engine = copy.engine
            if engine is None or not engine.can_propose:
                continue
            if engine.term_at(engine.commit_index) != engine.term:
                continue
            members = self._next_members(copy)
            if members is not None:
                engine.seal(GroupSeal(self.scheduled, members))
                self.checkers.counts["proposed_seals"] += 1
                copy.drain()
            return

    def _next_members(self, leader: Copy) -> tuple[GroupMember, ...] | None:
        engine = leader.engine
        assert engine is not None
        up = [copy for copy in self.places.values() if copy.life and not copy.life.switching]
        near = [
            GroupMember(copy.node_id, copy.replica_id)
            for copy in up
            if not copy.disk.damaged and copy.last_index + NEARLY >= engine.last_index
        ]
        size = self.rng.choice([1, 3, 3, 3, 3, 5])
        choices = list(combinations(sorted(near), size)) if len(near) >= size else []
        if not choices:
            return None
        chosen = self.rng.choice(choices)
        if chosen == engine.seam.configuration.members:
            return None
        if not self.options.asks_readiness:
            return chosen
        words = {
            copy.replica_id: ReplicaWord(copy.disk.last_index, self.now, recovers=copy.disk.damaged)
            for copy in up
        }
        view = Sealing(
            SEALED_CONFIGURATIONS,
            engine.seam.configuration,
            chosen,
            engine.last_index,
            self.now,
            words,
        )
        return chosen if refusal(view) is None else None

    def _open_learner(self) -> None:
        free = [node for node in self.nodes if node not in self.places]
        if free and not self.calm:
            self._new_copy(self.rng.choice(free))

    def _new_copy(self, node_id: NodeId) -> None:
        self.next_replica_id += 1
        self._place(node_id, ReplicaId(self.next_replica_id)).start()
        self.connect_all()

    def _destroy_old(self) -> None:
        """Whose group has gone on without it: known once the next one has committed an entry."""
        checkers = self.checkers
        if not checkers.established:
            return
        newest = checkers.decided[max(checkers.established)]
        if self.options.mistake is HostMistake.DESTROYED_AT_SEAL:
            newest = checkers.newest
        for node_id, copy in list(self.places.items()):
            later = [c for c in checkers.decided.values() if c.number >= newest.number]
            was = any(c.includes(copy.replica_id) for c in checkers.decided.values())
            if not was or any(c.includes(copy.replica_id) for c in later):
                continue
            if self.rng.random() < 0.5:
                self._destroy(node_id, newest)

    def _destroy(self, node_id: NodeId, newest: Configuration) -> None:
        holding = [
            copy
            for copy in (self.copies[member.replica_id] for member in newest.members)
            if copy.configuration.number > newest.number
            or (copy.configuration == newest and copy.is_whole)
        ]
        if len(holding) < newest.quorum and not self.hurt:
            raise ViolationError(f"DESTROYED_EARLY on {node_id} with {len(holding)} of {newest}")
        copy = self.places.pop(node_id)
        copy.crash()
        copy.gone = True
        self.peers_see(node_id, is_up=False)
        self.checkers.counts["destroyed"] += 1

    # Faults

    def _fault(self) -> None:
        if self.calm or not self.places:
            return
        copy = self.rng.choice(list(self.places.values()))
        match self.rng.randrange(9):
            case 0 | 1:
                self._crash(copy)
            case 2:
                if self.rng.random() < 0.2:
                    for each in list(self.places.values()):
                        self._crash(each)
            case 3:
                others = [node for node in self.nodes if node != copy.node_id]
                self.blocked = {(copy.node_id, other) for other in others}
                self.blocked |= {(other, copy.node_id) for other in others}
            case 4:
                one, other = self.rng.sample(self.nodes, 2)
                self.blocked.add((one, other))
            case 5:
                self.blocked.clear()
            case 6:
                if self.options.damages and self._may_lose(copy):
                    self._crash(copy)
                    copy.damage()
                    self.hurt.add(copy.replica_id)
                    self.checkers.counts["damages"] += 1
            case 7:
                if self.options.loses_disks and self._may_lose(copy):
                    self._lose_disk(copy)
            case _:
                engine = copy.engine
                if engine is not None and engine.can_propose:
                    engine.transfer_leadership(self.rng.choice(self.nodes))
                    copy.drain()

    def _crash(self, copy: Copy) -> None:
        if copy.life is None:
            return
        self.checkers.counts["crashes"] += 1
        copy.crash()
        self.peers_see(copy.node_id, is_up=False)
        self.schedule(self.rng.uniform(0.02, 1.5), lambda: self._restart(copy))

    def _restart(self, copy: Copy) -> None:
        if copy.life is None and not copy.gone:
            copy.start()
            self.peers_see(copy.node_id, is_up=True)

    def _lose_disk(self, copy: Copy) -> None:
        """The node comes back with an empty one, as another replica."""
        copy.crash()
        if self.options.mistake is HostMistake.WIPED_AS_WHOLE:
            copy.lose_disk()
            self._restart(copy)
            return
        copy.gone = True
        self.hurt.add(copy.replica_id)
        self.peers_see(copy.node_id, is_up=False)
        del self.places[copy.node_id]
        self._new_copy(copy.node_id)
        self.checkers.counts["lost_disks"] += 1

    def _may_lose(self, copy: Copy) -> bool:
        """Whether at most one member is hurt, a minority, of each configuration that is not surely
        over: the newest and the one before, and the newest is begun by a quorum of its own."""
        hurt = self.hurt | {copy.replica_id}
        newest = self.checkers.newest
        for known in self.checkers.decided.values():
            harmed = [m for m in known.members if m.replica_id in hurt]
            if known.number >= newest.number - 1 and (
                len(harmed) > 1 or len(harmed) * 2 >= len(known.members)
            ):
                return False
        members = [self.copies[member.replica_id] for member in newest.members]
        begun = [c for c in members if not c.gone and c.configuration == newest and c.is_whole]
        return len(begun) >= newest.quorum and not self._is_sealing()

    def is_first_over(self) -> bool:
        """Whether some later configuration is begun by a quorum of its own."""
        for known in self.checkers.decided.values():
            members = [self.copies.get(member.replica_id) for member in known.members]
            numbers = [c.configuration.number for c in members if c is not None and not c.gone]
            if sum(number >= known.number > 0 for number in numbers) >= known.quorum:
                return True
        return False

    def _is_sealing(self) -> bool:
        """Whether the members to come are not known to everybody yet: they count as well."""
        for copy in self.places.values():
            engine = copy.engine
            if engine is not None and engine.seam.seal_index is not None:
                return True
        return False


def run(options: SealOptions) -> SealOutcome:
    return SealWorld(options).run()
