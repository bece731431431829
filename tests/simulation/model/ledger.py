"""What the whole cluster of the model has ever promised, and the invariants over it."""

from __future__ import annotations

from collections import Counter

from tests.simulation.model.replica import TERMS, Configuration, Entry, EntryKind, Log, Replica


class ViolationError(Exception):
    """An invariant is broken; the text begins with its name."""


class Ledger:
    """Promises to clients, decided entries, leaders and configurations."""

    def __init__(self) -> None:
        self.decided: dict[int, Entry] = {}
        self.acked: dict[int, int] = {}
        """Acknowledged values and their indexes."""
        self.failed: set[int] = set()
        """Values whose writers were told that they never take effect."""
        self.acked_max = 0
        self.leaders: dict[tuple[int, int], int] = {}
        self.configurations: dict[int, Configuration] = {}
        self.counts: Counter[str] = Counter()

    @property
    def newest(self) -> Configuration:
        return self.configurations[max(self.configurations)]

    def note_seal(self, of: Configuration, index: int, entry: Entry) -> Configuration:
        """A replica of `of` has applied a seal; returns the configuration that it begins."""
        known = self.configurations.get(of.number + 1)
        if known is None:
            known = Configuration(of.number + 1, entry.members, index, entry.term, of)
            self.configurations[known.number] = known
            self.counts["seals"] += 1
        elif (known.seal_index, known.seal_term, known.members) != (
            index,
            entry.term,
            entry.members,
        ):
            raise ViolationError(f"TWO_SEALS {known} and {index},{entry}")
        return known

    def on_applied(self, replica: Replica) -> None:
        """All that a replica takes for committed is what the others do."""
        for index in range(1, replica.commit + 1):
            entry = replica.log[index - 1]
            known = self.decided.get(index)
            if known is None:
                self.decided[index] = entry
                if entry.kind is EntryKind.WRITE and entry.value in self.failed:
                    raise ViolationError(f"FAILED_TOOK_EFFECT {entry.value} at {index}")
            elif known != entry:
                who = f"{replica.replica_id} in {replica.configuration}"
                raise ViolationError(f"DIVERGENCE at {index}: {known} and {entry} on {who}")

    def on_acked(self, value: int, index: int) -> None:
        self.acked[value] = index
        self.acked_max = max(self.acked_max, index)
        self.counts["acked"] += 1

    def on_failed(self, value: int) -> None:
        """Somebody was told that this write never takes effect."""
        self.failed.add(value)
        self.counts["definite_failures"] += 1
        written = (e.value for e in self.decided.values() if e.kind is EntryKind.WRITE)
        if value in written:
            raise ViolationError(f"FAILED_TOOK_EFFECT {value}")

    def on_leader(self, replica: Replica) -> None:
        """One leader a term; it has everything that was acknowledged in its configuration's log.
        A leader of a configuration that has ended may lack what came after it."""
        of = replica.of
        key = (of.number, replica.term)
        if self.leaders.setdefault(key, replica.replica_id) != replica.replica_id:
            raise ViolationError(f"TWO_LEADERS {key}")
        next_one = self.configurations.get(of.number + 1)
        for value, index in self.acked.items():
            if _has(replica.log, index, value):
                continue
            if next_one is None or index <= next_one.seal_index:
                who = f"{replica.replica_id} of {of}, term {replica.term % TERMS}"
                raise ViolationError(f"LEADER_LACKS {value} at {index}: {who}")

    def on_read(self, read_index: int, acked_before: int, replica: Replica) -> None:
        self.counts["reads"] += 1
        if read_index < acked_before:
            who = f"{replica.replica_id} of {replica.configuration}"
            raise ViolationError(f"STALE_READ at {read_index}, acknowledged {acked_before}: {who}")


def _has(log: Log, index: int, value: int) -> bool:
    return index <= len(log) and log[index - 1][1:3] == (EntryKind.WRITE, value)
