"""A node that is to stop gives all its leaderships away at once, and serves what it still leads."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from svc_cluster.base.ids import GroupId
from svc_cluster.replica.host import Host, Replica
from svc_cluster.replica.leader_handover import (
    ATTEMPT_SECONDS,
    HANDOVERS_MAX,
    LIMIT_SECONDS,
    STALL_SECONDS,
)
from tests.linearizability.history import Outcome
from tests.simulation.adapters import peer_address, raft_pairs
from tests.simulation.checkers.raft import InvariantError
from tests.simulation.cluster import LIVENESS_S, SimCluster, in_simulation
from tests.simulation.node import SimNode
from tests.simulation.options import Options

BASINS = 24
OPTIONS = Options(gateways=1, http=False, basins=BASINS, streams=1, tick_seconds=0.05)
FEW = replace(OPTIONS, basins=6)
ONE_BY_ONE = (("leader_handover.HANDOVERS_MAX", 1),)
NO_TIME = (("leader_handover.LIMIT_SECONDS", 0.001), *ONE_BY_ONE)


class Trial:
    """One node leads everything, and is told to go."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.stopping = False
        self.failures: list[str] = []

    def host(self, node: SimNode) -> Host:
        assert node.node is not None, "nobody has ended yet"
        return node.node.host

    def led_by(self, node: SimNode) -> set[GroupId]:
        """Of the basins."""
        return {
            group_id for group_id, basin in self.host(node).basins.items() if basin.group.is_serving
        }

    async def until(self, what: str, holds: Callable[[], bool], seconds: float) -> None:
        deadline = self.cluster.loop.time() + seconds
        while not holds():
            if self.cluster.loop.time() > deadline:
                raise InvariantError(f"liveness: not within {seconds} s: {what}")
            await asyncio.sleep(0.005)

    async def started(self) -> SimNode:
        cluster = self.cluster
        self.watch = cluster.start()
        await cluster.set_up()
        leaving = cluster.nodes[0]
        await self.concentrate(leaving)
        return leaving

    async def concentrate(self, on: SimNode) -> None:
        """All basins are led by that node."""

        def ask() -> bool:
            for node in self.cluster.nodes:
                for group_id in self.led_by(node) if node is not on else ():
                    self.host(node).basins[group_id].group.transfer_leadership(on.node_id)
            return len(self.led_by(on)) == self.cluster.options.basins

        deadline = self.cluster.loop.time() + LIVENESS_S
        while not ask():
            assert self.cluster.loop.time() < deadline
            await asyncio.sleep(0.3)

    async def write(self, number: int, *, once: bool = False) -> None:
        """Appends to one basin, one after the other; what fails is kept."""
        cluster = self.cluster
        history, client = cluster.recorder.streams[number], cluster.recorder.new_client()
        rng = random.Random(number)
        while not self.stopping:
            items = cluster.recorder.items(rng, client, 1, 50)
            append = await cluster.recorder.append(cluster.apis[0], history, client, items)
            if append.outcome is not Outcome.OK:
                self.failures.append(str(append))
                client = cluster.recorder.new_client()
            if once:
                return
            await asyncio.sleep(0.02)

    async def write_everywhere(self) -> None:
        """One append to each basin; none may fail."""
        numbers = range(len(self.cluster.recorder.streams))
        await asyncio.gather(*(self.write(number, once=True) for number in numbers))
        assert not self.failures

    async def finish(self) -> None:
        for history in self.cluster.recorder.streams:
            self.cluster.judge(history, await self.cluster.read_all(history))
        self.cluster.look()

    # What is tried

    async def under_load(self) -> None:
        leaving = await self.started()
        cluster = self.cluster
        writers = [cluster.loop.create_task(self.write(number)) for number in range(BASINS)]
        await asyncio.sleep(1.0)
        began = cluster.loop.time()
        assert leaving.node is not None
        await leaving.node.retire()
        assert cluster.loop.time() - began < STALL_SECONDS
        assert self.led_by(leaving) == set()
        others = cluster.nodes[1:]
        await self.until(
            "the others serve", lambda: sum(len(self.led_by(n)) for n in others) == BASINS, 1.0
        )
        shares = [len(self.led_by(node)) for node in others]
        assert min(shares) > BASINS // 4, "both others take some"
        await asyncio.sleep(1.0)
        self.stopping = True
        await asyncio.gather(*writers)
        assert not self.failures, "no client noticed"
        await self.finish()

    async def bounded(self) -> None:
        leaving = await self.started()
        paused: list[int] = []

        def replicas() -> list[Replica]:
            return self.host(leaving).replicas()

        async def look() -> None:
            while True:
                paused.append(sum(replica.proposer.paused for replica in replicas()))
                await asyncio.sleep(0.001)

        looking = self.cluster.loop.create_task(look())
        assert leaving.node is not None
        await leaving.node.retire()
        looking.cancel()
        assert max(paused) == 3, "several at a time, and no more"
        assert not any(replica.proposer.paused for replica in replicas())
        assert self.led_by(leaving) == set()
        await self.write_everywhere()
        await self.finish()

    async def without_time(self) -> None:
        """Only the first is asked to go in no time: the rest is led and served until the process
        ends, and by the others soon after."""
        leaving = await self.started()
        assert leaving.node is not None
        led = self.led_by(leaving)
        await leaving.node.retire()
        assert leaving.node.readiness()["not_draining"] is False
        await self.write_everywhere()
        assert len(self.led_by(leaving)) >= len(led) - 1, "it was served here"
        self.cluster.nemesis.crash(leaving, random.Random(1), 0.5)
        await self.until(
            "others lead",
            lambda: sum(len(self.led_by(n)) for n in self.cluster.nodes[1:]) == len(led),
            LIVENESS_S,
        )
        await self.write_everywhere()
        await self.finish()

    async def one_peer_is_deaf(self) -> None:
        """It is connected, has everything, and never answers: the other one is asked next."""
        leaving = await self.started()
        deaf = self.cluster.nodes[1]
        for node in self.cluster.nodes:
            if node is not deaf:
                for a, b in raft_pairs(node.node_id, deaf.node_id):
                    if a == peer_address(node.node_id):
                        self.cluster.network.clog(a, b, 60.0)
        assert leaving.node is not None
        await leaving.node.retire()
        assert self.led_by(leaving) == set()
        other, count = self.cluster.nodes[2], self.cluster.options.basins
        await self.until("the other one leads", lambda: len(self.led_by(other)) == count, 2.0)
        await self.finish_after(60.0)

    async def finish_after(self, seconds: float) -> None:
        self.cluster.network.heal_all()
        await asyncio.sleep(seconds)
        await self.finish()

    async def all_at_once(self) -> None:
        """Every node of the cluster is told to stop: nothing goes round between them."""
        await self.started()
        cluster = self.cluster
        began = cluster.loop.time()

        def terms() -> list[int]:
            return [one.group.engine.term for one in self.host(cluster.nodes[0]).replicas()]

        before = terms()
        await asyncio.gather(*(node.node.retire() for node in cluster.nodes if node.node))
        assert cluster.loop.time() - began < STALL_SECONDS / 2
        assert max(b - a for a, b in zip(before, terms(), strict=True)) <= len(cluster.nodes)
        await self.write_everywhere()
        await self.finish()

    async def behind_a_stall(self, seconds: float) -> None:
        """The leader's disk stalls until so long behind the begin of the attempt: no lead leaves
        before. And none is lost on the way: whoever is asked to lead does, in the next term."""
        leaving = await self.started()
        self.slow_down(0.03)
        replicas = list(self.host(leaving).basins.values())
        groups = [replica.group for replica in replicas]
        before = [group.engine.term for group in groups]
        disk = leaving.disk
        disk.switches.extra_latency_s = 60.0
        writers = [self.cluster.loop.create_task(self.write(n)) for n in range(len(groups))]
        await self.until(
            "an append waits for the disk",
            lambda: all(group.engine.last_index > group.engine.commit_index for group in groups),
            1.0,
        )
        disk.switches.extra_latency_s = 0.0
        assert leaving.node is not None
        retiring = self.cluster.loop.create_task(leaving.node.retire())
        await self.until("it began", lambda: all(one.proposer.paused for one in replicas), 1.0)
        self.cluster.loop.call_later(seconds, disk._window_done)
        more = [self.write(number, once=True) for number in range(len(groups))]
        await asyncio.gather(retiring, *more)
        assert self.led_by(leaving) == set()
        self.stopping = True
        await asyncio.gather(*writers)
        assert not self.failures
        assert [group.engine.term for group in groups] == [term + 1 for term in before]
        await self.write_everywhere()
        await self.finish()

    async def nobody_is_asked(self) -> None:
        """The leader's disk stalls all the time, so that nobody is asked: nor is anybody waited for
        behind an attempt."""
        leaving = await self.started()
        replica = next(iter(self.host(leaving).basins.values()))
        leaving.disk.switches.extra_latency_s = 3 * ATTEMPT_SECONDS
        writer = self.cluster.loop.create_task(self.write(0))
        engine = replica.group.engine
        await self.until("it waits", lambda: engine.last_index > engine.commit_index, 1.0)
        assert leaving.node is not None
        retiring = self.cluster.loop.create_task(leaving.node.retire())
        await self.until("it began", lambda: replica.proposer.paused, 1.0)
        await self.until("over", lambda: not replica.proposer.paused, ATTEMPT_SECONDS + 0.05)
        leaving.disk.switches.extra_latency_s = 0.0
        await retiring
        self.stopping = True
        await writer
        await self.finish()

    async def retires(self, node: SimNode) -> float:
        """How many seconds it takes."""
        began = self.cluster.loop.time()
        assert node.node is not None
        await node.node.retire()
        return self.cluster.loop.time() - began

    def slow_down(self, seconds: float) -> None:
        """Each message takes at least so long from now on."""
        self.cluster.network.profile = replace(
            self.cluster.network.profile, delay_min_s=seconds, delay_max_s=seconds + 0.01
        )

    async def slowly(self) -> None:
        """A lead takes far longer than usual, as on a machine that has much to do."""
        leaving = await self.started()
        self.slow_down(0.1)
        took = await self.retires(leaving)
        assert self.led_by(leaving) == set(), f"given up after {took:.3f} s"
        assert 2 * STALL_SECONDS < took < LIMIT_SECONDS
        await self.write_everywhere()
        await self.finish()

    async def too_slowly(self) -> None:
        """There is no time for all of them, though they leave one after the other."""
        leaving = await self.started()
        self.slow_down(0.1)
        took = await self.retires(leaving)
        assert 5.0 <= took < 5.0 + ATTEMPT_SECONDS + 0.1
        assert 0 < len(self.led_by(leaving)) < self.cluster.options.basins
        await self.write_everywhere()
        await self.finish()

    async def comes_back(self) -> None:
        """It was told to hand over, lives on, and leads again: nothing of the pause is left."""
        leaving = await self.started()
        assert leaving.node is not None
        await asyncio.gather(leaving.node.retire(), leaving.node.retire())
        assert self.led_by(leaving) == set()
        self.host(leaving).draining = False  # who goes takes no leads
        await self.concentrate(leaving)
        await self.write_everywhere()
        assert len(self.led_by(leaving)) == self.cluster.options.basins
        await self.finish()


def play(name: str, options: Options = FEW, seed: int = 1, **given: float) -> None:
    async def main(cluster: SimCluster) -> None:
        trial: Coroutine[Any, Any, None] = getattr(Trial(cluster), name)(**given)
        await trial

    in_simulation(seed, options, main)


@pytest.mark.parametrize("seed", [1, 2])
def test_all_leaderships_leave_together_and_no_client_notices(seed: int) -> None:
    """Two dozen groups with a writer each: within the limit, to both others, without a failure."""
    play("under_load", OPTIONS, seed)


def test_so_many_at_a_time_and_no_more() -> None:
    """And each group's writes wait only while its own lead is given away."""
    assert HANDOVERS_MAX == 64
    play("bounded", replace(FEW, constants=(("leader_handover.HANDOVERS_MAX", 3),)))


def test_what_is_still_led_is_served_and_elected_after_the_end() -> None:
    """Refused is only what was handed over."""
    play("without_time", replace(FEW, constants=NO_TIME))


def test_a_member_that_does_not_take_over_is_not_asked_for_ever() -> None:
    play("one_peer_is_deaf")


@pytest.mark.parametrize("early_s", [0.1, 0.075, 0.05, 0.025, 0.0])
def test_who_was_asked_last_is_waited_for(early_s: float) -> None:
    """The disk of the one that leaves answers about when an attempt is over. Were writes let in
    while the successor stands for election, it would lose that for lack of them."""
    play("behind_a_stall", seconds=ATTEMPT_SECONDS - early_s)


def test_nobody_is_waited_for_who_was_not_asked() -> None:
    """Writes pause no longer than an attempt takes."""
    play("nobody_is_asked", replace(FEW, basins=1))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nodes_that_stop_together_do_not_pass_leads_around(seed: int) -> None:
    """Each group leaves a node once."""
    play("all_at_once", FEW, seed)


def test_a_node_that_leads_again_takes_writes() -> None:
    """Also when it is told twice at once."""
    play("comes_back")


def test_what_takes_long_is_given_away_as_long_as_some_of_it_leaves() -> None:
    """Two dozen groups, one at a time, a quarter of a second each: it is not their number that says
    how long they may take."""
    play("slowly", replace(OPTIONS, constants=ONE_BY_ONE))


def test_a_node_that_stops_ends_in_time_whatever_it_still_leads() -> None:
    play(
        "too_slowly",
        replace(OPTIONS, constants=(("leader_handover.LIMIT_SECONDS", 5.0), *ONE_BY_ONE)),
    )
