"""Where the time of an append goes on its leader."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class LeaderStages:
    """A LeaderStages has the seconds of one append in each stage, one behind the other."""

    queue: float = 0.0
    """Until it was put into an entry."""
    wal: float = 0.0
    """Until the entry was on the leader's own disk: written and synced, behind what was before."""
    quorum: float = 0.0
    """Until it was on those of a majority."""
    apply: float = 0.0
    """Until it was applied."""

    @property
    def total(self) -> float:
        return self.queue + self.wal + self.quorum + self.apply
