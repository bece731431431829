"""How long one waits for a request's body, and how much of it is taken, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from svc_cluster.base.errors import ErrorCode
from svc_cluster.base.metrics import Metrics
from svc_cluster.gateway.limits.body_budget import BodyBudget
from svc_cluster.gateway.limits.budgeted_body import BudgetedBody
from svc_cluster.http.body import StreamedBody
from svc_cluster.http.connection import WriteGate
from svc_cluster.http.message import BODY_IDLE_SECONDS, BodyTimeoutError, Request
from tests.simulation.clock import SimClock
from tests.simulation.loop import run


def on_virtual_time(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return run(lambda loop: main())


class Pieces(StreamedBody):
    """Pieces that arrive after pauses; for ever silent behind the last one unless it is empty."""

    def __init__(self, *pieces: tuple[float, bytes]) -> None:
        self._pieces = list(pieces)
        self.abandoned = False

    def complete(self) -> bytes | None:
        return None

    def abandon(self) -> None:
        self.abandoned = True

    async def receive(self) -> bytes:
        if not self._pieces:
            await asyncio.sleep(1e9)
        pause, piece = self._pieces.pop(0)
        await asyncio.sleep(pause)
        return piece


def budgeted(body: Pieces) -> BudgetedBody:
    """As handlers have it, with room for all of it."""
    budget = BodyBudget(10**9, Metrics().http_body_bytes_in_flight)
    clock = SimClock(asyncio.get_running_loop())
    return BudgetedBody(Request("POST", "/", "", [], body), budget, clock, ErrorCode.BAD_JSON)


def elapsed() -> float:
    return asyncio.get_running_loop().time()


def test_a_body_that_stops_is_given_up() -> None:
    """After the longest pause, not before."""

    async def main() -> None:
        body = Pieces((BODY_IDLE_SECONDS - 1, b"a"))
        begun = elapsed()
        with pytest.raises(BodyTimeoutError):
            await budgeted(body).read(100)
        assert elapsed() - begun == pytest.approx(2 * BODY_IDLE_SECONDS, abs=1.1)
        assert body.abandoned

    on_virtual_time(main)


def test_a_body_that_trickles_is_given_up() -> None:
    """Below a kibibyte a second there is no hope of its end; at twice that there is."""

    async def main() -> None:
        slow = Pieces(*[(1.0, b"x" * 500)] * 100, (0, b""))
        with pytest.raises(BodyTimeoutError):
            await budgeted(slow).read(10**6)
        fine = Pieces(*[(1.0, b"x" * 2048)] * 100, (0, b""))
        assert len(await budgeted(fine).read(10**6)) == 204_800

    on_virtual_time(main)


def test_a_session_may_be_silent_for_hours() -> None:
    """Without an idle limit every pause is taken; with one it is not."""

    async def main() -> None:
        body = Pieces((7200, b"a"), (86400, b"b"), (0, b""))
        assert [piece async for piece in body.chunks(idle_seconds=None)] == [b"a", b"b"]
        impatient = Pieces((7200, b"a"))
        with pytest.raises(BodyTimeoutError):
            _ = [piece async for piece in impatient.chunks()]

    on_virtual_time(main)


class Transport(asyncio.WriteTransport):
    """Holds as many bytes as a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.size = 100_000

    def get_write_buffer_size(self) -> int:
        return self.size


def test_a_write_gate_ends_who_reads_nothing_and_bears_who_reads_slowly() -> None:
    """The deadline is for no progress at all; whoever waits goes on when there is room, and is
    told when there never will be."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        stalled: list[float] = []
        gate = WriteGate(loop, 30.0, lambda: stalled.append(loop.time()))
        transport = Transport()
        gate.pause(transport)
        for _ in range(10):
            await asyncio.sleep(20)
            transport.size -= 1000
        assert stalled == []
        waiter = loop.create_task(gate.wait())
        await asyncio.sleep(1)
        assert not waiter.done()
        gate.resume()
        await waiter
        gate.pause(transport)
        begun = loop.time()
        lost = loop.create_task(gate.wait())
        await asyncio.sleep(100)
        assert stalled == [begun + 30.0]
        gate.lose()
        with pytest.raises(ConnectionResetError):
            await lost

    on_virtual_time(main)
