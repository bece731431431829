"""Steps of work in turns with everybody else on the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


async def in_turns(steps: Generator[None, None, T]) -> T:
    """What the steps lead to, with a turn for everybody else between two of
    them. Raises what they raise."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            value: T = done.value
            return value
        await asyncio.sleep(0)
