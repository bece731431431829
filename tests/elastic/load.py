"""Clients of many basins that repeat each request until it is answered, and write down all of it.

Each append has a request token of its own and is one operation, however often it was sent. What
did not come to an answer after all attempts is an error.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from svc_cluster.base.clock import SystemClock
from svc_cluster.lab.api_client import ApiClient
from tests.chaos.api import ChaosApi
from tests.chaos.recorder import ChaosRecorder
from tests.linearizability.checker import check
from tests.linearizability.history import Append, Outcome, SeenRecord
from tests.simulation.recorder import Retries
from tests.simulation.workload import NoEffectError, StreamHistory, UnknownOutcomeError

STREAM: Final = "s"
ATTEMPTS: Final = 400
"""Of one request, with 0.2 s between two of them on average: more than a minute."""
READ_SHARE: Final = 0.2
TAIL_SHARE: Final = 0.1
BATCH_MAX: Final = 4
PADDING_MAX: Final = 400
MAKE_S: Final = 120.0
PROGRESS_S: Final = 240.0

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Wait:
    """How long one append took until it was known to have happened, with all of its attempts."""

    begun: float
    seconds: float
    basin: str

    @property
    def known(self) -> float:
        return self.begun + self.seconds


@dataclass(slots=True)
class BasinClient:
    """One client, which writes to one basin and reads it."""

    recorder: ChaosRecorder
    apis: list[ChaosApi]
    history: StreamHistory
    rng: random.Random
    think_s: float
    stopping: asyncio.Event
    waits: list[Wait] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    async def run(self) -> None:
        client = self.recorder.new_client()
        while not self.stopping.is_set():
            draw = self.rng.random()
            if draw < READ_SHARE:
                await self._read(client)
            elif draw < READ_SHARE + TAIL_SHARE:
                await self._answered(
                    "tail",
                    lambda api: self.recorder.check_tail(api, self.history, client),
                )
            else:
                await self._append(client)
            await self._think()

    async def _think(self) -> None:
        try:
            async with asyncio.timeout(self.rng.expovariate(1 / self.think_s)):
                await self.stopping.wait()
        except TimeoutError:
            return

    async def _append(self, client: int) -> None:
        rng, recorder = self.rng, self.recorder
        items = recorder.items(rng, client, rng.randint(1, BATCH_MAX), PADDING_MAX)
        # two basins may well see the same token: it is one basin's
        token = f"elastic-{recorder.new_session()}"
        retries = Retries(token, self.apis, rng, ATTEMPTS)
        begun = time.monotonic()
        append = await recorder.append(
            rng.choice(self.apis), self.history, client, items, retries=retries
        )
        self.waits.append(Wait(begun, time.monotonic() - begun, self.history.basin))
        if append.outcome is not Outcome.OK:
            self.errors.append(f"append to {self.history.basin}: {append.outcome.value}")

    async def _read(self, client: int) -> None:
        tail = self.history.tail_seen
        start = self.rng.choice((0, max(0, tail - 20), tail))
        await self._answered(
            "read",
            lambda api: self.recorder.read(api, self.history, client, start, 1000),
        )

    async def _answered(
        self, what: str, call: Callable[[ChaosApi], Awaitable[object | None]]
    ) -> None:
        for _ in range(ATTEMPTS):
            if await call(self.rng.choice(self.apis)) is not None:
                return
            await asyncio.sleep(self.rng.uniform(0.0, 0.4))
        self.errors.append(f"{what} of {self.history.basin} got no answer")


class ElasticLoad:
    """As many basins as are asked for, each with a client."""

    def __init__(self, urls: list[str], basins: int, think_s: float, seed: int) -> None:
        self.recorder = ChaosRecorder(seed)
        self.apis = [ChaosApi(url) for url in urls]
        self._stopping = asyncio.Event()
        self.clients = [
            BasinClient(
                self.recorder,
                self.apis,
                self.recorder.stream(f"elastic-basin-{number:03}", STREAM),
                random.Random(f"elastic/{seed}/{number}"),
                think_s,
                self._stopping,
            )
            for number in range(basins)
        ]
        self._tasks: list[asyncio.Task[None]] = []
        self.final: dict[str, tuple[SeenRecord, ...]] = {}

    @property
    def basins(self) -> list[str]:
        return [client.history.basin for client in self.clients]

    async def set_up(self) -> None:
        """Make the basins and their streams, three at a time."""
        places = iter(self.basins)

        async def make() -> None:
            api = ApiClient(self.apis[0].url)
            try:
                for basin in places:
                    await api.make(SystemClock(), basin, None, MAKE_S)
                    await api.make(SystemClock(), basin, STREAM, MAKE_S)
            finally:
                api.close()

        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(make())

    def start(self) -> None:
        self._tasks = [asyncio.create_task(client.run()) for client in self.clients]

    def _no_client_has_failed(self) -> None:
        for task in self._tasks:
            if task.done():
                task.result()

    async def progress(self, appends: int) -> None:
        """Until each basin has acknowledged so many more. Raises TimeoutError."""
        goals = [len(client.waits) + appends for client in self.clients]
        async with asyncio.timeout(PROGRESS_S):
            while any(
                len(client.waits) < goal for client, goal in zip(self.clients, goals, strict=True)
            ):
                self._no_client_has_failed()
                await asyncio.sleep(0.1)

    async def stop(self) -> None:
        """Each client ends its request first, so that the outcome of none stays open."""
        self._stopping.set()
        await asyncio.gather(*self._tasks)

    async def abandon(self) -> None:
        """Nobody wants to know any more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for api in self.apis:
            api.close()

    @property
    def waits(self) -> list[Wait]:
        return [wait for client in self.clients for wait in client.waits]

    @property
    def errors(self) -> list[str]:
        return [error for client in self.clients for error in client.errors]

    # -- judging

    async def read_all(self) -> None:
        """Read every stream to its end."""
        for client in self.clients:
            found: list[SeenRecord] = []
            for _ in range(ATTEMPTS):
                try:
                    answer = await self.apis[0].read(client.history.basin, STREAM, len(found), 1000)
                except (NoEffectError, UnknownOutcomeError):
                    await asyncio.sleep(0.2)
                    continue
                found += answer.records
                if len(found) >= answer.tail:
                    break
            else:
                raise AssertionError(f"{client.history.basin} cannot be read")
            self.final[client.history.basin] = tuple(found)

    def lost(self) -> tuple[int, int]:
        """(acknowledged records, those of them that are not where they were acknowledged)."""
        acknowledged = lost = 0
        for client in self.clients:
            final = self.final[client.history.basin]
            for append in client.history.operations:
                if not isinstance(append, Append) or append.outcome is not Outcome.OK:
                    continue
                assert append.start is not None
                acknowledged += len(append.bodies)
                lost += sum(
                    at >= len(final) or final[at].body != body
                    for at, body in enumerate(append.bodies, append.start)
                )
        return acknowledged, lost

    def violations(self) -> list[str]:
        """What the checker finds in the whole history of each stream."""
        found = []
        for client in self.clients:
            history = client.history
            verdict = check(history.operations, self.final[history.basin])
            found += [f"{history.basin}: {each}"[:600] for each in verdict.violations]
        return found
