"""The seam of the model: how a configuration ends on a replica, and who learns of the next one."""

from __future__ import annotations

import random

from tests.simulation.model.ledger import Ledger
from tests.simulation.model.mistakes import Mistake, Mistakes
from tests.simulation.model.replica import (
    TERMS,
    Configuration,
    Kind,
    Mail,
    Memory,
    Replica,
    Role,
)

MAIL_MAX = 60
"""Messages under way; more push out any of them."""


class Seam:
    """All replicas, the mail between them, and what ends and begins a configuration."""

    def __init__(self, seed: int, mistakes: Mistakes) -> None:
        self.rng = random.Random(seed)
        self.mistakes = mistakes
        self.ledger = Ledger()
        self.calm = False
        """Whether the mail arrives, once and soon, and everything is applied at once."""
        self.replicas: dict[int, Replica] = {}
        self.zombies: dict[int, Replica] = {}
        """Disks that were replaced under their replica id and came back."""
        self.mail: list[Mail] = []
        self.hurt: set[int] = set()
        """Replica ids whose disk is damaged or lost."""
        self._next_replica_id = 1
        first = [self.new_replica(node) for node in (1, 2, 3)]
        configuration = Configuration(1, tuple(x.replica_id for x in first), 0, 0, None)
        self.ledger.configurations[1] = configuration
        for x in first:
            x.configuration, x.learner, x.term = configuration, False, TERMS
            x.history = []
            x.save()

    def new_replica(self, node: int) -> Replica:
        """Open a learner."""
        x = Replica(self._next_replica_id, node, self.rng.choice((0, 0.5, 0.98)))
        self._next_replica_id += 1
        self.replicas[x.replica_id] = x
        x.save()
        return x

    def present(self) -> list[Replica]:
        return [x for x in self.replicas.values() if not x.gone]

    def leaders(self) -> list[Replica]:
        return [x for x in self.present() if x.leads and x.up]

    def post(self, mail: Mail) -> None:
        self.mail.append(mail)
        if len(self.mail) > MAIL_MAX:
            self.mail.pop(self.rng.randrange(len(self.mail)))

    def plain(self, x: Replica, to: int, kind: Kind) -> Mail:
        return Mail(kind, x.replica_id, to, x.configuration, x.term)

    def enter(self, x: Replica, began: Configuration) -> None:
        """A replica learns of a later configuration: it ends its own and begins that one."""
        if began.number <= x.number:
            return
        complete = x.holds(began)
        seal_index = began.seal_index
        for index, (term, value) in list(x.memory.waiters.items()):
            if index > seal_index or (complete and x.log[index - 1].term != term):
                del x.memory.waiters[index]
                self.ledger.on_failed(value)
        if complete:
            if Mistake.KEEP_TAIL not in self.mistakes:
                x.log = x.log[: max(seal_index, x.commit)]
            x.commit = max(x.commit, seal_index)
        else:
            x.log = x.log[: x.commit]
        x.configuration = began
        if x.damaged:
            fresh = Mistake.DAMAGED_AS_FRESH in self.mistakes
            x.damaged = 0 if fresh else self.new_recovery()
        x.term = max(began.number * TERMS, x.last[0])
        x.voted, x.learner = None, False
        self._forget_leadership(x)
        self.settle(x)
        x.save()
        self.ledger.counts["activations"] += 1
        early = Mistake.DESTROY_EARLY in self.mistakes
        if early and x.replica_id not in began.members:
            self.destroy(x)

    def _forget_leadership(self, x: Replica) -> None:
        old = x.memory
        x.memory = Memory(
            role=Role.FOLLOWER,
            waiters=old.waiters,
            sequence=old.sequence,
            answered=old.answered,
        )

    def new_recovery(self) -> int:
        return self.rng.getrandbits(40) | 1

    def after(self, x: Replica, *, now: bool = False) -> None:
        """Apply what is committed, perhaps late; the seal ends the configuration."""
        if not now and not self.calm and self.rng.random() < x.lag:
            return
        while x.configuration is not None and not x.gone and not x.damaged:
            index = x.seal_upto(x.commit)
            if index is None:
                break
            began = self.ledger.note_seal(x.configuration, index, x.log[index - 1])
            x.commit = index
            self.apply(x)
            self.enter(x, began)
        self.apply(x)
        self.settle(x)

    def apply(self, x: Replica) -> None:
        if not x.damaged:
            self.ledger.on_applied(x)

    def settle(self, x: Replica) -> None:
        """Answer who waits for what is applied."""
        for index, (term, value) in list(x.memory.waiters.items()):
            if index > x.commit or x.damaged:
                continue
            del x.memory.waiters[index]
            if x.log[index - 1].term == term:
                self.ledger.on_acked(value, index)
            else:
                self.ledger.on_failed(value)

    def cap(self, x: Replica, commit: int) -> int:
        """What is committed behind the seal of a configuration is not part of the history."""
        if Mistake.NO_CAP in self.mistakes:
            return commit
        seal_index = x.seal_upto(commit)
        return commit if seal_index is None else seal_index

    # Pull

    def pull(self, x: Replica) -> None:
        """A learner, and who is behind, asks anybody for what is decided."""
        if not x.up:
            return
        others = [y.replica_id for y in self.present() if y is not x]
        if others and (x.learner or not x.is_whole or not x.is_member):
            self.post(self.plain(x, self.rng.choice(others), Kind.PULL))

    def feed(self, x: Replica, to: int) -> None:
        """Any whole replica tells the committed entries and its configuration."""
        end = len(x.log) if Mistake.FEED_UNCOMMITTED in self.mistakes else x.commit
        mail = self.plain(x, to, Kind.FED)
        mail.entries = x.log[:end]
        self.post(mail)

    def on_fed(self, x: Replica, mail: Mail) -> None:
        """Committed entries, for learners and those who lack the beginning of a configuration."""
        told = mail.of
        if x.damaged:
            if x.configuration is not None:
                self.enter(x, told)
            return
        incomplete = told.number == x.number and not x.is_whole
        if not (x.learner or told.number > x.number or incomplete):
            return
        self._take(x, mail)
        if x.learner:
            x.save()
            if x.replica_id in told.members:
                x.learner, x.configuration = False, None
                self.enter(x, told)
            elif told.number > x.number:
                x.configuration = told
        elif told.number > x.number:
            self.enter(x, told)
        else:
            x.term = max(x.term, x.last[0])
            x.save()
        self.ledger.counts["fed"] += 1

    def _take(self, x: Replica, mail: Mail) -> None:
        told, end = mail.entries, len(mail.entries)
        if end <= x.commit:
            return
        for index, (term, value) in list(x.memory.waiters.items()):
            if index > end:
                continue
            del x.memory.waiters[index]
            if told[index - 1].term == term:
                self.ledger.on_acked(value, index)
            else:
                self.ledger.on_failed(value)
        x.log, x.commit = told, end

    # End

    def on_established(self, x: Replica, mail: Mail) -> None:
        """A configuration has committed an entry of its own: who is in none later may go."""
        told = mail.of
        if x.learner:
            return
        left = x.replica_id not in told.members
        if x.configuration is not None and told.number > x.number and left and not x.damaged:
            self.enter(x, told)
        known = x.configuration
        if known is not None and x.replica_id not in known.members and told.number >= x.number:
            self.destroy(x)

    def destroy(self, x: Replica) -> None:
        x.gone, x.up = True, False
        self.ledger.counts["destroyed"] += 1
