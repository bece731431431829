"""The checker of configurations finds a change that was lost, and one that nobody made."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from tests.simulation.api import Config
from tests.simulation.checkers.raft import InvariantError
from tests.simulation.configurer import configurers
from tests.simulation.loop import SimLoop, run


class Registers:
    """A service of configurations. With `loses` a change is made to what was there when its request
    was sent, and undoes what others did meanwhile; with `invents` one is seen that none made."""

    def __init__(self, *, loses: bool = False, invents: bool = False) -> None:
        self._stored: dict[str | None, Config] = {}
        self._loses = loses
        self._invents = invents

    async def reconfigure(self, basin: str, stream: str | None, change: Config) -> Config:
        before = dict(self._stored.get(stream, {}))
        await asyncio.sleep(0.1)
        if not self._loses:
            before = self._stored.get(stream, {})
        self._stored[stream] = {**before, **change}
        return await self.config(basin, stream)

    async def config(self, basin: str, stream: str | None) -> Config:
        seen = dict(self._stored.get(stream, {}))
        if self._invents and "retention" in seen:
            seen["retention"] += 1
        return seen


@pytest.mark.parametrize("kind", ["honest", "loses", "invents"])
def test_what_is_lost_or_invented_is_found(kind: str) -> None:
    """Two writers for each of two configurations, and nothing to say against an honest service."""

    async def main(loop: SimLoop) -> None:
        service: Any = Registers(loses=kind == "loses", invents=kind == "invents")
        workers = configurers([service], random.Random(1), 2)
        assert len(workers) == 4
        working = asyncio.gather(*(worker.run() for worker in workers))
        loop.call_later(30.0, stop, workers)
        await working

    def stop(workers: list[Any]) -> None:
        for worker in workers:
            worker.stopping = True

    if kind == "honest":
        run(main)
    else:
        with pytest.raises(InvariantError, match="configuration"):
            run(main)
