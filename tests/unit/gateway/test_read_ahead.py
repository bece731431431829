"""A streaming read that is behind asks for its next portion while it sends one, and for no more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from svc_cluster._pb.s2.v1 import s2_pb2 as pb
from svc_cluster.base.errors import UnavailableError
from svc_cluster.base.memory import Holder
from svc_cluster.gateway.api.pace import MOMENT_SECONDS, PORTION_BYTES_MAX
from svc_cluster.gateway.api.read_ahead import ReadAhead
from svc_cluster.gateway.app import GatewayApp
from svc_cluster.gateway.cluster.backend import ReadResult
from svc_cluster.model.stream_config import BasinConfig, NewStream
from tests.at_once import build_batch
from tests.contract.memory_backend import MemoryBackend
from tests.simulation.clock import SimClock
from tests.simulation.loop import SimLoop, run
from tests.unit.gateway.framing import RECORDS, Frames
from tests.unit.gateway.scripted import BASIN, get, make_app

NAMES = (BASIN[1], "s")
PORTIONS = 6
BATCHES = 5
"""Of about a quarter of a MiB each: what a node gives at once."""
READ_S = 0.01


class Slow(MemoryBackend):
    """A node that takes a while for each read; counts those that ask for what is committed."""

    def __init__(self, clock: SimClock) -> None:
        super().__init__(clock)
        self.ahead = self.calls = self.under_way = 0
        self.fails = 0
        self.stale: int | None = None
        """What is committed is known up to here alone."""
        self.behind: list[int] = []
        """What the reads ahead said that had been seen."""
        self.told: list[int] = []
        """What the answers before had seen, at most, when each of those began."""
        self._seen = 0

    async def read(self, *args: Any, **kwargs: Any) -> ReadResult:
        self.calls += 1
        is_ahead = bool(kwargs.get("committed")) and not kwargs["wait_ms"]
        self.ahead += is_ahead
        if is_ahead:
            self.behind.append(kwargs["behind"])
            self.told.append(self._seen)
        self.under_way += 1
        try:
            if not kwargs["wait_ms"]:
                await asyncio.sleep(READ_S)
            if is_ahead and self.fails:
                self.fails -= 1
                raise UnavailableError("no leader")
            found = await super().read(*args, **kwargs)
        finally:
            self.under_way -= 1
        if is_ahead and self.stale is not None:
            known = [b for b in found.batches if b.placement.end_seq_num <= self.stale]
            found = replace(found, batches=tuple(known), may_have_more=False)
        self._seen += 10
        return replace(found, seen=self._seen)


def scene(main: Callable[[Slow, GatewayApp], Awaitable[None]]) -> None:
    async def inside(loop: SimLoop) -> None:
        backend = Slow(SimClock(loop, drift=0.0, offset_s=0.0, wall_offset_ms=0))
        await backend.create_basin(NAMES[0], BasinConfig())
        await backend.create_stream(*NAMES, NewStream())
        batch = build_batch([(None, (), bytes(250_000))])
        for _ in range(PORTIONS * BATCHES):
            await backend.append(*NAMES, batch, None, None)
        app, _ = make_app(backend)
        try:
            await main(backend, app)
        finally:
            await app.close()

    run(inside)


async def read_all(app: GatewayApp, query: str, pause: float = 0.0) -> list[int]:
    """The sequence numbers that a session returns, of which each frame takes a while."""
    frames = Frames(await app.handle(get(RECORDS, query, ("content-type", "svcs/proto"))))
    seen: list[int] = []
    while (frame := await frames.next()) is not None:
        assert not frame.is_terminal, frame
        seen += [record.seq_num for record in pb.ReadBatch.FromString(frame.message()).records]
        await asyncio.sleep(pause)
    return seen


def held_of(app: GatewayApp) -> int:
    return app._services.memory.followers.held


def test_reads_and_sending_overlap() -> None:
    """Six portions of which each takes as long to be read as to be taken: far less than twice that
    in all, every record once and in order, and nothing is held in the end."""

    async def main(backend: Slow, app: GatewayApp) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        seen = await read_all(app, "seq_num=0&count=100000", READ_S / BATCHES)
        assert seen == list(range(PORTIONS * BATCHES))
        assert loop.time() - begun < 1.5 * PORTIONS * READ_S
        assert backend.ahead >= PORTIONS - 1
        assert held_of(app) == 0

    scene(main)


def test_a_read_ahead_says_how_far_its_request_has_seen() -> None:
    """So any node may answer that is as far: what was read ahead before counts as well."""

    async def main(backend: Slow, app: GatewayApp) -> None:
        await read_all(app, "seq_num=0&count=100000")
        assert backend.behind == backend.told
        assert len(backend.behind) >= PORTIONS - 1
        assert sorted(set(backend.behind)) == backend.behind and backend.behind[0] > 0

    scene(main)


@pytest.mark.parametrize("stale", [0, BATCHES + 1, 2 * BATCHES, PORTIONS * BATCHES - 1])
def test_what_was_asked_for_ahead_never_says_where_the_stream_ends(stale: int) -> None:
    """A node that is behind gives out what it has: a bounded read returns all that there was when
    it began, all the same."""

    async def main(backend: Slow, app: GatewayApp) -> None:
        backend.stale = stale
        seen = await read_all(app, "seq_num=0&count=100000")
        assert seen == list(range(PORTIONS * BATCHES))

    scene(main)


def test_one_that_fails_is_read_again() -> None:
    async def main(backend: Slow, app: GatewayApp) -> None:
        backend.fails = 2
        seen = await read_all(app, "seq_num=0&count=100000")
        assert seen == list(range(PORTIONS * BATCHES))
        assert backend.fails == 0

    scene(main)


@pytest.mark.parametrize("count", [1, BATCHES, BATCHES + 1, 2 * BATCHES])
def test_nothing_is_asked_for_beyond_the_bounds(count: int) -> None:
    """Neither a portion that is not wanted, nor records of it."""

    async def main(backend: Slow, app: GatewayApp) -> None:
        assert await read_all(app, f"seq_num=0&count={count}") == list(range(count))
        assert backend.ahead == int(count > BATCHES)

    scene(main)


def test_a_client_that_takes_nothing_has_nothing_ahead() -> None:
    """After a moment only what waits to be sent is held for it; when it goes, that is not either,
    and no read is left."""

    async def main(backend: Slow, app: GatewayApp) -> None:
        request = get(RECORDS, "seq_num=0", ("accept", "text/event-stream"))
        response = await app.handle(request)
        assert not isinstance(response.body, bytes)
        piece = await anext(aiter(response.body))
        assert held_of(app) >= PORTION_BYTES_MAX
        await asyncio.sleep(2 * MOMENT_SECONDS)
        assert held_of(app) == len(piece)
        assert backend.under_way == 0
        await response.body.aclose()  # type: ignore[attr-defined]
        assert held_of(app) == 0

    scene(main)


def test_it_ends_with_the_read() -> None:
    """A client that goes at once leaves no read behind."""

    async def main(backend: Slow, app: GatewayApp) -> None:
        response = await app.handle(get(RECORDS, "seq_num=0", ("accept", "text/event-stream")))
        assert not isinstance(response.body, bytes)
        await anext(aiter(response.body))
        assert backend.ahead == 1
        await response.body.aclose()  # type: ignore[attr-defined]
        await asyncio.sleep(0)
        assert backend.under_way == 0
        assert held_of(app) == 0

    scene(main)


def test_without_room_nothing_is_asked_for() -> None:
    """What others hold is theirs: the read goes on portion by portion."""

    async def main(backend: Slow, app: GatewayApp) -> None:
        part = app._services.memory.followers
        other = Holder(part)
        assert other.try_take(part.bytes_max - PORTION_BYTES_MAX - PORTION_BYTES_MAX // 2)
        assert await read_all(app, "seq_num=0&count=100000") == list(range(PORTIONS * BATCHES))
        assert backend.ahead == 0
        other.becomes(0)

    scene(main)


def test_a_read_that_is_given_up_while_it_is_waited_for_comes_to_nothing() -> None:
    """Its timer ends it: whoever waits reads by itself, and is not ended."""

    async def main(backend: Slow, app: GatewayApp) -> None:
        ahead = ReadAhead(app._services.memory.followers)

        async def never() -> ReadResult | None:
            await asyncio.sleep(3600)
            return None

        ahead.begin(7, never)
        assert await ahead.taken(8) is None
        ahead.begin(7, never)
        assert await ahead.taken(7) is None
        assert held_of(app) == 0

    scene(main)
