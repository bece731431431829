"""Work that is done in steps of a bounded time, between which others may work."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


def at_once(steps: Generator[object, None, T]) -> T:
    """What the steps lead to, without a pause. Raises what they raise."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            value: T = done.value
            return value
