"""What a replica of the model has on its disk and in memory, and what it tells the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

TERMS = 1 << 20
"""Terms of one configuration: those of configuration c begin at `c * TERMS`."""

HISTORY_MAX = 12
"""Older states of its disk that damage can throw a replica back to."""


class EntryKind(Enum):
    NOOP = "noop"
    WRITE = "write"
    SEAL = "seal"


class Entry(NamedTuple):
    """An entry of the log. `value`: of a write what is written, of a seal the configuration that
    it ends; `members`: replica ids of the next one."""

    term: int
    kind: EntryKind
    value: int = 0
    members: tuple[int, ...] = ()


Log = tuple[Entry, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Configuration:
    """A configuration as decided: its members, and the seal (index, term) behind which it began."""

    number: int
    members: tuple[int, ...]
    seal_index: int
    seal_term: int
    before: Configuration | None

    def __str__(self) -> str:
        return f"{self.number}{self.members}@{self.seal_index},{self.seal_term % TERMS}"


class Kind(Enum):
    ASK_VOTE = "ask vote"
    VOTE = "vote"
    APPEND = "append"
    ANSWER = "answer"
    STALE = "stale"
    REPAIR = "repair"
    PULL = "pull"
    FED = "fed"
    ENDED = "ended"
    ESTABLISHED = "established"


@dataclass(slots=True)
class Mail:
    """A message. What a kind does not speak of has its default."""

    kind: Kind
    sender: int
    to: int
    configuration: Configuration | None
    term: int
    last: tuple[int, int] = (0, 0)
    """Term and index of the candidate's last entry."""
    previous: int = 0
    previous_term: int = 0
    entries: Log = ()
    """Of an append what follows `previous`; otherwise a log from its beginning."""
    commit: int = 0
    sequence: int = 0
    success: bool = False
    index: int = 0
    recovery: int = 0

    @property
    def of(self) -> Configuration:
        assert self.configuration is not None, "only a learner that asks knows no configuration"
        return self.configuration


class Durable(NamedTuple):
    """What a disk holds of a replica."""

    configuration: Configuration | None
    log: Log
    commit: int
    term: int
    voted: int | None
    damaged: int
    learner: bool


class Role(Enum):
    FOLLOWER = "follower"
    CANDIDATE = "candidate"
    LEADER = "leader"


@dataclass(slots=True)
class Memory:
    """What a crash takes away."""

    role: Role = Role.FOLLOWER
    votes: set[int] = field(default_factory=set)
    match: dict[int, int] = field(default_factory=dict)
    nexts: dict[int, int] = field(default_factory=dict)
    sequence: int = 0
    echo: dict[int, int] = field(default_factory=dict)
    waiters: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By index: the term and the value of what somebody waits for."""
    reads: list[tuple[int, int, int]] = field(default_factory=list)
    """Sequence to be echoed, index read at, and the highest acknowledged index when it began."""
    asking: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """Damaged members: number, least index of the repair, sequence when they asked."""
    answered: dict[int, set[int]] = field(default_factory=dict)
    established: bool = False


class Replica:
    """One replica id. Whether it is up, and what it holds."""

    def __init__(self, replica_id: int, node: int, lag: float) -> None:
        """`lag`: how often it does not apply what it could."""
        self.replica_id = replica_id
        self.node = node
        self.lag = lag
        self.configuration: Configuration | None = None
        self.log: Log = ()
        self.commit = 0
        self.term = 0
        self.voted: int | None = None
        self.damaged = 0
        """Not 0: it recovers, and this is its number."""
        self.learner = True
        self.history: list[Durable] = []
        self.gone = False
        self.up = True
        self.memory = Memory()

    def boot(self) -> None:
        self.up = True
        self.memory = Memory()

    def save(self) -> None:
        """Sync. Everything in the model is durable at once; damage throws back to one of these."""
        self.history.append(
            Durable(
                self.configuration,
                self.log,
                self.commit,
                self.term,
                self.voted,
                self.damaged,
                self.learner,
            )
        )
        del self.history[:-HISTORY_MAX]

    def load(self, disk: Durable) -> None:
        self.configuration, self.log, self.commit = disk.configuration, disk.log, disk.commit
        self.term, self.voted = disk.term, disk.voted
        self.damaged, self.learner = disk.damaged, disk.learner

    @property
    def of(self) -> Configuration:
        assert self.configuration is not None, "asked only of a replica that is in one"
        return self.configuration

    @property
    def number(self) -> int:
        """Its configuration's number; 0: it knows none."""
        return 0 if self.configuration is None else self.configuration.number

    @property
    def last(self) -> tuple[int, int]:
        """Term and index of its last entry."""
        return (self.log[-1].term, len(self.log)) if self.log else (0, 0)

    def holds(self, configuration: Configuration | None) -> bool:
        """Whether its log has the seal with which this configuration began."""
        if configuration is None:
            return False
        index, term = configuration.seal_index, configuration.seal_term
        return index == 0 or (len(self.log) >= index and self.log[index - 1].term == term)

    @property
    def is_whole(self) -> bool:
        """Whether it holds the beginning of its own configuration."""
        return self.holds(self.configuration)

    @property
    def is_member(self) -> bool:
        known = self.configuration
        return known is not None and self.replica_id in known.members and not self.learner

    @property
    def leads(self) -> bool:
        return self.memory.role is Role.LEADER

    @property
    def serves(self) -> bool:
        """Whether an entry of its own term is committed."""
        return self.leads and self.up and self.commit > 0 and self._committed_own

    @property
    def _committed_own(self) -> bool:
        return self.log[self.commit - 1].term == self.term

    @property
    def has_seal(self) -> bool:
        """Whether its log has a seal that ends its configuration, committed or not."""
        return self.seal_upto(len(self.log)) is not None

    def seal_upto(self, last: int) -> int | None:
        """The index of the first seal of its own configuration at or below `last`."""
        number, began = self.of.number, self.of.seal_index
        for index in range(began + 1, last + 1):
            entry = self.log[index - 1]
            if entry.kind is EntryKind.SEAL and entry.value == number:
                return index
        return None
