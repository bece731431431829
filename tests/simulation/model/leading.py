"""The leader's part of the model, and how one becomes it."""

from __future__ import annotations

from tests.simulation.model.mistakes import Mistake
from tests.simulation.model.replica import (
    Configuration,
    Entry,
    EntryKind,
    Kind,
    Mail,
    Replica,
    Role,
)
from tests.simulation.model.seam import Seam

NEARLY = 4
"""A member of the next configuration lacks at most so many entries when the seal is proposed."""


class Leading(Seam):
    """Elections, proposals, seals, reads and repairs."""

    _next_value = 1

    def campaign(self, x: Replica) -> None:
        if not x.up or x.gone or not x.is_member or x.damaged or x.leads:
            return
        if not x.is_whole and Mistake.STANDS_WITHOUT_SEAL not in self.mistakes:
            return
        x.term += 1
        x.voted = x.replica_id
        x.memory.role, x.memory.votes = Role.CANDIDATE, {x.replica_id}
        x.save()
        for peer in x.of.members:
            if peer != x.replica_id:
                mail = self.plain(x, peer, Kind.ASK_VOTE)
                mail.last = x.last
                self.post(mail)
        self.maybe_lead(x)

    def maybe_lead(self, x: Replica) -> None:
        memory = x.memory
        if memory.role is not Role.CANDIDATE or len(memory.votes) * 2 <= len(x.of.members):
            return
        memory.role = Role.LEADER
        memory.match, memory.sequence, memory.echo = {x.replica_id: 0}, 0, {}
        memory.asking, memory.answered, memory.nexts = {}, {}, {}
        memory.established = False
        self.ledger.on_leader(x)
        x.log += (Entry(x.term, EntryKind.NOOP),)
        x.save()
        self.ledger.counts["leaders"] += 1
        self.progress(x)
        self.broadcast(x)

    def propose(self, x: Replica) -> None:
        if not x.leads or not x.up:
            return
        if x.has_seal and Mistake.PROPOSE_AFTER_SEAL not in self.mistakes:
            return
        value = self._next_value
        self._next_value += 1
        x.log += (Entry(x.term, EntryKind.WRITE, value),)
        x.memory.waiters[len(x.log)] = (x.term, value)
        self._proposed(x)

    def _proposed(self, x: Replica) -> None:
        x.save()
        self.progress(x)
        self.broadcast(x)
        self.after(x)

    def seal(self, x: Replica) -> None:
        """Propose to end the configuration, with next members that are ready."""
        if not x.serves or x.has_seal:
            return
        ready: dict[int, Replica] = {y.node: y for y in self.present() if y.learner}
        for member in x.of.members:
            y = self.replicas[member]
            if not y.gone:
                ready.setdefault(y.node, y)
        size = self.rng.choice((1, 3, 3, 3, 3, 5))
        pool = [
            y for y in ready.values() if y.up and not y.damaged and y.commit + NEARLY >= x.commit
        ]
        if len(pool) < size:
            return
        chosen = tuple(sorted(y.replica_id for y in self.rng.sample(pool, size)))
        if chosen != x.of.members:
            self.propose_seal(x, chosen)

    def propose_seal(self, x: Replica, chosen: tuple[int, ...]) -> None:
        entry = Entry(x.term, EntryKind.SEAL, x.number, chosen)
        x.log += (entry,)
        self._proposed(x)
        if Mistake.START_UNCOMMITTED in self.mistakes:
            number = x.number + 1
            if number not in self.ledger.configurations:
                began = Configuration(number, chosen, len(x.log), x.term, x.configuration)
                self.ledger.configurations[number] = began
                self.enter(x, began)

    def broadcast(self, x: Replica) -> None:
        if not x.leads:
            return
        memory = x.memory
        memory.sequence += 1
        for peer in x.of.members:
            if peer == x.replica_id:
                continue
            previous = max(0, min(memory.nexts.get(peer, len(x.log)), len(x.log)))
            count = self.rng.choice((0, 1, 3, 50))
            mail = self.plain(x, peer, Kind.APPEND)
            mail.previous = previous
            mail.previous_term = x.log[previous - 1].term if previous else 0
            mail.entries = x.log[previous : previous + count]
            mail.commit, mail.sequence = x.commit, memory.sequence
            self.post(mail)

    def progress(self, x: Replica) -> None:
        """Count who has what; the first own entry that is committed establishes the leader."""
        if not x.leads:
            return
        members = x.of.members
        x.memory.match[x.replica_id] = len(x.log)
        held = sorted((x.memory.match.get(peer, 0) for peer in members), reverse=True)
        index = held[len(members) // 2]
        if index <= x.commit or x.log[index - 1].term != x.term:
            return
        x.commit = max(x.commit, self.cap(x, index))
        if not x.memory.established:
            x.memory.established = True
            before = x.of.before
            while before is not None:
                for peer in before.members:
                    if peer not in members:
                        self.post(self.plain(x, peer, Kind.ESTABLISHED))
                before = before.before

    def read(self, x: Replica) -> None:
        if not x.serves:
            return
        if x.has_seal and Mistake.READ_AFTER_SEAL not in self.mistakes:
            return
        x.memory.reads.append((x.memory.sequence + 1, x.commit, self.ledger.acked_max))
        self.broadcast(x)
        self.confirm(x)

    def confirm(self, x: Replica) -> None:
        """Answer the reads whose round a quorum has echoed."""
        needed = len(x.of.members) // 2
        echoes = (x.memory.echo.get(p, 0) for p in x.of.members if p != x.replica_id)
        reached = sorted(echoes, reverse=True)[needed - 1] if needed else x.memory.sequence
        for read in [read for read in x.memory.reads if read[0] <= reached]:
            x.memory.reads.remove(read)
            self.ledger.on_read(read[1], read[2], x)

    def on_answer(self, x: Replica, mail: Mail) -> None:
        """A follower's answer to this leader in its term."""
        memory, peer = x.memory, mail.sender
        if mail.recovery:
            if memory.asking.get(peer, (0, 0, 0))[0] != mail.recovery:
                memory.asking[peer] = (mail.recovery, len(x.log), memory.sequence)
                memory.answered[peer] = set()
        else:
            memory.asking.pop(peer, None)
            for other, (_, _, sequence) in memory.asking.items():
                if mail.sequence > sequence:
                    memory.answered[other].add(peer)
            memory.echo[peer] = max(memory.echo.get(peer, 0), mail.sequence)
            if mail.success:
                memory.match[peer] = max(memory.match.get(peer, 0), mail.index)
                memory.nexts[peer] = max(memory.nexts.get(peer, 0), mail.index)
            else:
                memory.nexts[peer] = max(0, mail.index)
        self._repair(x)
        self.progress(x)
        self.confirm(x)

    def _repair(self, x: Replica) -> None:
        members, memory = x.of.members, x.memory
        whole = set(members) - {x.replica_id} - set(memory.asking)
        enough = len(whole) >= len(members) - (len(members) // 2 + 1)
        for peer, (recovery, least_index, _) in memory.asking.items():
            if enough and whole <= memory.answered[peer] and x.commit >= least_index:
                mail = self.plain(x, peer, Kind.REPAIR)
                mail.recovery, mail.entries = recovery, x.log[: x.commit]
                self.post(mail)
