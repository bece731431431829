"""An entry that is being filled: its commands, and which of them each request waits for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from svc_cluster.base.ids import TimestampMs
from svc_cluster.model.record import SessionSequence, StoredBatch

Command = TypeVar("Command")
Outcome = TypeVar("Outcome")
Waiting = TypeVar("Waiting")


@dataclass(frozen=True, slots=True)
class PlainAppend:
    """What a request is that may share its command with its neighbours in the queue."""

    stream: str
    batch: StoredBatch
    session: SessionSequence | None
    is_conditional: bool
    """It may only be the first of a command."""


class Joiner(Protocol[Command, Outcome]):
    """Makes one command of the requests of several. From `began` to `end` nothing is decided but by
    `join`. What goes wrong in `began` and `join` is raised by `end`: it harms those that joined,
    and nobody joins behind it."""

    def began(self, append: PlainAppend, command: Command) -> None:
        """`command` was decided for this request; what comes next may join it."""
        ...

    def join(self, append: PlainAppend, now_ms: TimestampMs) -> bool: ...

    def end(self) -> tuple[Command, list[Outcome]] | None:
        """The command of all, and what each of its requests is told where it takes effect. None:
        the last one's command is as it was."""
        ...

    def told(self, own: Outcome, of_all: Outcome) -> Outcome:
        """What a request is told whose command came to `of_all`."""
        ...


@dataclass(slots=True)
class EntryDraft(Generic[Command, Outcome, Waiting]):
    """Commands in their order. A request waits for the last command there is when it is taken."""

    size: int
    """About its bytes, encoded."""
    commands: list[Command] = field(default_factory=list)
    encoded: list[bytes] = field(default_factory=list)
    taken: list[Waiting] = field(default_factory=list)
    """Who waits, in order."""
    _places: list[int] = field(default_factory=list)
    _own: dict[int, Outcome] = field(default_factory=dict)
    """By place in `taken`: what a request is told that shares its command."""

    def add(self, command: Command, encoded: bytes, waiting: Waiting) -> None:
        self.commands.append(command)
        self.encoded.append(encoded)
        self.size += len(encoded)
        self.share(waiting, 0)

    def share(self, waiting: Waiting, size: int) -> None:
        """The request joins the last command, with about so many bytes."""
        self._places.append(len(self.commands) - 1)
        self.taken.append(waiting)
        self.size += size

    def replace_last(self, command: Command, encoded: bytes, own: Sequence[Outcome]) -> None:
        """The last command stands for so many requests now."""
        self.commands[-1], self.encoded[-1] = command, encoded
        first = len(self.taken) - len(own)
        self._own.update(enumerate(own, first))

    def drop_joined(self) -> list[Waiting]:
        """Take out those that joined the last command."""
        first = self._places.index(len(self.commands) - 1)
        dropped = self.taken[first + 1 :]
        del self.taken[first + 1 :], self._places[first + 1 :]
        return dropped

    def told(
        self, outcomes: Sequence[Outcome], joiner: Joiner[Command, Outcome] | None
    ) -> Iterator[tuple[Waiting, Outcome]]:
        """Each request, and what it is told when these came of the commands."""
        for number, (waiting, place) in enumerate(zip(self.taken, self._places, strict=True)):
            outcome = outcomes[place]
            if number in self._own and joiner is not None:
                outcome = joiner.told(self._own[number], outcome)
            yield waiting, outcome
