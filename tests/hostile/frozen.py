"""Many basins under load on three nodes of which one is stopped for a while and goes on, as a
machine does that swaps, migrates or is paused."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Final

from svc_cluster.lab.own_cluster import OwnCluster
from tests.e2e.load import StreamWriter, Verdict, quantile, set_up
from tests.hostile.processes import forget_peaks, peaks
from tests.hostile.scale import FULL_SCALE, SCALE
from tests.own_processes import node_pids, resident_bytes

STREAM: Final = "s"
BODY_BYTES: Final = (300, 3_000, 30_000)
PAUSES_S: Final = (3.2, 1.6, 0.8, 0.4, 0.2, 0.1) if SCALE >= FULL_SCALE else (0.2,)
"""Of a writer between two appends: each is half the one before, and the last but one at which the
cluster is calm on this machine is taken."""

CALM_S: Final = 3.0
CALM_P99_S: Final = 0.25
"""Of appends while nothing is wrong. A machine on which they wait longer has nothing left, also
where no group has an election any more: then a repair is as slow as everything beside it."""
SETTLE_S: Final = 120.0
CREATED_AT_ONCE: Final = 8
WHOLE_S: Final = 10.0
"""So soon behind its standing still a node has everything again."""


@dataclass(slots=True)
class Seen:
    """What a freeze came to."""

    elections: dict[str, Any] = field(default_factory=dict)
    """Groups whose term or leader changed although the frozen node did not lead them."""

    led_by_frozen: int = 0
    whole_s: float = 0.0
    behind_entries: int = 0
    """Of all groups together, when it went on."""

    peak_bytes: dict[str, int] = field(default_factory=dict)
    """By process, from before the freeze until behind the repair."""

    frozen_bytes: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    waits_s: list[float] = field(default_factory=list)
    """Of the appends that were begun during the freeze to basins that the others led."""

    pause_s: float = 0.0
    """Of each writer between two appends."""

    verdict: Verdict = field(default_factory=Verdict)


class FrozenScene:
    """`cluster` is ready and has three nodes; its basins are made here."""

    def __init__(self, cluster: OwnCluster, basins: int) -> None:
        self.cluster = cluster
        self.writers = [
            StreamWriter(cluster.url, f"frozen-{n:03}", STREAM, batch=2, sizes=BODY_BYTES)
            for n in range(basins)
        ]

    async def prepare(self) -> None:
        left = iter(self.writers)

        async def make() -> None:
            for writer in left:
                await set_up(self.cluster.url, writer.basin, [STREAM])

        await asyncio.gather(*(make() for _ in range(CREATED_AT_ONCE)))

    async def give_away(self, node: int) -> None:
        """Until the node leads nothing."""
        self.cluster.kill_node(node, signal.SIGUSR1)
        async with asyncio.timeout(SETTLE_S):
            # a node that is too busy to say so may still lead
            while (rows := await self._rows(node)) == {} or any(
                row["role"] == "leader" for row in rows.values()
            ):
                await asyncio.sleep(0.1)

    @contextlib.asynccontextmanager
    async def _load(self) -> AsyncIterator[None]:
        for writer in self.writers:
            writer.stopping = False
            writer.pause_s = PAUSES_S[0]
        tasks = [asyncio.create_task(writer.run()) for writer in self.writers]
        try:
            await self._answers(3)
            yield
            await self._answers(3)
        finally:
            for writer in self.writers:
                writer.stopping = True
            await asyncio.gather(*tasks)

    async def _answers(self, more: int) -> None:
        """Every writer has so many appends acknowledged from now on."""
        goals = [len(writer.outcomes) + more for writer in self.writers]
        end = time.monotonic() + SETTLE_S
        while True:
            short = [
                writer
                for writer, goal in zip(self.writers, goals, strict=True)
                if len(writer.outcomes) < goal and not writer.violations
            ]
            if not short:
                return
            told = {w.basin: (dict(w.errors), len(w.outcomes)) for w in short[:10]}
            assert time.monotonic() < end, f"{len(short)} writers are not answered: {told}"
            await asyncio.sleep(0.05)

    async def freeze(self, node: int, seconds: float) -> Seen:
        """Stop the node under load for so long and let it go on; load ends once it is whole."""
        seen = Seen()
        others = [other for other in node_pids(self.cluster) if other != node]
        forget_peaks(self.cluster.pids())
        refused = sum((writer.errors for writer in self.writers), Counter[str]())
        async with self._load():
            before = await self._calm(others)
            spared = {name: row for name, row in before.items() if row[1] != node}
            seen.led_by_frozen = len(before) - len(spared)
            seen.frozen_bytes = resident_bytes(node_pids(self.cluster)[node])
            self.cluster.kill_node(node, signal.SIGSTOP)
            begun = time.monotonic()
            try:
                await asyncio.sleep(seconds)
                during = await self._terms(others)
            finally:
                self.cluster.kill_node(node, signal.SIGCONT)
            went_on = time.monotonic()
            seen.behind_entries = await self._whole(node, others)
            seen.whole_s = time.monotonic() - went_on
            after = await self._terms(others)
        for name, row in spared.items():
            if not row == during[name] == after[name]:
                seen.elections[name] = (row, during[name], after[name])
        seen.peak_bytes = peaks(self.cluster)
        seen.pause_s = self.writers[0].pause_s
        seen.refusals = sum((writer.errors for writer in self.writers), Counter[str]()) - refused
        for writer in self.writers:
            assert not writer.violations, writer.violations
            if writer.basin in spared:
                seen.waits_s += [o.known - o.begun for o in writer.outcomes if o.begun >= begun]
        for writer in self.writers:
            seen.verdict += await writer.verify()
        await self._equal()
        return seen

    async def _calm(self, nodes: list[int]) -> dict[str, tuple[int, int | None]]:
        """Terms and leaders once no group has had an election for a while and appends are answered
        in time, under half the load that the machine carries: what is shown is what a frozen node
        does, not what a busy machine, and a machine that has nothing left has nothing to catch up
        with."""
        carried = 0
        for pause_s in PAUSES_S:
            if await self._calm_at(pause_s, nodes) is None:
                break
            carried += 1
        for pause_s in reversed(PAUSES_S[: max(1, carried - 1)]):
            calm = await self._calm_at(pause_s, nodes)
            if calm is not None:
                return calm
        raise AssertionError("elections under the least load: the machine is too busy for this")

    async def _calm_at(
        self, pause_s: float, nodes: list[int]
    ) -> dict[str, tuple[int, int | None]] | None:
        """Terms and leaders under this load; None where they change, or appends wait."""
        for writer in self.writers:
            writer.pause_s = pause_s
        before = await self._terms(nodes)
        begun = time.monotonic()
        await asyncio.sleep(CALM_S)
        waits = [
            outcome.known - outcome.begun
            for writer in self.writers
            for outcome in writer.outcomes
            if outcome.begun >= begun
        ]
        after = await self._terms(nodes)
        is_calm = after == before and quantile(waits, 0.99) <= CALM_P99_S
        return after if is_calm else None

    async def _rows(self, node: int) -> dict[str, dict[str, Any]]:
        return {str(row["basin"]): row for row in (await self.cluster.groups()).get(node, [])}

    async def _terms(self, nodes: list[int]) -> dict[str, tuple[int, int | None]]:
        """Term and leader of every group, once these nodes agree."""
        async with asyncio.timeout(SETTLE_S):
            while True:
                found = await self.cluster.groups()
                known = [
                    {str(row["basin"]): (row["term"], row["leader"]) for row in found.get(node, [])}
                    for node in nodes
                ]
                if all(
                    each == known[0]
                    and len(each) > len(self.writers)
                    and all(leader is not None for _, leader in each.values())
                    for each in known
                ):
                    return known[0]
                await asyncio.sleep(0.1)

    async def _whole(self, node: int, others: list[int]) -> int:
        """Until the node has applied, in every group, all that was committed when it went on.
        Returns by how many entries it was behind."""
        found = await self.cluster.groups()
        goals: dict[str, int] = {}
        for other in others:
            for row in found[other]:
                name = str(row["basin"])
                goals[name] = max(goals.get(name, 0), row["commit_index"])
        behind: int | None = None
        async with asyncio.timeout(SETTLE_S):
            while True:
                rows = await self._rows(node)
                lag = {
                    name: goal - rows[name]["applied_index"] if name in rows else goal
                    for name, goal in goals.items()
                }
                left = sum(max(0, entries) for entries in lag.values())
                behind = left if behind is None else behind
                if left == 0:
                    return behind
                await asyncio.sleep(0.05)

    async def _equal(self) -> None:
        """All replicas have applied the same and hold the same."""
        async with asyncio.timeout(SETTLE_S):
            while True:
                rows: dict[str, set[tuple[int, str]]] = {}
                nodes = await self.cluster.groups()
                for found in nodes.values():
                    for row in found:
                        rows.setdefault(str(row["basin"]), set()).add(
                            (row["applied_index"], row["digest"])
                        )
                if len(nodes) == 3 and all(len(seen) == 1 for seen in rows.values()):
                    return
                await asyncio.sleep(0.1)
