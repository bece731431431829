"""Which location is the default, as applied. Pure.

Which locations there are is no state: the leader reads it from its settings and puts names into
entries. A basin keeps the name it got when it was created, whatever is configured later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from svc_cluster.base.key_reader import KeyReader
from svc_cluster.base.write_set import WriteSet
from svc_cluster.model.location import Location

CHOICE: Final = b"\x18"


@dataclass(frozen=True, slots=True)
class SetDefaultLocation:
    """The default until now is `before`, by the leader's settings if none was ever chosen. Basins
    from before there were locations have that one for good."""

    name: str
    before: str


class Choice(msgspec.Struct, array_like=True, frozen=True):
    """What has been chosen. `unlocated`: of basins whose record names no location."""

    default: str
    unlocated: str


def canonical_choice(value: bytes) -> bytes:
    """The choice's row in the form of this release. Raises msgspec.DecodeError."""
    return msgspec.msgpack.encode(msgspec.msgpack.decode(value, type=Choice))


class LocationTable:
    """The choice, where there has been one."""

    def __init__(self, reader: KeyReader) -> None:
        raw = reader.get(CHOICE)
        self._choice = None if raw is None else msgspec.msgpack.decode(raw, type=Choice)

    def decide(
        self, planned: Choice | None, write_set: WriteSet, command: SetDefaultLocation
    ) -> Choice:
        """What is chosen once the command is applied; `planned`: by one before it in the entry."""
        known = planned or self._choice
        unlocated = command.before if known is None else known.unlocated
        choice = Choice(command.name, unlocated)
        write_set.put(CHOICE, msgspec.msgpack.encode(choice))
        return choice

    def commit(self, choice: Choice | None) -> None:
        """Take over what has been written to the store."""
        if choice is not None:
            self._choice = choice

    def default(self, offered: Sequence[Location]) -> Location:
        """The chosen one, as long as it is offered; else the first of those that are (there is at
        least one)."""
        if self._choice is not None:
            for location in offered:
                if location.name == self._choice.default:
                    return location
        return offered[0]

    def of_basin(self, recorded: str, offered: Sequence[Location]) -> str:
        """The location of a basin whose record says `recorded`, which is empty in old ones."""
        if recorded:
            return recorded
        return offered[0].name if self._choice is None else self._choice.unlocated
