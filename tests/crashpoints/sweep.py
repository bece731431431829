"""Goes through the crash points of a scenario: life, SIGKILL at call n, perhaps a power cut,
successor, questions."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shutil
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.chaos.control import Control
from tests.crashpoints.script import EXIT_AGAIN
from tests.e2e.power import Ledger

LIFE_S: Final = 40.0
RUNS_A_POINT_MAX: Final = 6
"""Runs differ a little in their number of calls: one of the last ones may not come at once."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Names of functions of `script`. Calls are counted below `tracked`."""

    name: str
    tracked: str
    prepare: str | None
    run: str
    verify: str


SCENARIOS: Final = (
    Scenario("single", "node-1", None, "single_run", "single_verify"),
    Scenario("payload", "node-1", None, "payload_run", "payload_verify"),
    Scenario("restart", "node-1", "single_run", "restart_run", "single_verify"),
    Scenario("snapshot", "node-3", "snapshot_prepare", "snapshot_run", "snapshot_verify"),
)


@dataclass(slots=True)
class Outcome:
    """What came of a sweep."""

    scenario: str
    total: int = 0
    """Counted calls of an undisturbed run."""
    tried: int = 0
    covered: int = 0
    """Points at which the node died."""
    power_cuts: int = 0
    sites: Counter[str] = field(default_factory=Counter)
    """Where it died, with numbers taken out of file names."""
    census: Counter[str] = field(default_factory=Counter)
    """The same for the undisturbed run."""
    violations: list[str] = field(default_factory=list)

    def fields(self) -> dict[str, Any]:
        return {
            "scenario": self.scenario,
            "total": self.total,
            "tried": self.tried,
            "covered": self.covered,
            "power_cuts": self.power_cuts,
            "sites": len(self.sites),
            "sites_total": len(self.census),
            "violations": self.violations,
        }


def site_of(line: str) -> str:
    """`17 write /wal/wal-000003` is the site `write /wal/wal-N`."""
    _, _, rest = line.partition(" ")
    return re.sub(r"\d+", "N", rest)


class Bench:
    """One worker with a directory of its own. Use as an async context manager."""

    def __init__(
        self,
        scratch: Path,
        shim: Path,
        scenario: Scenario,
        seed: int,
        *,
        ignore_sync: bool = False,
    ) -> None:
        scratch.mkdir(parents=True)
        self.scenario = scenario
        self.root = (scratch / "disk").resolve()
        self.root.mkdir()
        self.template = scratch / "template"
        self.acks = scratch / "acks"
        self.control = Control(scratch / "control")
        self.ledger = Ledger(shim, self.root / scenario.tracked, scratch / "undo")
        self.rng = random.Random(f"{scenario.name}/{seed}")
        self._environment = self.ledger.env(self.control.env(), ignore_sync=ignore_sync)
        self._log = scratch / "worker.log"
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Bench:
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tests.crashpoints.worker",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=os.environ | self._environment,
            )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()

    async def life(self, what: str) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {
            "what": what,
            "root": str(self.root),
            "acks": str(self.acks),
            "seconds": LIFE_S,
        }
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        await self._process.stdin.drain()
        line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the worker ended:\n{self._log.read_text()[-2000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    # -- directories

    def _empty(self) -> None:
        for path in [*self.root.iterdir(), *self.ledger.state.iterdir()]:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        self.acks.unlink(missing_ok=True)
        self.control.clear()

    def _fresh(self) -> None:
        """As before the run: empty, or what was prepared."""
        self._empty()
        if self.template.exists():
            shutil.copytree(self.template / "disk", self.root, dirs_exist_ok=True)
            shutil.copy(self.template / "acks", self.acks)

    async def prepare(self) -> None:
        """Raises RuntimeError when even the undisturbed preparation fails."""
        if self.scenario.prepare is None:
            return
        self._empty()
        answer = await self.life(self.scenario.prepare)
        if answer["exit"] != 0:
            raise RuntimeError(f"the preparation failed: {answer}")
        self.template.mkdir()
        shutil.copytree(self.root, self.template / "disk")
        shutil.copy(self.acks, self.template / "acks")

    # -- points

    async def census(self) -> tuple[int, Counter[str]]:
        """How many calls an undisturbed run makes, and where."""
        self._fresh()
        self.control.put("trace", 1)
        answer = await self.life(self.scenario.run)
        if answer["exit"] != 0:
            raise RuntimeError(f"the undisturbed run failed: {answer}")
        lines = (self.ledger.state / "trace").read_text().splitlines()
        return self.control.get("calls"), Counter(site_of(line) for line in lines)

    async def _killed_at(self, number: int) -> dict[str, Any]:
        self._fresh()
        self.control.put("kill_at", number)
        return await self.life(self.scenario.run)

    async def point(self, number: int, outcome: Outcome, *, power: bool) -> None:
        outcome.tried += 1
        answer = await self._killed_at(number)
        for _ in range(RUNS_A_POINT_MAX - 1):
            if answer["killed"] or answer["exit"] not in (0, EXIT_AGAIN):
                break
            answer = await self._killed_at(number)
        where = self.control.last
        if answer["killed"]:
            outcome.covered += 1
            outcome.sites[site_of(where)] += 1
        elif answer["exit"] != 0:
            outcome.violations.append(f"point {number}: ended by itself: {answer['said'][-800:]}")
            return
        self.control.clear()
        if power and answer["killed"]:
            outcome.power_cuts += 1
            self.ledger.cut_power(self.rng)
        after = await self.life(self.scenario.verify)
        for _ in range(RUNS_A_POINT_MAX - 1):
            if after["exit"] == EXIT_AGAIN:
                after = await self.life(self.scenario.verify)
        if after["exit"] != 0:
            why = "too slow" if after["late"] else after["said"][-800:]
            with_power = " and a power cut" if power else ""
            outcome.violations.append(f"point {number} ({where}){with_power}: {why}")


async def sweep(
    scratch: Path,
    shim: Path,
    scenario: Scenario,
    *,
    stride: int = 1,
    offset: int = 0,
    seed: int = 0,
    jobs: int = 1,
    spread: int | None = None,
    ignore_sync: bool = False,
) -> Outcome:
    """Every `stride`-th point from 1 + `offset` on, or `spread` points over the whole run; every
    other one is followed by a power cut. `ignore_sync`: syncs do nothing, which must be noticed."""
    outcome = Outcome(scenario.name)
    benches = [
        Bench(
            scratch / f"{scenario.name}-{number}",
            shim,
            scenario,
            seed + number,
            ignore_sync=ignore_sync,
        )
        for number in range(jobs)
    ]
    first = benches[0]
    async with first:
        await first.prepare()
        outcome.total, outcome.census = await first.census()
    numbers = list(range(1 + offset, outcome.total + 1, stride))
    if spread is not None:
        # the last tenth is left out: runs differ a little in their length
        numbers = [1 + outcome.total * 9 * turn // (10 * spread) for turn in range(spread)]
    queue = [(number, (turn + seed) % 2 == 0) for turn, number in enumerate(numbers)][::-1]

    async def take(bench: Bench) -> None:
        if bench is not first and first.template.exists():
            bench.template = first.template
        async with bench:
            while queue:
                number, power = queue.pop()
                await bench.point(number, outcome, power=power)

    async with asyncio.TaskGroup() as group:
        for bench in benches:
            group.create_task(take(bench))
    return outcome
