"""One history by hand: a leader that applies late is read from while its successor serves.

Nodes 1, 2 and 3 end their configuration with a seal for 1, 4 and 5. Node 2 applies it and feeds
the learners 4 and 5; nodes 1, its leader, and 3 have not applied it. 4 is elected by 5 and
acknowledges a write. A read that 1 started now would be confirmed by 3, and miss that write.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from tests.simulation.model.hearing import Hearing
from tests.simulation.model.mistakes import Mistakes
from tests.simulation.model.replica import Entry, EntryKind, Kind, Mail, Replica


class Directed(Hearing):
    """The history, step by step."""

    def __init__(self, mistakes: Mistakes) -> None:
        super().__init__(1, mistakes)
        self.calm = True
        self.late: Collection[int] = ()
        """Replicas that apply nothing for now."""

    def _run_mail(self, unheard: Callable[[Mail], bool] = lambda _: False) -> None:
        """Deliver all that is not `unheard`. 3 hears nothing of the next configuration, and nobody
        that it is established."""
        for _ in range(400):
            self.mail = [
                mail
                for mail in self.mail
                if mail.kind is not Kind.ESTABLISHED
                and not (mail.to == 3 and mail.configuration and mail.of.number > 1)
            ]
            heard = [mail for mail in self.mail if not unheard(mail)]
            if not heard:
                return
            mail = heard[0]
            self.mail.remove(mail)
            x = self.replicas[mail.to]
            if x.up and not x.gone:
                self.hear(x, mail)
                if x.replica_id not in self.late:
                    self.after(x, now=True)

    def _spread(self, leader: Replica, unheard: Callable[[Mail], bool] = lambda _: False) -> None:
        for _ in range(6):
            self.broadcast(leader)
            self._run_mail(unheard)

    def run(self) -> int:
        """Returns how many reads the old leader has answered. Raises ViolationError."""
        first = self.replicas[1]
        fourth, fifth = self.new_replica(4), self.new_replica(5)
        for x in self.replicas.values():
            x.lag = 0.0
        self.campaign(first)
        self._run_mail()
        self.propose(first)
        self._run_mail()
        for learner in (fourth, fifth):
            self.post(self.plain(learner, 1, Kind.PULL))
            self._run_mail()
        self._spread(first)
        self.late = (1, 3)
        members = (1, fourth.replica_id, fifth.replica_id)
        first.log += (Entry(first.term, EntryKind.SEAL, 1, members),)
        self.progress(first)
        first.memory.nexts = {}
        while self.replicas[2].number == 1:
            self.broadcast(first)
            self._run_mail()
        assert [x.number for x in (first, self.replicas[2])] == [1, 2], "only 2 has applied it"

        def cut_off(mail: Mail) -> bool:
            return mail.to == 1

        for learner in (fourth, fifth):
            self.post(self.plain(learner, 2, Kind.PULL))
            self._run_mail(cut_off)
        self.mail.clear()
        self.campaign(fourth)
        self._run_mail(cut_off)
        self.propose(fourth)
        self._run_mail(cut_off)
        self._spread(fourth, cut_off)
        assert len(self.ledger.acked) == 2, "the next configuration serves"
        self.mail.clear()
        self.read(first)
        self._run_mail(lambda mail: mail.to not in (1, 3))
        return self.ledger.counts["reads"]
