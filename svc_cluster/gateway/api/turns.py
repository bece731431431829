"""Dear work in turns with everybody else on the loop.

What takes milliseconds is cut into steps, and each step waits for its turn: in one turn of the loop
there is one step at most, whoever's it is. A hundred requests that come at once are thus slower
each, and keep nobody else waiting for longer than one of them does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator
from typing import Final, TypeVar

DEAR_BYTES: Final = 4096
"""What is made of less takes no turn of its own."""

T = TypeVar("T")


class Turns:
    """These are the turns of one process. Whoever waits is a request in progress, of which the
    number is bounded."""

    def __init__(self) -> None:
        self._line: deque[asyncio.Future[None]] = deque()
        self._is_taken = False
        """Somebody works in this turn of the loop, or will in the next."""

    @property
    def waiting(self) -> int:
        return len(self._line)

    async def turn(self) -> None:
        """Wait for the next turn in which nobody else does dear work; the oldest goes first."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._line.append(turn)
        if not self._is_taken:
            self._is_taken = True
            loop.call_soon(self._next)
        await turn

    async def run(self, steps: Generator[None, None, T], size: int) -> T:
        """What the steps lead to, which are made of `size` bytes: small ones wait for nobody.
        Raises what they raise."""
        if size > DEAR_BYTES:
            await self.turn()
        while True:
            try:
                next(steps)
            except StopIteration as done:
                value: T = done.value
                return value
            await self.turn()

    def _next(self) -> None:
        while self._line:
            turn = self._line.popleft()
            if not turn.done():
                turn.set_result(None)
                asyncio.get_running_loop().call_soon(self._next)
                return
        self._is_taken = False
