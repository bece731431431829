"""What was changed since a moment, so that it can be undone."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final, TypeVar

_ABSENT: Final[Any] = object()

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Journal:
    """Changes of tables and members that go through it, from `begin` on."""

    __slots__ = ("_steps",)

    def __init__(self) -> None:
        self._steps: list[tuple[Callable[..., None], Any, Any, Any]] = []

    def begin(self) -> None:
        """What has been done stays done."""
        self._steps.clear()

    def put(self, table: dict[Key, Value], key: Key, value: Value) -> None:
        """Set `table[key]`, where it stands if it is there."""
        self._steps.append((_restore, table, key, table.get(key, _ABSENT)))
        table[key] = value

    def put_last(self, table: dict[Key, Value], key: Key, value: Value) -> None:
        """Set `table[key]` behind all others. Undone, it is there or not as before, but behind."""
        self._steps.append((_restore, table, key, table.pop(key, _ABSENT)))
        table[key] = value

    def set(self, owner: object, member: str, value: object) -> None:
        self._steps.append((setattr, owner, member, getattr(owner, member)))
        setattr(owner, member, value)

    def undo(self) -> None:
        """Make everything as it was at `begin`."""
        while self._steps:
            step, holder, key, before = self._steps.pop()
            step(holder, key, before)


def _restore(table: dict[Any, Any], key: Any, before: Any) -> None:
    if before is _ABSENT:
        del table[key]
    else:
        table[key] = before
