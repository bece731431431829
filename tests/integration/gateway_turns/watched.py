"""A gateway on a loop of its own in this process, whose turns are measured as in production."""

from __future__ import annotations

import asyncio
import gc
import http.client
import random
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Self

import uvloop

from svc_cluster.base.clock import SystemClock
from svc_cluster.base.metrics import Metrics
from svc_cluster.base.tasks import Tasks
from svc_cluster.cli.processes.loop_turns import LoopTurns
from svc_cluster.gateway.access.authentication import AccessControl
from svc_cluster.gateway.access.lease import LeaseKeeper
from svc_cluster.gateway.access.token_directory import TokenDirectory
from svc_cluster.gateway.app import GatewayApp
from svc_cluster.http.server import serve
from tests.integration.gateway_turns.backend import (
    BASIN,
    SECRET,
    LargeBackend,
    LargeTokens,
    LargeUsage,
)

LOOK_SECONDS: Final = 0.001
SECONDS: Final = 60.0
HEADERS: Final = {"svc-basin": BASIN, "authorization": f"Bearer {SECRET}"}


class WatchedGateway:
    """The real application behind the real server, over a socket; behind it `LargeBackend`."""

    def __init__(self) -> None:
        self.port = 0
        self.metrics = Metrics(process=True)
        self.longest = 0.0
        self.doing: list[str] = []
        self.most_freed = 0
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gateway")
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(SECONDS), "the gateway did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(SECONDS)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        clock = SystemClock()
        backend, tokens = LargeBackend(clock), LargeTokens()
        await backend.fill()
        # as a process of the cluster does before it has a loop: of what a process has that has run
        # much of the suite, one collection takes as long as a lease
        gc.collect()
        directory = TokenDirectory(clock)
        keeper = LeaseKeeper(tokens, directory, clock, "gateway")
        keeper.start()
        app = GatewayApp(
            backend,
            clock=clock,
            rng=random.Random(7),
            metrics=self.metrics,
            tokens=tokens,
            access=AccessControl(directory, keeper, clock=clock, metrics=self.metrics),
            usage=LargeUsage(),
        )
        app.start()
        server = await serve(app, "127.0.0.1", 0)
        self.port = server.port
        while not directory.is_fresh:
            await asyncio.sleep(0.01)
        tasks = Tasks()
        tasks.spawn(
            LoopTurns(self.metrics, look_seconds=LOOK_SECONDS, tell=self._told).run(), "turns"
        )
        thresholds = gc.get_threshold()
        gc.freeze()
        gc.set_threshold(50_000, 20, 50)  # as a process of the cluster has it
        self._ready.set()
        await self._stop.wait()
        app.drain()
        await server.close(1.0)
        await app.close()
        await keeper.close()
        await tasks.cancel_all()
        gc.set_threshold(*thresholds)
        gc.unfreeze()

    def _told(self, seconds: float, doing: list[str]) -> None:
        if seconds > self.longest:
            self.longest, self.doing = seconds, doing

    def settle(self) -> None:
        """Return when all turns so far have been told."""

        async def looks() -> None:
            await asyncio.sleep(5 * LOOK_SECONDS)

        asyncio.run_coroutine_threadsafe(looks(), self._loop).result(SECONDS)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """`longest` and `doing` are then those of the block."""
        self.settle()
        self.longest, self.doing = 0.0, []
        yield
        self.settle()

    @contextmanager
    def counted(self) -> Iterator[None]:
        """`most_freed` is then how many pieces of memory a turn of the block has given back at
        most, those that it has taken not counted."""
        self.most_freed, held, ended = 0, sys.getallocatedblocks(), False

        def count() -> None:
            nonlocal held
            now = sys.getallocatedblocks()
            self.most_freed, held = max(self.most_freed, held - now), now
            if not ended:
                self._loop.call_soon(count)

        self._loop.call_soon_threadsafe(count)
        yield
        self.settle()
        ended = True

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """Status and body of an answer, over a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        try:
            connection.request(method, path, body, {**HEADERS, **(headers or {})})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def stop_loop(self, seconds: float) -> None:
        """One turn that takes so long by the clock on the wall, from now on."""
        begun = threading.Event()

        def sleep() -> None:
            begun.set()
            time.sleep(seconds)

        self._loop.call_soon_threadsafe(sleep)
        assert begun.wait(SECONDS)

    @contextmanager
    def kept_late(self, seconds: float, *, times: int) -> Iterator[None]:
        """Turns of so long follow each other, at most so many, until the block ends."""
        left = times

        def sleep() -> None:
            nonlocal left
            left -= 1
            if left >= 0:
                time.sleep(seconds)
                self._loop.call_later(LOOK_SECONDS, sleep)

        self._loop.call_soon_threadsafe(sleep)
        yield
        left = 0

    def wait_until_late(self) -> None:
        self._wait_for_overload(wanted=True)

    def wait_until_in_time(self) -> None:
        self._wait_for_overload(wanted=False)

    def _wait_for_overload(self, *, wanted: bool) -> None:
        """By what a request that is not served anyway gets."""
        until = time.monotonic() + SECONDS
        while (self.ask("GET", "/v1/nowhere")[0] == 503) != wanted:
            assert time.monotonic() < until, "the loop is not as it was to be"

    def shed(self) -> float:
        """Requests that were refused for there was too much to do."""
        return sum(
            sample.value
            for family in self.metrics.http_requests_shed.collect()
            for sample in family.samples
            if sample.name.endswith("_total")
        )

    def keep_loop(self, seconds: float) -> None:
        """One turn that uses so much of the processor."""

        async def burn() -> None:
            until = time.thread_time() + seconds
            while time.thread_time() < until:
                sum(range(100))

        asyncio.run_coroutine_threadsafe(burn(), self._loop).result(SECONDS)
