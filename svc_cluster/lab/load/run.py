"""One run of one scenario against one service: filled, then measured by client processes."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from svc_cluster.base.clock import Clock
from svc_cluster.lab.load.figures import Figures, Tally
from svc_cluster.lab.load.filling import Filling
from svc_cluster.lab.load.order import Begin, LoadReport, Order, Share
from svc_cluster.lab.load.processes import ProcessWatch
from svc_cluster.lab.load.requests import LoadAccess
from svc_cluster.lab.load.scenarios import Part, Scenario

GENERATOR: Final = "svc_cluster.lab.load.generator"
GENERATOR_CORES_MAX: Final = 0.4
"""More of a core than this, and the generator may be what limits the figure."""
_LINE_BYTES_MAX: Final = 64 * 2**20
_START_S_MAX: Final = 120.0
_AFTER_S_MAX: Final = 60.0


class LoadError(Exception):
    """There is nothing to measure, or a client process has failed."""


@dataclass(frozen=True, slots=True)
class LoadTarget:
    """What is measured. `pids` and `directory`: of its processes and their data, where they are on
    this machine. `generator`: the module that client processes run."""

    access: LoadAccess
    basin: str
    pids: Sequence[int] = ()
    directory: Path | None = None
    generator: str = GENERATOR
    caller: str = "http"
    can_fill: bool = True
    """Whether it has basins and streams, which are made and filled over HTTP."""


class Run:
    """A scenario on a service, once. Its streams are its own."""

    def __init__(
        self, scenario: Scenario, service: LoadTarget, warm_up_s: float, clock: Clock, seed: int
    ) -> None:
        self._scenario = scenario
        self._service = service
        self._warm_up_s = warm_up_s
        self._clock = clock
        self._seed = seed
        self._name = f"{scenario.name}-{clock.wall_ms()}"
        self._tails: dict[tuple[str, str], int] = {}

    def _basin(self, part: Part) -> str:
        return self._service.basin + ("-2" if part.other_basin else "")

    def _streams(self, part: Part) -> list[str]:
        return [f"{self._name}-{part.place}{number}" for number in range(part.streams)]

    def move(self, service: LoadTarget) -> None:
        """Go on at another address, where the same data is."""
        self._service = service

    async def fill(self) -> None:
        """Make the streams, with what they hold. Raises LoadError."""
        if not self._service.can_fill:
            return
        async with Filling(self._service.access, self._clock, random.Random(self._seed)) as filling:
            for phase in self._scenario.phases:
                for part in phase:
                    basin, streams = self._basin(part), self._streams(part)
                    missing = [one for one in streams if (basin, one) not in self._tails]
                    await filling.make(basin, missing)
                    content = None if part.place else self._scenario
                    for stream in missing:
                        tail = await filling.fill(basin, stream, content)
                        self._tails[basin, stream] = tail

    async def measure(self) -> list[Figures]:
        """The figures of each part of each phase. Raises LoadError."""
        told = []
        for phase in self._scenario.phases:
            told += await self._phase(phase)
        return told

    async def _phase(self, parts: tuple[Part, ...]) -> list[Figures]:
        service = self._service
        if service.can_fill and any(part.kind == "read_session" for part in parts):
            await self._look_again(parts)
        processes = max(1, min(self._scenario.processes, sum(part.connections for part in parts)))
        orders = [self._order(parts, number, processes) for number in range(processes)]
        async with contextlib.AsyncExitStack() as stack:
            generators = [
                await stack.enter_async_context(_Generator(service.generator, order))
                for order in orders
            ]
            async with asyncio.timeout(_START_S_MAX):
                for generator in generators:
                    await generator.ready()
            begin = self._clock.monotonic() + self._warm_up_s
            end = begin + self._scenario.seconds
            for generator in generators:
                generator.begin(begin)
            watch = ProcessWatch(service.pids, service.directory, self._clock)
            used = await watch.over(begin, end)
            async with asyncio.timeout(end - self._clock.monotonic() + _AFTER_S_MAX):
                reports = [await generator.report() for generator in generators]
        return _figures(parts, orders, reports, used, self._scenario)

    async def _look_again(self, parts: tuple[Part, ...]) -> None:
        """What the phase before has written is read too."""
        async with Filling(self._service.access, self._clock, random.Random(self._seed)) as filling:
            for part in parts:
                for stream in self._streams(part):
                    basin = self._basin(part)
                    self._tails[basin, stream] = await filling.tail(basin, stream)

    def _order(self, parts: tuple[Part, ...], process: int, processes: int) -> Order:
        """What one process does. Connections are dealt out in turns over the parts, so that two
        parts of one connection each are in two processes."""
        shares = []
        dealt = 0
        for part in parts:
            mine = [
                number
                for number in range(part.connections)
                if (dealt + number) % processes == process
            ]
            dealt += part.connections
            if mine:
                basin, streams = self._basin(part), self._streams(part)
                tails = [self._tails.get((basin, stream), 0) for stream in streams]
                shares.append(Share(part, basin, streams, tails, mine))
        service, seconds = self._service, self._scenario.seconds
        seed = self._seed * 64 + process
        return Order(service.access, shares, self._warm_up_s, seconds, seed, service.caller)


class _Generator:
    """One client process."""

    def __init__(self, module: str, order: Order) -> None:
        self._module = module
        self._order = order
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> _Generator:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            self._module,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_LINE_BYTES_MAX,
        )
        self._say(self._order)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process is not None, "started"
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    def _say(self, value: Order | Begin) -> None:
        assert self._process is not None, "started"
        assert self._process.stdin is not None, "it was asked for"
        self._process.stdin.write(msgspec.json.encode(value) + b"\n")

    async def _line(self) -> bytes:
        assert self._process is not None, "started"
        assert self._process.stdout is not None, "it was asked for"
        line = await self._process.stdout.readline()
        if not line:
            raise LoadError(f"a client process ended with {await self._process.wait()}")
        return line

    async def ready(self) -> None:
        """Return when it could begin at once. Raises LoadError."""
        await self._line()

    def begin(self, at: float) -> None:
        self._say(Begin(at))

    async def report(self) -> LoadReport:
        """What it has measured, when it has. Raises LoadError."""
        return msgspec.json.decode(await self._line(), type=LoadReport)


def _figures(
    parts: tuple[Part, ...],
    orders: Sequence[Order],
    reports: Sequence[LoadReport],
    used: Figures,
    scenario: Scenario,
) -> list[Figures]:
    """One row for each part. What all of them share, processor time and bytes, is counted in the
    first one's requests."""
    generator = sum(report.cpu_s for report in reports) / scenario.seconds
    rows = []
    metered = 0
    for part in parts:
        whole: Tally | None = None
        for order, report in zip(orders, reports, strict=True):
            for share, tally in zip(order.shares, report.tallies, strict=True):
                if share.part != part:
                    continue
                if whole is None:
                    whole = tally
                else:
                    whole.merge(tally)
        assert whole is not None, "every part has a connection"
        if part.kind in ("append", "session"):
            metered += whole.metered_bytes
        row: Figures = {"scenario": scenario.name, "part": part.name}
        row |= {"connections": part.connections, "size": part.size, "batch": part.batch}
        row |= whole.figures() | {"requests": whole.requests, "rate": part.rate}
        row["generator_cores"] = round(generator, 2)
        row["generator_bound"] = generator > GENERATOR_CORES_MAX
        rows.append(row)
    first = rows[0]
    if used and first["requests"]:
        first["cpu_us_per_request"] = round(used["cpu_s"] / first["requests"] * 1e6, 1)
    if used:
        first["rss_mib_max"] = used["rss_mib_max"]
    if "device_bytes" in used and metered:
        first["device_bytes_per_byte"] = round(used["device_bytes"] / metered, 2)
    return rows
