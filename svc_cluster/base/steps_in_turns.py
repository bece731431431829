"""Work that is done in steps, each in a turn of the event loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


async def in_turns(steps: Generator[object, None, T]) -> T:
    """What the steps lead to, one of them in a turn of the event loop. Raises what they raise."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            value: T = done.value
            return value
        await asyncio.sleep(0)
