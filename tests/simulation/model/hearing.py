"""What a replica of the model makes of a message."""

from __future__ import annotations

from tests.simulation.model.leading import Leading
from tests.simulation.model.ledger import ViolationError
from tests.simulation.model.mistakes import Mistake
from tests.simulation.model.replica import Kind, Mail, Replica, Role


class Hearing(Leading):
    """Every message goes through `hear`, which looks at its configuration first."""

    def hear(self, x: Replica, mail: Mail) -> None:
        match mail.kind:
            case Kind.FED:
                self.on_fed(x, mail)
            case Kind.PULL:
                if not x.damaged and x.configuration is not None:
                    self.feed(x, mail.sender)
            case Kind.ESTABLISHED:
                self.on_established(x, mail)
            case Kind.ENDED:
                if x.configuration is not None:
                    self.enter(x, mail.of)
            case _:
                if self._is_current(x, mail):
                    self._in_configuration(x, mail)

    def _is_current(self, x: Replica, mail: Mail) -> bool:
        """Whether the message is of the replica's configuration. A later one is entered first; to
        an ended one the answer is the next."""
        told = mail.of
        if x.configuration is None or (x.learner and x.replica_id not in told.members):
            return False
        self.enter(x, told)
        if Mistake.ANY_CONFIGURATION in self.mistakes:
            return x.is_member
        if told.number < x.number:
            asks = mail.kind in (Kind.APPEND, Kind.ASK_VOTE)
            if Mistake.OLD_ANSWERS in self.mistakes and asks and x.replica_id in told.members:
                self._answer_of_before(x, mail)
            elif mail.sender in self.replicas:
                self.post(self.plain(x, mail.sender, Kind.ENDED))
            return False
        return x.is_member and mail.sender in x.of.members

    def _answer_of_before(self, x: Replica, mail: Mail) -> None:
        kind = Kind.ANSWER if mail.kind is Kind.APPEND else Kind.VOTE
        answer = Mail(kind, x.replica_id, mail.sender, mail.configuration, mail.term)
        answer.success, answer.index = True, mail.previous + len(mail.entries)
        answer.sequence = mail.sequence
        self.post(answer)

    def _in_configuration(self, x: Replica, mail: Mail) -> None:
        if mail.term > x.term:
            x.term, x.voted = mail.term, None
            x.memory.role, x.memory.reads = Role.FOLLOWER, []
            x.save()
        is_current = mail.term == x.term
        match mail.kind:
            case Kind.ASK_VOTE:
                self._on_ask_vote(x, mail)
            case Kind.VOTE:
                if is_current and x.memory.role is Role.CANDIDATE:
                    x.memory.votes.add(mail.sender)
                    self.maybe_lead(x)
            case Kind.APPEND:
                if is_current:
                    self._on_append(x, mail)
                else:
                    self.post(self.plain(x, mail.sender, Kind.STALE))
            case Kind.ANSWER:
                if x.leads and is_current:
                    self.on_answer(x, mail)
            case Kind.REPAIR:
                if x.damaged and x.damaged == mail.recovery and is_current:
                    x.log, x.commit, x.damaged = mail.entries, len(mail.entries), 0
                    self.hurt.discard(x.replica_id)
                    x.save()
                    self.ledger.counts["repairs"] += 1
            case _:
                pass

    def _on_ask_vote(self, x: Replica, mail: Mail) -> None:
        if x.damaged:
            return
        may = mail.term == x.term and x.voted in (None, mail.sender) and mail.last >= x.last
        # also where the voter itself does not hold the seal yet
        may = may and mail.last >= (x.of.seal_term, x.of.seal_index)
        if may and not x.leads:
            x.voted = mail.sender
            x.save()
            self.post(self.plain(x, mail.sender, Kind.VOTE))

    def _on_append(self, x: Replica, mail: Mail) -> None:
        x.memory.role = Role.FOLLOWER
        answer = self.plain(x, mail.sender, Kind.ANSWER)
        answer.sequence = mail.sequence
        if x.damaged:
            if x.voted is None:
                x.voted = mail.sender
                x.save()
            answer.recovery = x.damaged
            self.post(answer)
            return
        previous = mail.previous
        if previous > len(x.log) or (previous and x.log[previous - 1].term != mail.previous_term):
            answer.index = min(previous - 1, len(x.log), max(x.commit, 0))
            self.post(answer)
            return
        log = x.log
        for index, entry in enumerate(mail.entries, start=previous):
            if index < len(log) and log[index] != entry:
                if index < x.commit:
                    raise ViolationError(f"CUT_COMMITTED {index + 1} on {x.replica_id} of {x.of}")
                log = log[:index]
            if index >= len(log):
                log += (entry,)
        x.log = log
        end = previous + len(mail.entries)
        x.commit = max(x.commit, self.cap(x, min(mail.commit, end)))
        x.save()
        answer.success, answer.index = True, end
        self.post(answer)
