"""What a leader has just encoded, kept until it is applied, so that it need not be decoded again.

An entry is known by its place and its term: a leader puts one there and no other, so the same two
mean the same bytes. Followers, and whoever replays a log, decode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from svc_cluster.base.ids import LogIndex, Term
from svc_cluster.base.log import get_logger

log = get_logger("kept_entries")

Command = TypeVar("Command")


class KeptEntries(Generic[Command]):
    """The commands of at most `entries_max` entries on their way, the oldest of them. They are the
    objects that their proposals hold anyhow, so that little is added to what waits."""

    def __init__(self, comes_back: Callable[[Command], bool], entries_max: int) -> None:
        """`comes_back` says of a command whether decoding it gives exactly the same; an entry with
        any other is not kept."""
        self._comes_back = comes_back
        self._entries_max = entries_max
        self._kept: dict[LogIndex, tuple[Term, list[Command]]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, log_index: LogIndex, term: Term, commands: Sequence[Command]) -> None:
        """Keep what was proposed at that place, if there is room and all of it comes back."""
        if len(self._kept) >= self._entries_max:
            return
        try:
            comes_back = all(map(self._comes_back, commands))
        except Exception as fault:  # what is not kept is decoded: nobody is harmed
            log.error("entry_not_kept", exc_info=fault)
            return
        if comes_back:
            self._kept[log_index] = term, list(commands)

    def take(self, log_index: LogIndex, term: Term) -> list[Command] | None:
        """Return the commands of the entry that is applied now, and forget them. Return None where
        another leader's entry took the place, or none was kept."""
        kept = self._kept.pop(log_index, None)
        return kept[1] if kept is not None and kept[0] == term else None

    def clear(self) -> None:
        """Forget all: the leadership in which they were proposed is over."""
        self._kept.clear()
