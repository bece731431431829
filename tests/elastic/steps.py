"""What befalls the cluster, one step after the other, and what is measured in each."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from svc_cluster.settings_errors import EXIT_CONFIGURATION
from tests.elastic.cluster import FIRST, GATEWAYS, ElasticCluster, comes_true
from tests.elastic.load import ElasticLoad, Wait

REPLICAS: Final = 3
BETWEEN: Final = 2
"""Appends of each basin behind every step: what it broke shows in the step that broke it."""


@dataclass(frozen=True, slots=True)
class Figures:
    """One row of the table at the end."""

    name: str
    seconds: float
    appends: int
    retries: int
    longest: Wait | None


class Story:
    """All steps on one cluster under one load."""

    def __init__(
        self,
        cluster: ElasticCluster,
        load: ElasticLoad,
        joined: tuple[int, ...],
        earlier: str = "",
    ) -> None:
        """`earlier`: the release that the processes run at first; empty: this checkout's."""
        self.cluster = cluster
        self.load = load
        self.joined = joined
        self._earlier = earlier
        self.figures: list[Figures] = []

    async def play(self) -> None:
        """Raises AssertionError or TimeoutError for what did not come."""
        if self._earlier:
            await self._step(f"load of {self._earlier} alone", self._load_alone)
            for node in FIRST:
                await self._step(f"upgrade of node {node}", partial(self._upgrade, node))
            for name in GATEWAYS:
                await self._step(f"upgrade of {name}", partial(self._upgrade_gateway, name))
            await self._step("finalize", self._finalize)
        await self._step("load alone", self._load_alone)
        for node in self.joined:
            await self._step(f"node {node} joins", partial(self._join, node))
        await self._step("rebalance", self._rebalance)
        await self._step("others vote", self._vote)
        await self._step("a node lost for good", self._lose_and_replace)
        for node in reversed(self.joined):
            await self._step(f"drain and remove {node}", partial(self._leave, node))
        for node in FIRST:
            await self._step(f"restart of node {node}", partial(self._restart, node))
        for name in GATEWAYS:
            await self._step(f"restart of {name}", partial(self._restart_gateway, name))
        await self._step("balance of leads", self._balance)

    async def _step(self, name: str, act: Callable[[], Awaitable[None]]) -> None:
        print(f"{name}", flush=True)
        retries, begun = self.load.recorder.counts.retries, time.monotonic()
        await act()
        await self.load.progress(BETWEEN)
        ended = time.monotonic()
        # an append counts where its outcome was known: one may be begun in the step before
        waits = [wait for wait in self.load.waits if begun <= wait.known < ended]
        figures = Figures(
            name,
            ended - begun,
            len(waits),
            self.load.recorder.counts.retries - retries,
            max(waits, key=lambda wait: wait.seconds, default=None),
        )
        self.figures.append(figures)
        print(f"  {row(figures)}", flush=True)
        assert not self.load.errors, self.load.errors

    async def _load_alone(self) -> None:
        await self.load.progress(3)

    async def _healthy(self, about: int = 0) -> None:
        await self.cluster.insist("cluster", "health", about=about)

    # -- growing

    async def _join(self, node: int) -> None:
        cluster = self.cluster
        # beside the data, as the chart has it: a directory that holds no more than that is empty
        data = cluster.directory / f"data-{node}"
        data.mkdir()
        token = data / "join-token"
        text = await cluster.insist("member", "add", str(node), "--token-file", str(token))
        assert "svc-join" not in text, "the token is in the file alone"
        await cluster.comes(node, token)
        await cluster.node_ready(node)

        async def is_up() -> bool:
            return (await cluster.rows()).get(node, {}).get("standing") == "up"

        await comes_true(is_up, lambda: f"node {node} is not up: {cluster.said()}")
        await self._healthy()

    async def _rebalance(self) -> None:
        before = await self.cluster.copies()
        await self.cluster.insist("rebalance")
        await self.cluster.insist("rebalance", "--dry-run")
        after = await self.cluster.copies()
        print(f"  replicas of each node: {before} before, {after} behind it")
        # the appends of some seconds weigh a little beside them: two may stay where one would have
        # gone by the number alone
        assert max(after.values()) - min(after.values()) <= 2, after
        await self._healthy()

    async def _voters(self) -> set[int]:
        found = await self.cluster.answer("catalog", "show", "-o", "json")
        return {row["node_id"] for row in found["replicas"]}

    async def _vote(self) -> None:
        """Nodes that came vote in the catalog: with the first ones, or instead of one of them."""
        votes = (*FIRST, *self.joined) if len(self.joined) == 2 else (*FIRST[:2], self.joined[0])
        await self.cluster.insist("catalog", "move", "--to", ",".join(map(str, votes)))

        async def they_vote() -> bool:
            return await self._voters() == {*votes}

        await comes_true(they_vote, lambda: f"{votes} do not vote: {self.cluster.said()}")
        await self.cluster.insist("catalog", "show")

    # -- a node that does not come back

    async def _lose_and_replace(self) -> None:
        """Whoever leads the catalog, where it began the cluster: one that came later is not
        replaced in its place."""
        cluster = self.cluster
        lost = (await cluster.answer("cluster", "status", "-o", "json"))["catalog_leader"]
        if lost not in FIRST:
            lost = FIRST[0]
        cluster.destroy(lost)
        await self.load.progress(BETWEEN)
        status, text = await cluster.tell("cluster", "health", about=lost)
        assert status == 1, text
        cluster.start(f"node-{lost}")
        text = await cluster.insist("member", "replace", str(lost), about=lost)
        print(f"  {text.strip()}")
        await cluster.node_ready(lost)
        await self._healthy(about=lost)
        row_of = (await cluster.rows())[lost]
        assert (row_of["ordinal"], row_of["replacing"]) == (1, False), row_of

    # -- shrinking

    async def _leave(self, node: int) -> None:
        cluster = self.cluster

        async def is_refused() -> bool:
            status, text = await cluster.tell("member", "remove", str(node))
            assert status != 0, f"node {node} holds replicas, and was removed: {text}"
            return f"node drain {node}" in text

        await comes_true(is_refused, lambda: f"nobody says that node {node} is to be drained")
        await cluster.insist("node", "drain", str(node))
        # its status is 1 while anything is left
        text = await cluster.insist("node", "status", str(node))
        print(f"  {text.strip().splitlines()[0]}")
        assert node not in await self._voters()
        await cluster.insist("member", "remove", str(node))
        process = cluster.processes[f"node-{node}"]
        assert process.end() == EXIT_CONFIGURATION, process.said()[-2000:]
        assert "was removed from the cluster" in process.said().splitlines()[-1]
        assert (await cluster.rows())[node]["state"] == "removed"
        await self._healthy()

    # -- the order of a rolling upgrade

    async def _restart(self, node: int) -> None:
        cluster = self.cluster
        await cluster.insist("drain", at=node)
        status = cluster.processes[f"node-{node}"].stop()
        assert status == 0, f"node {node} ended with {status}"
        cluster.start(f"node-{node}")
        await cluster.node_ready(node)
        await cluster.insist("status", at=node)
        await self._healthy()

    async def _upgrade(self, node: int) -> None:
        """Stopped in order, which gives its leads away, and started as the newer release."""
        cluster = self.cluster
        name = f"node-{node}"
        status = cluster.processes[name].stop()
        assert status == 0, f"{name} ended with {status}"
        cluster.upgraded(name)
        cluster.start(name)
        await cluster.node_ready(node)

    async def _upgrade_gateway(self, name: str) -> None:
        cluster = self.cluster
        status = cluster.processes[name].stop()
        assert status == 0, f"{name} ended with {status}"
        cluster.upgraded(name)
        cluster.start(name)
        await cluster.ready(cluster.urls[GATEWAYS.index(name)])

    async def _finalize(self) -> None:
        await self.cluster.insist("upgrade", "finalize", "--yes")
        status, said = await self.cluster.tell("upgrade", "status")
        assert status == 0, said
        await self._healthy()

    async def _restart_gateway(self, name: str) -> None:
        cluster = self.cluster
        status = cluster.processes[name].stop()
        assert status == 0, f"{name} ended with {status}"
        cluster.start(name)
        await cluster.ready(cluster.urls[GATEWAYS.index(name)])

    async def _balance(self) -> None:
        await self.cluster.insist("leader", "balance")
        found = await self.cluster.answer("cluster", "status", "-o", "json")
        led = {row["node_id"]: row["groups_led"] for row in found["nodes"] if row["release"]}
        print(f"  leads of each node: {led}")


def row(figures: Figures) -> str:
    """The figures of a step on one line."""
    longest = figures.longest
    stall = "no append" if longest is None else f"{longest.seconds:6.2f} s ({longest.basin})"
    return (
        f"{figures.name:<22} {figures.seconds:6.1f} s  {figures.appends:6} appends  "
        f"{figures.retries:5} retries  longest {stall}"
    )


async def equal_copies(cluster: ElasticCluster, basins: list[str]) -> None:
    """Until each basin has as many replicas as it should, with one digest at one applied index.

    Nobody writes any more.
    """
    unequal: list[str] = []

    async def are_equal() -> bool:
        seen: dict[str, list[tuple[int, str]]] = {basin: [] for basin in basins}
        for node in FIRST:
            for group in await cluster.groups(node):
                if group["basin"] in seen:
                    seen[group["basin"]].append((group["applied_index"], group["digest"]))
        unequal[:] = [
            f"{basin}: {found}"
            for basin, found in seen.items()
            if len(found) != REPLICAS or len({*found}) != 1
        ]
        return not unequal

    await comes_true(are_equal, lambda: f"{len(unequal)} basins differ: {unequal[:3]}")
    await cluster.insist("basin", "show", basins[0])
