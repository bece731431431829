"""The active version amid faults: nothing that is newer is ever written, whoever leads and however
often an operator asks too early; and it is raised once all speak the next."""

from __future__ import annotations

import asyncio
import os
import random
from dataclasses import dataclass, field, replace

import pytest

from svc_cluster._pb.cluster.v1 import catalog_entry_pb2, replica_pb2
from svc_cluster.codec.entry_version import BASIN_KINDS, CATALOG_KINDS, Known
from svc_cluster.model import versions
from svc_cluster.model.versions import FIRST, Spoken
from svc_cluster.raft.engine import EngineGroup, is_noop
from svc_cluster.replica.node_questions import NODE_SECONDS
from svc_cluster.replica.repeatable import Fill
from tests.simulation.cluster import SimCluster, in_simulation
from tests.simulation.node import SimNode
from tests.simulation.releases import NEW
from tests.simulation.replacement_scenario import EXPECTED, Replacing
from tests.simulation.test_mixed_releases import CALM, FAULTY

SEEDS = int(os.environ.get("MIXED_SEEDS", "2"))
NEXT = FIRST + 1
NEWER = "set_root_token"
"""A command that is taken for one of the next version."""

OLD = Known(
    basin=BASIN_KINDS,
    catalog=CATALOG_KINDS - {"raise_active_version", NEWER},
    versions=Spoken(FIRST, FIRST),
)
"""A release that speaks nothing but the first version, and parks at what came later."""

STEP_S = 0.25


@dataclass
class Operator:
    """Asks any node to finalize, and to write what is newer, all the time."""

    cluster: SimCluster
    old: set[SimNode]
    rng: random.Random
    written: dict[tuple[int, int], frozenset[str]] = field(default_factory=dict)
    """The kinds of commands in each of the catalog's entries seen in any log, by index and term."""
    raised: int = 0
    refusals: list[str] = field(default_factory=list)
    taken: int = 0

    async def run(self) -> None:
        while True:
            await asyncio.sleep(STEP_S)
            self.look()
            await self.ask(self.rng.choice(self.cluster.nodes))

    async def ask(self, sim: SimNode) -> None:
        if sim.node is None:
            return
        finalizes = self.rng.random() < 0.5
        asked_too_early = bool(self.old)

        def fill(request: replica_pb2.Request) -> None:
            if finalizes:
                request.raise_version.version = NEXT
            else:
                request.set_root_token.secret_hash = self.rng.randbytes(32)
                request.set_root_token.change_id = self.rng.randbytes(16)

        answer = await sim.node.ask_catalog(fill)
        if answer is None:
            return
        if answer.WhichOneof("result") == "refusal":
            self.refusals.append(answer.refusal.message)
        elif finalizes:
            assert not (asked_too_early and self.old), "raised while a node speaks less"
            self.raised += 1
        else:
            self.taken += 1

    def look(self) -> None:
        """What is in the logs, and what nodes go by, at this moment."""
        for sim in self.cluster.nodes:
            if sim.node is None or sim.node.host.catalog is None:
                continue
            if self.old:
                assert sim.node.services.version.seen == FIRST, sim.node_id
            engine = sim.node.host.catalog.group.engine
            assert isinstance(engine, EngineGroup)
            for entry in engine._log.entries:
                if not is_noop(entry.payload):
                    commands = catalog_entry_pb2.CatalogEntry.FromString(entry.payload[2:]).commands
                    kinds = frozenset(str(one.WhichOneof("command")) for one in commands)
                    self.written[entry.log_index, entry.term] = kinds

    def judge(self) -> None:
        """Behind the first raise alone there is anything newer."""
        newer = [index for (index, _), kinds in self.written.items() if NEWER in kinds]
        raises = [i for (i, _), kinds in self.written.items() if "raise_active_version" in kinds]
        assert not newer or min(raises) < min(newer)


async def upgraded(cluster: SimCluster, operator: Operator, after_s: float) -> None:
    """The older nodes become newer ones, one after the other."""
    for sim in sorted(operator.old, key=lambda one: one.node_id):
        await asyncio.sleep(after_s)
        sim.knows(NEW)
        cluster.nemesis.crash(sim, operator.rng, 0.3)
        operator.old.discard(sim)


@pytest.fixture(autouse=True)
def newer(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(versions.MEMBERS_SINCE, dict)
    monkeypatch.setitem(versions.MEMBERS_SINCE, f"CatalogCommand.{NEWER}", NEXT)


def begin(cluster: SimCluster, old: int) -> Operator:
    for node in cluster.nodes:
        node.begins_at_first = True
    for node in cluster.nodes[:old]:
        node.knows(OLD)
    rng = random.Random(f"{cluster.seed}/operator")
    return Operator(cluster, set(cluster.nodes[:old]), rng)


def keeps_hours(sim: SimNode) -> bool:
    """Whether the log of every basin here has said that hours of use are kept."""
    assert sim.node is not None
    basins = sim.node.host.basins.values()
    return bool(basins) and all(basin.state.usage.keeps_hours for basin in basins)


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("old", [1, 2])
def test_nothing_newer_is_written_before_and_it_is_raised_amid_crashes(seed: int, old: int) -> None:
    """Crashes and partitions while an operator asks to finalize and to write what is newer, four
    times a second. No older node ever meets what it does not know (none parks, which would fail
    the run), it is not raised while one is left, and in the end every node goes by the next one."""

    async def main(cluster: SimCluster) -> Operator:
        operator = begin(cluster, old)
        tasks = [
            cluster.loop.create_task(operator.run()),
            cluster.loop.create_task(upgraded(cluster, operator, FAULTY.safety_s / (old + 2))),
        ]
        report = await cluster.run()
        assert report.acked > 0
        await asyncio.sleep(30.0)
        for task in tasks:
            if task.done():
                task.result()
            task.cancel()
        operator.look()
        operator.judge()
        for sim in cluster.nodes:
            assert sim.node is not None
            assert sim.node.services.version.active == NEXT
            assert sim.node.identity.tag
            assert keeps_hours(sim)
        cluster.compare_stores()
        return operator

    operator = in_simulation(4500 + seed, replace(FAULTY, safety_s=20.0), main)
    assert operator.raised > 0
    assert operator.taken > 0
    assert operator.refusals


def test_a_node_that_is_away_holds_it_up_and_one_that_went_back_is_refused() -> None:
    """While a node is away nobody knows what will start there. Behind the raise a start of the
    release before is refused by the directory, and the two others go on."""

    async def main(cluster: SimCluster) -> None:
        operator = begin(cluster, 0)
        watch = cluster.start()
        await cluster.guarded(cluster.set_up(), watch)
        away, asked = cluster.nodes[2], cluster.nodes[0]
        await cluster.guarded(asyncio.sleep(2.0), watch)
        cluster.nemesis.crash(away, operator.rng, 20.0)
        await cluster.guarded(asyncio.sleep(5.0), watch)
        for _ in range(20):
            await cluster.guarded(operator.ask(asked), watch)
            await asyncio.sleep(0.2)
        assert operator.raised == operator.taken == 0
        for words in ("node 3 is not connected", "takes version 3 of the cluster, which is at 2"):
            assert any(words in text for text in operator.refusals), words
        await cluster.guarded(asyncio.sleep(25.0), watch)
        while not operator.raised:
            await cluster.guarded(operator.ask(asked), watch)
            await asyncio.sleep(0.2)
        await cluster.guarded(asyncio.sleep(5.0), watch)
        assert all(sim.node and sim.node.services.version.active == NEXT for sim in cluster.nodes)
        assert all(keeps_hours(sim) for sim in cluster.nodes), "said at once, not by a new leader"
        for sim in cluster.nodes:
            cluster.nemesis.crash(sim, operator.rng, 0.5)
        await cluster.guarded(asyncio.sleep(10.0), watch)
        for sim in cluster.nodes:
            assert sim.node is not None
            assert sim.node.identity.active_version == NEXT
        watch.cancel()

    in_simulation(4600, CALM, main)


def test_a_node_whose_disk_is_lost_does_not_hold_up_the_version_that_replaces_it() -> None:
    """The program on its empty disk counts, while it asks for the place: then the cluster is
    finalized, and the place given away. The disk of before is refused for ever, should it come."""

    async def main(cluster: SimCluster) -> None:
        operator = begin(cluster, 0)
        replacing = Replacing(cluster, 0)
        watch = cluster.start()
        await cluster.guarded(cluster.set_up(), watch)
        await cluster.guarded(asyncio.sleep(2.0), watch)
        asked, lost = cluster.nodes[0], cluster.nodes[2]
        lost.begins_at_first = False
        old = replacing.lose(lost)
        deadline = cluster.loop.time() + 30.0
        while not operator.raised:
            assert cluster.loop.time() < deadline, set(operator.refusals)
            await cluster.guarded(operator.ask(asked), watch)
            await asyncio.sleep(0.2)
        await cluster.guarded(replacing.replace(lost), watch)
        await cluster.guarded(replacing.until(lambda: replacing.is_whole(lost), "whole"), watch)
        replacing.power_off(lost)
        old.put_into(cluster, lost)
        await cluster.guarded(asyncio.sleep(8.0), watch)
        assert lost.node is not None
        assert "refused for ever" in (lost.node.refusal() or "")
        watch.cancel()

    in_simulation(4610, CALM, main, expected=EXPECTED)


@pytest.mark.parametrize("old", [0, 1])
def test_a_new_cluster_begins_at_the_newest_version_that_all_nodes_speak(old: int) -> None:
    """Nobody finalizes anything, also not behind crashes in its first seconds; with an older node
    among the first it begins as that release did, and stays there once that node is upgraded."""

    async def main(cluster: SimCluster) -> None:
        for node in cluster.nodes[:old]:
            node.knows(OLD)
        rng = random.Random(f"{cluster.seed}/beginning")
        watch = cluster.start()
        for sim in [*cluster.nodes, *cluster.nodes]:
            await cluster.guarded(asyncio.sleep(rng.uniform(0.1, 0.6)), watch)
            cluster.nemesis.crash(sim, rng, 0.4)
        await cluster.guarded(cluster.set_up(), watch)
        for sim in cluster.nodes[:old]:
            sim.knows(NEW)
            cluster.nemesis.crash(sim, rng, 0.5)
        await cluster.guarded(asyncio.sleep(15.0), watch)
        for sim in cluster.nodes:
            assert sim.node is not None
            assert sim.node.services.version.active == (FIRST if old else NEXT)
            assert keeps_hours(sim) is not bool(old)
        watch.cancel()

    in_simulation(4603 + old, CALM, main)


@pytest.mark.parametrize("talks_to", [0, 1, 2])
def test_an_older_gateway_holds_it_up_whichever_node_it_talks_to(talks_to: int) -> None:
    """Without a lease nobody but that node knows of it; once it is gone, the version is raised."""

    async def main(cluster: SimCluster) -> None:
        operator = begin(cluster, 0)
        watch = cluster.start()
        await cluster.guarded(cluster.set_up(), watch)
        node = cluster.nodes[talks_to].node
        assert node is not None
        node.services.version.gateway_talks("the-old-one", FIRST, begins=True)
        for _ in range(20):
            await cluster.guarded(operator.ask(cluster.nodes[0]), watch)
        assert operator.raised == 0
        assert any("the gateway the-old-one runs release 0.2" in one for one in operator.refusals)
        node.services.version.gateway_talks("the-old-one", FIRST, begins=False)
        while not operator.raised:
            await cluster.guarded(operator.ask(cluster.nodes[0]), watch)
            await asyncio.sleep(0.2)
        watch.cancel()

    in_simulation(4601, CALM, main)


def test_a_node_that_is_slow_to_say_who_talks_to_it_holds_it_up_by_name() -> None:
    """It is connected, and an older gateway may talk to it alone, as one does here: whoever asks to
    finalize is refused, and who asks what holds it up is told. Once it answers, the gateway is."""

    async def main(cluster: SimCluster) -> None:
        begin(cluster, 0)
        watch = cluster.start()
        await cluster.guarded(cluster.set_up(), watch)
        slow = next(sim for sim in cluster.nodes if not leads_catalog(sim)).node
        assert slow is not None
        slow.services.version.gateway_talks("the-old-one", FIRST, begins=True)
        operations = slow.service._operations
        at_once = operations["overview"]

        async def late(request: replica_pb2.Request) -> Fill:
            await asyncio.sleep(NODE_SECONDS + 0.5)
            return await at_once(request)

        operations["overview"] = late
        words = f"node {slow.config.node_id} does not say in time which gateways talk to it"
        assert words in await cluster.guarded(told_of_raising(cluster, asks=True), watch)
        assert words in await cluster.guarded(told_of_raising(cluster, asks=False), watch)
        assert all(sim.node and sim.node.services.version.seen == FIRST for sim in cluster.nodes)
        operations["overview"] = at_once
        words = "the gateway the-old-one runs release 0.2"
        assert words in await cluster.guarded(told_of_raising(cluster, asks=True), watch)
        watch.cancel()

    in_simulation(4602, CALM, main)


def leads_catalog(sim: SimNode) -> bool:
    assert sim.node is not None
    assert sim.node.host.catalog is not None
    return sim.node.host.catalog.group.is_serving


async def told_of_raising(cluster: SimCluster, *, asks: bool) -> str:
    """What the catalog's leader says to who asks to finalize, or what holds it up. It may be so new
    that it does not know of every lease yet, and answers too late."""

    def fill(request: replica_pb2.Request) -> None:
        if asks:
            request.raise_version.version = NEXT
        else:
            request.get_version.SetInParent()

    leader = next(sim for sim in cluster.nodes if leads_catalog(sim))
    assert leader.node is not None
    while (answer := await leader.node.ask_catalog(fill)) is None:
        await asyncio.sleep(0.1)
    return answer.refusal.message or answer.version.why_not
