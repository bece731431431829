"""One round: load, a row of faults, healing, a final read, the verdict."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from svc_cluster.base.clock import SystemClock
from svc_cluster.lab.api_client import ApiClient
from svc_cluster.storage.worker import EXIT_STORAGE
from tests.chaos.api import ChaosApi, Http2Api
from tests.chaos.cluster import ChaosCluster
from tests.chaos.recorder import ChaosRecorder
from tests.chaos.rows import ROWS
from tests.chaos.scene import RECOVERY_S, Scene
from tests.chaos.session_writer import SessionWriter
from tests.chaos.writers import Retrier
from tests.linearizability.checker import check
from tests.linearizability.history import Append, Outcome, Read, SeenRecord, write_history
from tests.simulation.workload import (
    Client,
    NoEffectError,
    StreamHistory,
    UnknownOutcomeError,
    WorkloadOptions,
)

BASIN: Final = "chaos-basin"
OPERATIONS_MIN: Final = 1000
WARM_UP_S: Final = 0.7
LATE_S: Final = 4.5
"""After healing, this long a write may still arrive: the gateways' deadline and some."""
ROUND_S: Final = 180.0
OPERATIONS_PER_S_MIN: Final = 50
"""So long a history may take, beside ROUND_S."""
LONG_OPERATIONS: Final = 20_000
"""A history of more has a fault again and again, until it is long enough."""
LONG_ROWS: Final = ("D1", "D2", "D5", "D6", "D7", "D8", "D9", "D20", "D21", "D22")
"""The faults of a long history: those that end when they are healed."""
LONG_PAUSE_S: Final = 10.0
"""Between two of them."""
LONG_CLIENTS: Final = 12
FOLLOWED_BACK: Final = 5_000
"""Records behind the tail at most from which somebody follows a history: else what is read of a
long one grows with its square."""
EXPECTED_EXITS: Final = {
    "D10": (-signal.SIGKILL, EXIT_STORAGE),
    "D11": (-signal.SIGKILL, EXIT_STORAGE),
    "D16": (-signal.SIGKILL, 0),
}
"""Elsewhere only our own SIGKILL ends a process."""


@dataclass(slots=True)
class Result:
    """One line of chaos.jsonl, apart from commit and date."""

    row: str
    round: int
    seed: int
    ops: int = 0
    acked: int = 0
    ambiguous: int = 0
    refused: int = 0
    records: int = 0
    retried_batches: int = 0
    violations: list[str] = field(default_factory=list)
    failover_ms: list[int] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    def fields(self) -> dict[str, Any]:
        return asdict(self)


class Round:
    """Everything of one round on a cluster that may have served others before."""

    def __init__(
        self,
        cluster: ChaosCluster,
        row: str,
        number: int,
        seed: int,
        *,
        operations: int = OPERATIONS_MIN,
    ) -> None:
        self.cluster = cluster
        self.result = Result(row, number, seed)
        self.rng = random.Random(f"chaos/{seed}/{number}/{row}")
        self.recorder = ChaosRecorder(number)
        self.apis = [ChaosApi(url) for url in cluster.urls]
        self._http2_apis = [Http2Api(url) for url in cluster.urls]
        self.history: StreamHistory
        self._operations = operations
        self._stop = asyncio.Event()
        self._exits_before = {m.name: len(m.exits) for m in cluster.members()}
        self._clients: list[Client] = []
        self._retrier = Retrier(self.apis, BASIN, f"retry-{number}")
        self._sessions = SessionWriter(
            self.apis,
            BASIN,
            f"session-{number}",
            random.Random(f"{seed}/{number}/sessions"),
            planned_stops=row == "D16",
        )
        self.final: tuple[SeenRecord, ...] = ()

    async def run(self) -> Result:
        """Never raises for what the cluster did wrong: that is in the result."""
        begin = time.monotonic()
        try:
            async with asyncio.timeout(ROUND_S + self._operations / OPERATIONS_PER_S_MIN):
                await self._play()
        except Exception as fault:
            self.result.violations.append(f"{type(fault).__name__}: {fault}"[:600])
        finally:
            for api in self.apis:
                api.close()
        self._count()
        self.result.seconds = round(time.monotonic() - begin, 1)
        return self.result

    async def _play(self) -> None:
        await self._set_up()
        load = [asyncio.ensure_future(part) for part in self._load()]
        scene = Scene(self.cluster, self.rng, BASIN, self.recorder, self.history, self.apis)
        try:
            await asyncio.sleep(WARM_UP_S)
            await ROWS[self.result.row](scene)
            self._heal()
            if self._is_long:
                await self._lengthen(scene, load)
            await self._enough(load)
        finally:
            self._heal()
            self.result.violations += scene.violations
            self.result.failover_ms = scene.failover_ms
            self.result.facts = scene.facts
            healed = time.monotonic()
            try:
                await self._start_what_is_down()
            finally:
                await self._stop_load(load)
        await self._quiesce(healed)
        await self._judge()

    async def _set_up(self) -> None:
        name = f"stream-{self.result.round}"
        api = ApiClient(self.cluster.urls[0])
        try:
            await api.make(SystemClock(), BASIN, None, RECOVERY_S)
            for stream in (name, self._retrier.stream, self._sessions.stream):
                await api.make(SystemClock(), BASIN, stream, RECOVERY_S)
        finally:
            api.close()
        self.history = self.recorder.stream(BASIN, name)

    def _load(self) -> list[Any]:
        options = WorkloadOptions(
            think_s=self.rng.choice((0.01, 0.02)),
            batch_max=self.rng.choice((3, 10)),
            padding_max=self.rng.choice((0, 100, 1000)),
            read_share=0.25,
            tail_share=0.1,
            trim_share=0.0,
            event_streams=False,
            session_share=0.2,
            retry_share=0.2,
        )
        apis = [*self.apis, *self._http2_apis]
        parts: list[Any] = [self._retrier.run(), self._sessions.run()]
        for number in range(LONG_CLIENTS if self._is_long else 6):
            client = Client(
                self.recorder, apis, options, random.Random(f"{self.result.seed}/{number}")
            )
            self._clients.append(client)
            parts.append(client.run())
        parts += [self._follow(api) for api in apis]
        return parts

    async def _follow(self, api: ChaosApi) -> None:
        """Follow by events over HTTP/1.1 and by read sessions over HTTP/2, for some seconds each,
        on one or two connections."""
        rng = random.Random(f"{self.result.seed}/{api.url}/{type(api).__name__}")
        client = self.recorder.new_client()
        while not self._stop.is_set():
            tail = self.history.tail_seen
            start = rng.choice((max(0, tail - FOLLOWED_BACK), tail))
            lengths = [rng.uniform(0.3, 3.0) for _ in range(rng.randint(1, 2))]
            apis = [api] * len(lengths)
            await self.recorder.follow(apis, self.history, client, start, lengths)
            await asyncio.sleep(0.05)

    @property
    def _is_long(self) -> bool:
        return self._operations > LONG_OPERATIONS

    async def _lengthen(self, scene: Scene, load: list[asyncio.Future[Any]]) -> None:
        """Faults, healed each, until the history is nearly long enough."""
        played = 1
        while self.recorder.operations < self._operations - LONG_OPERATIONS // 2:
            await asyncio.sleep(LONG_PAUSE_S)
            self._see(load)
            await ROWS[self.rng.choice(LONG_ROWS)](scene)
            self._heal()
            await self._start_what_is_down()
            played += 1
            scene.facts["faults"] = played

    async def _enough(self, load: list[asyncio.Future[Any]]) -> None:
        """Until the history is long enough. A client that failed ends the waiting."""
        async with asyncio.timeout(RECOVERY_S * 2 + LONG_OPERATIONS / OPERATIONS_PER_S_MIN):
            while self.recorder.operations < self._operations:
                self._see(load)
                await asyncio.sleep(0.05)

    @staticmethod
    def _see(load: list[asyncio.Future[Any]]) -> None:
        """Raise what ended a client."""
        for part in load:
            if part.done():
                part.result()

    # -- mending

    def _heal(self) -> None:
        self.cluster.network.heal()
        for control in self.cluster.controls.values():
            control.ease()
        for member in self.cluster.members():
            member.resume()

    async def _start_what_is_down(self) -> None:
        for member in self.cluster.members():
            if not member.is_up:
                member.start()
        await self.cluster.ready()

    async def _stop_load(self, load: list[asyncio.Future[Any]]) -> None:
        self._stop.set()
        self._retrier.stopping = self._sessions.stopping = True
        for client in self._clients:
            client.stopping = True
        _, late = await asyncio.wait(load, timeout=RECOVERY_S)
        for part in late:
            part.cancel()
        for outcome in await asyncio.gather(*load, return_exceptions=True):
            if isinstance(outcome, BaseException):
                self.result.violations.append(f"{type(outcome).__name__}: {outcome}"[:600])

    async def _quiesce(self, healed: float) -> None:
        """Until nothing that was sent can take effect any more, and the cluster answers."""
        if self.recorder.unknown:
            await asyncio.sleep(max(0.0, healed + LATE_S - time.monotonic()))
        client = self.recorder.new_client()
        await self._insist(lambda: self._barrier(client))

    async def _barrier(self, client: int) -> bool:
        items = self.recorder.items(self.rng, client, 1, 0)
        append = await self.recorder.append(self.apis[0], self.history, client, items)
        return append.outcome is Outcome.OK

    async def _insist(self, call: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(RECOVERY_S):
            while not await call():
                await asyncio.sleep(0.05)

    # -- judging

    async def _judge(self) -> None:
        result = self.result
        found: list[SeenRecord] = []

        async def more() -> bool:
            try:
                answer = await self.apis[0].read(BASIN, self.history.stream, len(found), 1000)
            except (NoEffectError, UnknownOutcomeError):
                return False
            found.extend(answer.records)
            return len(found) >= answer.tail

        await self._insist(more)
        self.final = tuple(found)
        self.history.acked.final(found)
        verdict = check(self.history.operations, found)
        result.violations += [str(violation)[:600] for violation in verdict.violations]
        await self._retrier.verify()
        result.violations += self._retrier.violations
        await self._sessions.verify()
        result.violations += self._sessions.violations
        result.violations += await self.cluster.equal()
        if self.recorder.operations < self._operations:
            result.violations.append(f"only {self.recorder.operations} operations")
        for member in self.cluster.members():
            for status in member.exits[self._exits_before[member.name] :]:
                if status not in EXPECTED_EXITS.get(result.row, (-signal.SIGKILL,)):
                    result.violations.append(f"{member.name} ended with status {status}")

    def _count(self) -> None:
        counts = self.recorder.counts
        result = self.result
        result.ops = self.recorder.operations
        result.acked, result.ambiguous = counts.acked, counts.unknown + self._retrier.ambiguous
        result.refused = counts.refused
        result.records = len(self.final)
        result.retried_batches = self._retrier.resolved_as_done
        for kind, fact in (
            (Append, "history_session_batches"),
            (Read, "history_follow_batches"),
        ):
            result.facts[fact] = sum(
                isinstance(each, kind) and each.session is not None
                for each in self.history.operations
            )
        result.facts["session_batches_acked"] = self._sessions.acked
        result.facts["session_batches_unknown"] = self._sessions.unknown

    def save(self, directory: Path) -> Path:
        """The history and the final read, for the checker alone."""
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"round-{self.result.round}-{self.result.row}.jsonl"
        with path.open("w") as out:
            write_history(self.history.operations, out)
        with path.with_suffix(".final").open("w") as out:
            out.writelines(f"{r.seq_num}\t{r.timestamp_ms}\t{r.body}\n" for r in self.final)
        return path
