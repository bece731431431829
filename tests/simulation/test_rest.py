"""Whole clusters of which most basins rest: what wakes them, and how long that takes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise

import pytest

from svc_cluster.base.ids import CATALOG_GROUP, GroupId, NodeId
from svc_cluster.raft.group import Event, Message, Role, Tick
from svc_cluster.raft.messages import AppendRequest, PeerMessage
from svc_cluster.replica.basin import BasinReplica
from svc_cluster.replica.catalog import CatalogReplica
from svc_cluster.replica.group_replica import AnyGroup
from svc_cluster.replica.group_rest import BRIEF_SECONDS, UNUSED_SECONDS
from svc_cluster.replica.housekeeping import INTERVAL_SECONDS
from svc_cluster.replica.node_readiness import NodeReadiness
from svc_cluster.replica.node_rest import QUIET_TICK_SECONDS
from svc_cluster.replica.scrub import IDLE_SECONDS_MAX, Scrubber
from tests.simulation.cluster import SimCluster, in_simulation
from tests.simulation.node import SimNode
from tests.simulation.options import Options
from tests.simulation.workload import Item, StreamHistory

BASINS = 24
OPTIONS = Options(
    gateways=1, http=False, basins=BASINS, streams=1, tick_seconds=0.05, rest_seconds=1.0
)
FALLS_ASLEEP_S = 12.0
LONG_S = 10.0
USED_S = 4.0
ASKED_S = 2.5
ALL_S = 10.0


def _rests(node: SimNode) -> int:
    return 0 if node.node is None else node.node.services.rest.asleep


async def _until_all_rest(cluster: SimCluster, nodes: Iterable[SimNode] | None = None) -> None:
    """On those nodes, and soon."""
    watched = list(cluster.nodes if nodes is None else nodes)
    deadline = cluster.loop.time() + FALLS_ASLEEP_S
    while any(_rests(node) != BASINS for node in watched):
        assert cluster.loop.time() < deadline, [_rests(node) for node in watched]
        await asyncio.sleep(0.1)


async def _answered(cluster: SimCluster, histories: Iterable[StreamHistory]) -> float:
    """Virtual seconds until each of them has taken one more append."""
    began = cluster.loop.time()
    await asyncio.gather(
        *(cluster.insist(lambda api, h=h: cluster.barrier(api, h)) for h in histories)
    )
    return cluster.loop.time() - began


def _start_again(cluster: SimCluster) -> None:
    """All nodes lose power, and are back at once."""
    for node in cluster.nodes:
        node.crash(cluster._rng)
    for node in cluster.nodes:
        node.start()


def _leads_most(cluster: SimCluster) -> SimNode:
    def led(node: SimNode) -> int:
        assert node.node is not None
        basins = node.node.host.basins.values()
        return sum(one.group.engine.role is Role.LEADER for one in basins)

    return max(cluster.nodes, key=led)


async def _at_rest(cluster: SimCluster) -> asyncio.Task[None]:
    watch = cluster.start()
    await cluster.guarded(cluster.set_up(), watch)
    await cluster.guarded(_until_all_rest(cluster), watch)
    return watch


def test_basins_at_rest_say_nothing_and_have_no_ticks() -> None:
    """For half a minute no message of theirs leaves, but those by which the scrub compares what is
    stored, and the time of their engines stands still."""
    sent: Counter[tuple[str, bool]] = Counter()

    async def main(cluster: SimCluster) -> None:
        told = cluster.votes.sent

        def count(a: NodeId, b: NodeId, group_id: GroupId, message: PeerMessage) -> None:
            sent[type(message).__name__, group_id == CATALOG_GROUP] += 1
            told(a, b, group_id, message)

        for node in cluster.nodes:
            node._on_sent = count
        watch = await _at_rest(cluster)
        sent.clear()
        before = _engine_times(cluster)
        await cluster.guarded(asyncio.sleep(30.0), watch)
        assert _engine_times(cluster) == before
        watch.cancel()

    in_simulation(3, OPTIONS, main)
    of_basins = {name for name, is_catalog in sent if not is_catalog}
    assert of_basins <= {"ScrubQuestion", "ScrubAnswer"}
    assert sent["Beat", True] and sent["AppendRequest", True]


def test_the_catalog_alone_has_few_ticks_and_its_heartbeats_come_as_often() -> None:
    """Each tick brings a heartbeat, and no fewer of them go to each follower than with a tick each
    20 ms. A basin that wakes is ticked as usual."""
    heartbeats: Counter[NodeId] = Counter()

    async def main(cluster: SimCluster) -> None:
        def count(_: NodeId, to: NodeId, group_id: GroupId, message: PeerMessage) -> None:
            if group_id == CATALOG_GROUP and isinstance(message, AppendRequest):
                heartbeats[to] += 1

        for node in cluster.nodes:
            node._on_sent = count
        watch = await _at_rest(cluster)
        heartbeats.clear()
        ticks = _count_ticks(cluster)
        await cluster.guarded(asyncio.sleep(10.0), watch)
        assert max(ticks.values()) <= 10.0 / QUIET_TICK_SECONDS + 2
        assert len(heartbeats) == 2
        assert min(heartbeats.values()) >= 10.0 / (0.1 + 0.02)
        ticks.clear()
        await cluster.guarded(_answered(cluster, cluster.recorder.streams[:1]), watch)
        await cluster.guarded(asyncio.sleep(0.5), watch)
        assert max(ticks.values()) >= 20
        watch.cancel()

    in_simulation(14, replace(OPTIONS, tick_seconds=0.02), main)


def test_nobody_goes_over_what_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a quarter of a minute neither readiness nor the scrub's look nor the count of the logs in
    memory visits each group; and what they tell is as if they had."""
    looks: Counter[str] = Counter()

    async def main(cluster: SimCluster) -> None:
        watch = await _at_rest(cluster)
        await cluster.guarded(asyncio.sleep(15.0), watch)  # the first rounds are over
        _count_looks(monkeypatch, looks)
        await cluster.guarded(asyncio.sleep(15.0), watch)
        nodes = [node.node for node in cluster.nodes if node.node is not None]
        for one in nodes:
            assert all(one.readiness().values())
            host = one.host
            held = sum(replica.group.engine.log_bytes for replica in host.replicas())
            assert 0 < held <= one.services.rest.log_bytes() == host.memory.held()["log"]
        assert looks["readiness"] == len(nodes), "the catalog alone"
        assert looks["scrub"] <= len(nodes) * (15.0 / IDLE_SECONDS_MAX + 1)
        for one in nodes:
            for scrub in one.scrubber._scrubs.values():
                scrub.due_at = 0.0
        before = sum(one.scrubber.rounds_complete for one in nodes)
        await cluster.guarded(asyncio.sleep(2 * IDLE_SECONDS_MAX), watch)
        assert sum(one.scrubber.rounds_complete for one in nodes) > before
        watch.cancel()

    in_simulation(15, replace(OPTIONS, scrub_seconds=3600.0), main)


def _count_looks(monkeypatch: pytest.MonkeyPatch, looks: Counter[str]) -> None:
    look_at, led = NodeReadiness.look_at, Scrubber._led

    def count_readiness(self: NodeReadiness, replica: BasinReplica | CatalogReplica) -> None:
        looks["readiness"] += 1
        look_at(self, replica)

    def count_scrub(self: Scrubber) -> list[AnyGroup]:
        looks["scrub"] += 1
        return led(self)

    monkeypatch.setattr(NodeReadiness, "look_at", count_readiness)
    monkeypatch.setattr(Scrubber, "_led", count_scrub)


def _count_ticks(cluster: SimCluster) -> Counter[NodeId]:
    """By node, from now on."""
    counted: Counter[NodeId] = Counter()
    for node in cluster.nodes:
        assert node.node is not None
        ticks = node.node.host.ticks

        def tick(node_id: NodeId = node.node_id, usual: Callable[[], None] = ticks._before) -> None:
            counted[node_id] += 1
            usual()

        ticks._before = tick
    return counted


def _engine_times(cluster: SimCluster) -> list[float]:
    return [
        one.group.engine._now  # type: ignore[attr-defined]
        for node in cluster.nodes
        if node.node is not None
        for one in node.node.host.basins.values()
    ]


def test_a_basin_at_rest_takes_an_append_at_once() -> None:
    """As fast as one that is awake, and no other basin wakes by it; then it rests again."""

    async def main(cluster: SimCluster) -> None:
        watch = await _at_rest(cluster)
        # longer than a leader stays without its peers' answers
        await cluster.guarded(asyncio.sleep(5.0), watch)
        history = cluster.recorder.streams[5]
        took = await cluster.guarded(_answered(cluster, [history]), watch)
        assert took < 0.2
        assert min(map(_rests, cluster.nodes)) == BASINS - 1
        await cluster.guarded(_until_all_rest(cluster), watch)
        watch.cancel()

    in_simulation(4, OPTIONS, main)


Harm = Callable[[SimCluster, SimNode], None]


def _power_cut(cluster: SimCluster, node: SimNode) -> None:
    node.crash(cluster._rng)


def _cut_off(cluster: SimCluster, node: SimNode) -> None:
    for other in cluster.nodes:
        if other is not node:
            cluster.nemesis.cut(node.node_id, other.node_id, both=True)


@pytest.mark.parametrize(("harm", "asked_s"), [(_power_cut, ASKED_S), (_cut_off, 4.0 + ASKED_S)])
def test_basins_at_rest_answer_when_their_leaders_node_is_lost(harm: Harm, asked_s: float) -> None:
    """Those that are asked for within 2.5 s, all of them within 10; and they rest again without it.
    When it is back, everything is whole and rests on all nodes. An append that a leader took which
    is cut off has no outcome before the gateway's deadline of 4 s, at rest or not."""

    async def main(cluster: SimCluster) -> None:
        watch = await _at_rest(cluster)
        node = _leads_most(cluster)
        others = [one for one in cluster.nodes if one is not node]
        harm(cluster, node)
        streams = cluster.recorder.streams
        took = await cluster.guarded(_answered(cluster, streams[:3]), watch)
        assert took <= asked_s, took
        took += await cluster.guarded(_answered(cluster, streams), watch)
        assert took <= ALL_S, took
        await asyncio.sleep(5.0)  # a node is excused behind some silence
        await cluster.guarded(_until_all_rest(cluster, others), watch)
        cluster.nemesis.heal()
        if not node.alive:
            node.start()
        await cluster.guarded(_settled(cluster), watch)
        await cluster.guarded(_until_all_rest(cluster), watch)
        watch.cancel()

    in_simulation(6, OPTIONS, main)


async def _settled(cluster: SimCluster) -> None:
    await cluster.settle([cluster.loop.create_task(asyncio.sleep(0), name="nobody")])


def test_basins_at_rest_survive_the_loss_of_power_on_all_nodes() -> None:
    """What woke nobody wakes by its start, and all of them serve again."""

    async def main(cluster: SimCluster) -> None:
        watch = await _at_rest(cluster)
        _start_again(cluster)
        took = await cluster.guarded(_answered(cluster, cluster.recorder.streams), watch)
        assert took <= ALL_S, took
        await cluster.guarded(_until_all_rest(cluster), watch)
        watch.cancel()

    in_simulation(7, OPTIONS, main)


def test_a_cluster_that_starts_again_elects_once_for_each_basin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody asks for anything. What rested is opened asleep, one basin wakes after the other, as
    the node stands for it whose turn it is, and rests again: no two stand for one, and never are
    all awake. One basin a second, so that a time-out would be over long before the last one."""
    monkeypatch.setattr("svc_cluster.replica.node_rest.WOKEN_PER_TURN", 1)
    monkeypatch.setattr("svc_cluster.replica.node_rest.WAKE_SECONDS", 1.0)

    async def main(cluster: SimCluster) -> None:
        watch = await _at_rest(cluster)
        before = _terms(cluster)
        _start_again(cluster)
        awake: list[int] = []
        deadline = cluster.loop.time() + 2 * BASINS
        while len(awake) < 20 or any(_rests(node) != BASINS for node in cluster.nodes):
            assert cluster.loop.time() < deadline, _terms(cluster)
            await cluster.guarded(asyncio.sleep(0.1), watch)
            awake.append(max(BASINS - _rests(node) for node in cluster.nodes))
        rose = {group: term - before[group] for group, term in _terms(cluster).items()}
        assert set(rose.values()) == {1}, rose
        assert max(awake[5:]) <= BASINS // 2, awake
        took = await cluster.guarded(_answered(cluster, cluster.recorder.streams), watch)
        assert took <= ALL_S, took
        watch.cancel()

    in_simulation(15, OPTIONS, main)


def _terms(cluster: SimCluster) -> dict[GroupId, int]:
    """The newest term that any node knows, of each basin's group."""
    found: dict[GroupId, int] = {}
    for node in cluster.nodes:
        if node.node is not None:
            for group_id, replica in node.node.host.basins.items():
                found[group_id] = max(found.get(group_id, 0), replica.group.engine.term)
    return found


def test_a_basin_that_was_opened_asleep_answers_ahead_of_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a turn that never comes: who is asked for a basin stands for election in it."""
    monkeypatch.setattr("svc_cluster.replica.node_rest.WAKE_SECONDS", 1000.0)
    monkeypatch.setattr("svc_cluster.replica.node_rest.WOKEN_PER_TURN", 1)

    async def main(cluster: SimCluster) -> None:
        watch = await _at_rest(cluster)
        _start_again(cluster)
        await cluster.guarded(asyncio.sleep(5.0), watch)
        assert all(_rests(node) >= BASINS - 3 for node in cluster.nodes)
        took = await cluster.guarded(_answered(cluster, cluster.recorder.streams), watch)
        assert took <= ASKED_S, took
        watch.cancel()

    in_simulation(16, OPTIONS, main)


def test_a_node_that_starts_first_wakes_nobody_until_there_is_a_quorum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Machines seldom start together. Whoever is there alone could only wait for others, with all
    of its basins awake, which would then all elect at once."""
    monkeypatch.setattr("svc_cluster.replica.node_rest.WOKEN_PER_TURN", 1)
    monkeypatch.setattr("svc_cluster.replica.node_rest.WAKE_SECONDS", 1.0)

    async def main(cluster: SimCluster) -> None:
        watch = await _at_rest(cluster)
        before = _terms(cluster)
        for node in cluster.nodes:
            node.crash(cluster._rng)
        first, *others = cluster.nodes
        first.start()
        await cluster.guarded(asyncio.sleep(2 * BASINS), watch)
        assert _rests(first) == BASINS
        for node in others:
            node.start()
        deadline, awake = cluster.loop.time() + 2 * BASINS, 0
        while any(_rests(node) != BASINS for node in cluster.nodes) or not awake:
            assert cluster.loop.time() < deadline, _terms(cluster)
            await cluster.guarded(asyncio.sleep(0.1), watch)
            if all(node.node is not None and node.node.host.basins for node in others):
                awake = max(awake, *(BASINS - _rests(node) for node in cluster.nodes))
        assert awake <= BASINS // 2
        assert {term - before[group] for group, term in _terms(cluster).items()} == {1}
        watch.cancel()

    in_simulation(18, OPTIONS, main)


def test_every_tick_brings_the_grace_also_ahead_of_messages() -> None:
    """Those are the ticks behind which a voter answers who asks whether its leader lives."""

    async def main(cluster: SimCluster) -> None:
        watch = cluster.start()
        await cluster.guarded(cluster.set_up(), watch)
        node = _leads_most(cluster)
        assert node.node is not None
        host = node.node.host
        host.ticks._backlog.grace = lambda awake: 1.5  # type: ignore[method-assign]
        await cluster.guarded(asyncio.sleep(0.2), watch)
        events: dict[GroupId, list[Event]] = {}
        groups: list[AnyGroup] = [one.group for one in host.replicas()]
        for group in groups:
            heard = events[group.group_id] = []

            def step(
                event: Event,
                heard: list[Event] = heard,
                usual: Callable[[Event], None] = group.step,
            ) -> None:
                heard.append(event)
                usual(event)

            group.step = step  # type: ignore[method-assign]
        await cluster.guarded(asyncio.sleep(0.9), watch)
        ahead = 0
        for group_id, seen in events.items():
            wanted = 0.0 if group_id == CATALOG_GROUP else 1.5
            assert {one.grace for one in seen if isinstance(one, Tick)} <= {wanted}, group_id
            pairs = pairwise(seen)
            ahead += sum(isinstance(a, Tick) and isinstance(b, Message) for a, b in pairs)
        assert ahead > BASINS
        watch.cancel()

    in_simulation(17, OPTIONS, main)


def test_a_node_that_starts_again_unseen_wakes_what_it_led() -> None:
    """It is back before anybody has missed a beat of it; that it is another process is said by the
    beats alone. Nobody asks for anything, and yet each basin has a leader that says so."""

    async def main(cluster: SimCluster) -> None:
        watch = await _at_rest(cluster)
        node = _leads_most(cluster)
        node.crash(cluster._rng)
        node.start()
        await cluster.guarded(asyncio.sleep(0.5), watch)
        await cluster.guarded(_settled(cluster), watch)
        await cluster.guarded(_until_all_rest(cluster), watch)
        watch.cancel()

    in_simulation(8, OPTIONS, main)


def test_a_leader_at_rest_that_is_alone_leads_no_more() -> None:
    """Cut off from both others, it wakes, finds no quorum, and stops serving reads that need
    none."""

    async def main(cluster: SimCluster) -> None:
        watch = await _at_rest(cluster)
        node = _leads_most(cluster)
        _cut_off(cluster, node)
        await cluster.guarded(asyncio.sleep(5.0), watch)
        assert node.node is not None
        assert not any(one.group.is_serving for one in node.node.host.basins.values())
        watch.cancel()

    in_simulation(9, OPTIONS, main)


def test_a_leader_that_ceases_without_a_word_is_missed() -> None:
    """Its node lives, and says with each beat that it knows of one group less: the others wake and
    elect another, although nobody asks for anything."""

    async def main(cluster: SimCluster) -> None:
        watch = await _at_rest(cluster)
        node = _leads_most(cluster)
        assert node.node is not None
        host = node.node.host
        group = next(
            one.group for one in host.basins.values() if one.group.engine.role is Role.LEADER
        )
        term = group.engine.term
        group.stop()
        await cluster.guarded(asyncio.sleep(6.0), watch)
        elected = [
            one.node.host.basins[group.group_id].group.engine.term
            for one in cluster.nodes
            if one is not node and one.node is not None
        ]
        assert min(elected) > term
        watch.cancel()

    in_simulation(10, OPTIONS, main)


def test_a_follower_that_wakes_tells_its_leader() -> None:
    """So the leader's heartbeats come before the follower has waited for them too long: nobody is
    elected."""

    async def main(cluster: SimCluster) -> None:
        watch = await _at_rest(cluster)
        node = _leads_most(cluster)
        assert node.node is not None
        replica = next(
            one for one in node.node.host.basins.values() if one.group.engine.role is Role.LEADER
        )
        term, group_id = replica.group.engine.term, replica.group.group_id
        _follower(cluster, node, group_id).rest.wake()
        await cluster.guarded(asyncio.sleep(0.2), watch)
        assert not replica.group.rest.asleep
        await cluster.guarded(_until_all_rest(cluster), watch)
        assert replica.group.engine.term == term
        watch.cancel()

    in_simulation(11, OPTIONS, main)


def _follower(cluster: SimCluster, leader: SimNode, group_id: GroupId) -> AnyGroup:
    other = next(one for one in cluster.nodes if one is not leader)
    assert other.node is not None
    return other.node.host.basins[group_id].group


def test_what_rests_was_found_to_be_equal() -> None:
    """Nothing but the scrub compares it from then on, and that begins with what was said here."""

    async def main(cluster: SimCluster) -> None:
        watch = await _at_rest(cluster)
        led = [
            one.group
            for node in cluster.nodes
            if node.node is not None
            for one in node.node.host.basins.values()
            if one.group.engine.role is Role.LEADER
        ]
        assert len(led) == BASINS
        for group in led:
            others = [peer for peer in group.engine.members if peer != group.engine.node_id]
            assert group.comparison.are_equal(others)
            assert sorted(group.comparison.scrub_versions) == others
        watch.cancel()

    in_simulation(12, OPTIONS, main)


def test_the_only_replica_of_a_basin_rests_too() -> None:
    """It has nobody to ask, and takes an append at once."""
    options = replace(OPTIONS, nodes=1)

    async def main(cluster: SimCluster) -> None:
        watch = await _at_rest(cluster)
        await cluster.guarded(asyncio.sleep(5.0), watch)
        took = await cluster.guarded(_answered(cluster, cluster.recorder.streams), watch)
        assert took < 0.5
        await cluster.guarded(_until_all_rest(cluster), watch)
        watch.cancel()

    in_simulation(13, options, main)


def test_a_basin_without_streams_rests_while_one_that_is_used_does_not() -> None:
    """What was used for four seconds rests when it was quiet for as long; what is used for a moment
    rests soon, and so does a basin that nobody can use."""

    async def main(cluster: SimCluster) -> None:
        watch = cluster.start()
        loop = cluster.loop
        await cluster.insist(lambda api: api.create_basin("used"))
        await cluster.insist(lambda api: api.create_stream("used", "s"))
        await cluster.insist(lambda api: api.create_basin("empty"))
        made_at = loop.time()
        slept_at = None
        end = loop.time() + USED_S
        while loop.time() < end:
            await asyncio.sleep(0.25)
            await cluster.insist(lambda api: api.append("used", "s", [Item("x")]))
            if slept_at is None and [_rests(node) for node in cluster.nodes] == [1, 1, 1]:
                slept_at = loop.time()
        assert slept_at is not None
        # looks of its node: at what it was made with, at what came of that, at the quiet
        assert slept_at - made_at <= UNUSED_SECONDS + 3 * INTERVAL_SECONDS + 0.2
        assert [_rests(node) for node in cluster.nodes] == [1, 1, 1]

        async def all_rest() -> float:
            began = loop.time()
            while [_rests(node) for node in cluster.nodes] != [2, 2, 2]:
                assert loop.time() < began + FALLS_ASLEEP_S
                await asyncio.sleep(0.05)
            return loop.time() - began

        assert USED_S - 0.5 <= await all_rest() <= USED_S + 2.5
        await cluster.insist(lambda api: api.append("used", "s", [Item("x")]))
        assert [_rests(node) for node in cluster.nodes] == [1, 1, 1]
        assert BRIEF_SECONDS <= await all_rest() <= BRIEF_SECONDS + 2.0
        watch.cancel()

    in_simulation(4, replace(OPTIONS, basins=0, rest_seconds=LONG_S), main)
