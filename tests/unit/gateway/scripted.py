"""A Backend whose reads and appends follow a script, on a simulated loop."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from svc_cluster.base.ids import SeqNum, TimestampMs
from svc_cluster.base.metrics import Metrics
from svc_cluster.gateway.app import GatewayApp
from svc_cluster.gateway.cluster.backend import ReadResult
from svc_cluster.http.message import BytesBody, Request, Response
from svc_cluster.model.read_bounds import ReadBounds, ReadStart
from svc_cluster.model.record import (
    Position,
)
from tests.at_once import build_batch
from tests.simulation.clock import SimClock
from tests.stored_batches import sequenced

BASIN = ("svc-basin", "basin-0001")


@dataclass
class ReadCall:
    """One call of `read`, and the virtual second it came at."""

    at: float
    start: ReadStart
    bounds: ReadBounds
    wait_ms: int


Step = ReadResult | Exception | Callable[[ReadCall], Awaitable[ReadResult]]


@dataclass
class ScriptedBackend:
    """Reads take `steps` one by one, the last one for ever; `calls` says what was asked.

    A result without batches takes as long as the caller was willing to wait, at most 5 s.
    """

    steps: list[Step] = field(default_factory=list)
    calls: list[ReadCall] = field(default_factory=list)
    failure: Exception | None = None
    """What every other call raises."""

    async def read(
        self,
        basin: str,
        stream: str,
        start: ReadStart,
        bounds: ReadBounds,
        *,
        refuse_at_tail: bool,
        wait_ms: int,
        has_key: bool = False,
        committed: bool = False,
        behind: int = 0,
    ) -> ReadResult:
        call = ReadCall(asyncio.get_running_loop().time(), start, bounds, wait_ms)
        self.calls.append(call)
        assert 0 <= wait_ms <= 5_000, "one call waits 5 s at most"
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        if isinstance(step, Exception):
            raise step
        if not isinstance(step, ReadResult):
            return await step(call)
        if not step.batches and wait_ms:
            await asyncio.sleep(wait_ms / 1000)
        return step

    def __getattr__(self, name: str) -> Any:
        async def fail(*_: Any, **__: Any) -> Any:
            assert self.failure is not None, name
            raise self.failure

        return fail


def make_app(backend: Any, **options: Any) -> tuple[GatewayApp, Metrics]:
    """An app on the running loop's virtual time."""
    metrics = Metrics()
    clock = SimClock(asyncio.get_running_loop())
    return GatewayApp(
        backend, clock=clock, rng=random.Random(7), metrics=metrics, **options
    ), metrics


def get(path: str, query: str = "", *headers: tuple[str, str]) -> Request:
    return Request("GET", path, query, [BASIN, *headers])


def post(path: str, body: bytes, *headers: tuple[str, str]) -> Request:
    return Request(
        "POST",
        path,
        "",
        [
            BASIN,
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
            *headers,
        ],
        BytesBody(body),
    )


def body_of(response: Response) -> bytes:
    assert isinstance(response.body, bytes)
    return response.body


def nothing(tail: int, start: int | None = None) -> ReadResult:
    """At the tail, nothing new."""
    return ReadResult(
        tail if start is None else start, (), Position(SeqNum(tail), TimestampMs(9)), False
    )


def records(first: int, count: int, *, tail: int, more: bool = False) -> ReadResult:
    """One batch of `count` empty records from `first` on."""
    batch = build_batch([(None, (), b"")] * count)
    found = sequenced(batch, first)
    return ReadResult(first, (found,), Position(SeqNum(tail), TimestampMs(9)), more)
