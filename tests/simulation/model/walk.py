"""A random walk through the model: steps and faults, then a calm in which it must work again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.simulation.model.hearing import Hearing
from tests.simulation.model.ledger import ViolationError
from tests.simulation.model.mistakes import NONE, Mistake, Mistakes
from tests.simulation.model.replica import TERMS, Configuration, Replica, Role

CALM_STEPS = 6000


@dataclass(frozen=True, slots=True)
class Options:
    """How one walk is taken."""

    seed: int
    steps: int = 900
    nodes: int = 5
    damages: bool = True
    loses_disks: bool = True
    mistakes: Mistakes = NONE


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one walk."""

    seed: int
    violation: str | None
    counts: dict[str, int] = field(default_factory=dict)


class Walk(Hearing):
    """One walk."""

    def __init__(self, options: Options) -> None:
        super().__init__(options.seed, options.mistakes)
        self.options = options

    def run(self) -> Outcome:
        violation = None
        try:
            for _ in range(self.options.steps):
                self._step()
            self._calm_down()
        except ViolationError as error:
            violation = str(error)
        return Outcome(self.options.seed, violation, dict(self.ledger.counts))

    def _step(self) -> None:
        roll = self.rng.random()
        x = self.rng.choice(self.present())
        if roll < 0.70:
            self._deliver()
        elif roll < 0.712:
            self._time_out(x)
        elif roll < 0.77:
            self._at_a_leader(self.propose)
        elif roll < 0.82:
            self._at_a_leader(self.read)
        elif roll < 0.91:
            for leader in self.leaders():
                self.broadcast(leader)
        elif roll < 0.935:
            self._at_a_leader(self.seal)
        elif roll < 0.96:
            self.pull(x)
            self.after(x, now=True)
        else:
            self._fault(x, roll)
        for y in list(self.replicas.values()):
            if not y.up and not y.gone and self.rng.random() < 0.01:
                y.boot()

    def _at_a_leader(self, do: Callable[[Replica], None]) -> None:
        leaders = self.leaders()
        if leaders:
            do(self.rng.choice(leaders))

    def _fault(self, x: Replica, roll: float) -> None:
        if roll < 0.97:
            self._open_learner(self.rng.randint(1, self.options.nodes))
        elif roll < 0.978:
            if x.up:
                self._crash(x)
        elif roll < 0.992:
            if not x.up:
                x.boot()
        elif roll < 0.9965:
            if self.options.damages:
                self._damage(x)
        elif self.options.loses_disks and (x.is_member or self.rng.random() < 0.1):
            self._lose_disk(x)

    def _open_learner(self, node: int) -> None:
        there = (y for y in self.present() if y.node == node)
        if not any(y.learner or y.is_member for y in there):
            self.new_replica(node)

    def _deliver(self) -> None:
        """One message arrives, is lost, or arrives and stays."""
        if not self.mail:
            return
        any_of_them = self.rng.random() < 0.6
        slot = self.rng.randrange(len(self.mail)) if any_of_them else 0
        mail = self.mail[slot]
        roll = self.rng.random()
        if roll < 0.04 and not self.calm:
            self.mail.pop(slot)
            return
        if roll > 0.06 or self.calm:
            self.mail.pop(slot)
        x = self._which_disk(mail.to)
        if x is not None and not x.gone and x.up:
            self.hear(x, mail)
            self.after(x)

    def _which_disk(self, replica_id: int) -> Replica | None:
        x = self.replicas.get(replica_id)
        old = self.zombies.get(replica_id)
        both = old is not None and Mistake.NO_FENCE in self.mistakes
        return old if both and self.rng.random() < 0.5 else x

    def _time_out(self, x: Replica) -> None:
        disk = self._which_disk(x.replica_id)
        assert disk is not None
        self.campaign(disk)
        if disk.up:
            self.after(disk)

    # Faults

    def _crash(self, x: Replica) -> None:
        x.up = False
        self.ledger.counts["unknown"] += len(x.memory.waiters)
        x.memory.waiters = {}
        x.memory.role = Role.FOLLOWER

    def _damage(self, x: Replica) -> None:
        """Restart on an older durable state, knowing that something is missing."""
        if x.learner or not self._may_lose(x):
            return
        self._crash(x)
        x.load(self.rng.choice(x.history))
        if x.configuration is None or x.learner:
            x.configuration = x.configuration or self.ledger.configurations[1]
            x.learner = False
        x.damaged = self.new_recovery()
        self.hurt.add(x.replica_id)
        self.ledger.counts["damage"] += 1
        x.boot()
        x.save()

    def _lose_disk(self, x: Replica) -> None:
        """The disk is gone: the same node comes back as another replica."""
        if not self._may_lose(x):
            return
        if Mistake.IN_PLACE in self.mistakes and x.is_member and not x.damaged:
            self._replace_in_place(x)
            return
        self._crash(x)
        self.ledger.counts["lost_disks"] += 1
        if Mistake.WIPED_AS_WHOLE in self.mistakes and x.configuration is not None:
            first = self.ledger.configurations[1]
            x.log, x.commit, x.voted, x.term, x.damaged = (), 0, None, TERMS, 0
            if x.replica_id in first.members:
                x.configuration = first
            x.boot()
            x.save()
            return
        self.destroy(x)
        self.hurt.add(x.replica_id)
        self.new_replica(x.node)

    def _replace_in_place(self, x: Replica) -> None:
        self.ledger.counts["in_place"] += 1
        fresh = Replica(x.replica_id, x.node, x.lag)
        fresh.configuration, fresh.learner = self.ledger.configurations[1], False
        fresh.term, fresh.damaged = TERMS, self.new_recovery()
        fresh.save()
        x.boot()
        self.zombies[x.replica_id] = x
        self.replicas[x.replica_id] = fresh
        self.hurt.add(x.replica_id)

    def _may_lose(self, x: Replica) -> bool:
        """Whether at most a minority of each configuration that is not surely over is hurt."""
        hurt = self.hurt | {x.replica_id}
        newest = self.ledger.newest
        for known in self.ledger.configurations.values():
            if known.number < newest.number - 1:
                continue
            harmed = sum(m in hurt or self.replicas[m].damaged != 0 for m in known.members)
            if harmed * 2 >= len(known.members) or sum(m in hurt for m in known.members) > 1:
                return False
        return self._is_established(newest)

    def _is_established(self, newest: Configuration) -> bool:
        if newest.seal_index == 0:
            return True
        members = [self.replicas[member] for member in newest.members]
        return self._count_whole(members, newest) * 2 > len(members)

    def _count_whole(self, members: list[Replica], newest: Configuration) -> int:
        return sum(
            not x.gone and x.configuration is newest and x.is_whole and not x.damaged
            for x in members
        )

    # Calm

    def _calm_down(self) -> None:
        """Faults end; the newest configuration must serve, with all its members in it."""
        self.calm = True
        for x in self.present():
            if not x.up:
                x.boot()
        acked_before = self.ledger.acked_max
        for turn in range(CALM_STEPS):
            self._calm_turn(turn)
            self._deliver()
            if self.ledger.acked_max > acked_before + 2 and self._all_in():
                return
        newest = self.ledger.newest
        alive = [m for m in newest.members if not self._is_lost(self.replicas[m])]
        if len(alive) * 2 > len(newest.members):
            raise ViolationError(f"NOT_LIVE {newest} with {alive}")
        self.ledger.counts["without_quorum"] += 1

    def _is_lost(self, x: Replica) -> bool:
        return x.gone or x.damaged != 0

    def _all_in(self) -> bool:
        newest = self.ledger.newest
        members = [x for x in self.present() if x.replica_id in newest.members]
        return self._count_whole(members, newest) == len(members)

    def _calm_turn(self, turn: int) -> None:
        newest, live = self.ledger.newest, self.present()
        if turn % 40 == 0:
            leaders = [x for x in live if x.leads]
            if turn % 240 == 0 and not any(x.configuration is newest for x in leaders):
                whole = [
                    x
                    for x in live
                    if x.replica_id in newest.members and x.configuration is newest and x.is_whole
                ]
                self._time_out(self.rng.choice(whole or live))
            for x in leaders:
                self.broadcast(x)
            for x in live:
                self.pull(x)
            for x in leaders:
                self.propose(x)
            if turn % 240 == 120:
                for x in live:  # who hears nothing asks around
                    if x.is_member and x.number < newest.number:
                        self._time_out(x)
        if turn % 900 == 899 and turn > 2500:
            for x in live:  # the operator's cure: leave out who is lost or damaged
                if x.leads and x.configuration is newest:
                    self.seal(x)


def run(options: Options) -> Outcome:
    return Walk(options).run()
