"""Leads that are on one node, as a rolling restart leaves them, come to be even by themselves."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.catalog.lead_plan import spread
from svc_cluster.replica.host import Replica
from svc_cluster.replica.lead_balance import AT_ONCE_MAX, LeadBalance
from svc_cluster.replica.leader_handover import ANSWER_SECONDS, ATTEMPT_SECONDS, NEAR_ENTRIES
from tests.simulation.adapters import peer_address, raft_pairs
from tests.simulation.cluster import LIVENESS_S, SimCluster, in_simulation
from tests.simulation.node import SimNode
from tests.simulation.options import Options
from tests.simulation.test_retirement import Trial

BASINS = 9
OPTIONS = Options(gateways=1, http=False, basins=BASINS, streams=1, tick_seconds=0.05)
UNASKED = replace(OPTIONS, balance_seconds=10.0)
THREE = replace(OPTIONS, constants=(("lead_balance.AT_ONCE_MAX", 3),))
WITHIN_S = 60.0
"""From when leads are uneven until they are even, unasked."""


class Balancing(Trial):
    """Everything is led by one node, and the leads are evened out."""

    def leads(self) -> Counter[int]:
        """Groups that each node leads, the catalog's among them."""
        found: Counter[int] = Counter()
        for node in self.cluster.nodes:
            if node.node is not None:
                led = self.led_by(node)
                catalog = self.host(node).catalog
                assert catalog is not None
                found[node.node_id] = len(led) + catalog.group.is_serving
        return found

    def at_catalog(self) -> SimNode:
        """The node that leads the catalog."""
        for node in self.cluster.nodes:
            catalog = None if node.node is None else node.node.host.catalog
            if catalog is not None and catalog.group.is_serving:
                return node
        raise AssertionError("somebody leads it")

    async def ask(self, *, dry_run: bool = False) -> pb.LeadBalance:
        asked = self.at_catalog()
        assert asked.node is not None
        return await asked.node.service.balance.round(dry_run=dry_run)

    async def unasked(self) -> None:
        """Under load, without an error; and then nothing moves any more."""
        await self.started()
        cluster = self.cluster
        writers = [cluster.loop.create_task(self.write(number)) for number in range(BASINS)]
        assert spread(self.leads().values()) >= BASINS, "one node leads all"
        await self.until("leads are even", lambda: spread(self.leads().values()) <= 1, WITHIN_S)
        before = self.leads()
        await asyncio.sleep(25.0)
        assert self.leads() == before, "what is even is left alone"
        self.stopping = True
        await asyncio.gather(*writers)
        assert not self.failures, "no client noticed"
        await self.finish()

    async def so_many_at_a_time(self) -> None:
        """Asked for by an operator; told first, with nothing moved."""
        leading = await self.started()
        most: list[int] = []

        async def look() -> None:
            while True:
                replicas = self.host(leading).replicas()
                most.append(sum(replica.proposer.paused for replica in replicas))
                await asyncio.sleep(0.001)

        before = self.leads()
        told = await self.ask(dry_run=True)
        assert len(told.moves) >= BASINS // 2
        assert (told.moved, self.leads()) == (0, before)
        assert {row.node_id: row.led for row in told.counts} == dict(before)
        looking = self.cluster.loop.create_task(look())
        rounds = 0
        while (told := await self.ask()).moves:
            rounds += 1
            assert rounds < 10
        looking.cancel()
        assert 1 < max(most) <= 3, "several at a time, and no more"
        await self.until("leads are even", lambda: spread(self.leads().values()) <= 1, 2.0)
        assert not any(replica.proposer.paused for replica in self.host(leading).replicas())
        await self.write_everywhere()
        await self.finish()

    async def to_nobody_who_goes(self) -> None:
        """A node that drains takes none, one that is away neither; the rest is even."""
        await self.started()
        draining = self.cluster.nodes[1]
        assert draining.node is not None
        await draining.node.retire()
        planned = (await self.ask(dry_run=True)).moves
        assert {move.to_node for move in planned} == {3}, "it is not even planned for"
        while (told := await self.ask()).moves or told.without_leader:
            await asyncio.sleep(0.05)
        led = self.leads()
        assert led[draining.node_id] == 0
        assert abs(led[1] - led[3]) <= 1
        await self.finish()

    async def one_lead(self) -> None:
        """By its basin's leader alone, to a member alone that is there; who leads it stays
        otherwise, and goes on."""
        leading = await self.started()
        others = [node for node in self.cluster.nodes if node is not leading]
        group = next(iter(sorted(self.led_by(leading))))
        gone = others[1]
        assert await self.give(others[0], group, 0) == "unavailable", "it does not lead it"
        assert await self.give(leading, group, 9) == "invalid"
        host = self.host(leading)
        self.deafen(gone)
        assert await self.give(leading, group, gone.node_id) == "unavailable"
        await self.write_everywhere()
        self.cluster.network.heal_all()
        self.cluster.nemesis.crash(gone, random.Random(1), 20.0)
        await self.until("it is missed", lambda: not host.is_peer_up(gone.node_id), 15.0)
        assert await self.give(leading, group, gone.node_id) == "unavailable"
        assert group in self.led_by(leading)
        await self.write_everywhere()
        assert await self.give(leading, group, others[0].node_id) == ""
        await self.until("it leads", lambda: group in self.led_by(others[0]), LIVENESS_S)
        await self.write_everywhere()
        await self.until("the other one is back", lambda: gone.node is not None, 30.0)
        await self.finish()

    async def not_to_a_full_disk(self) -> None:
        """Who has no room gives its leads away at once: they are not passed back to it, nor when
        there is room again, for as long as it may fill up again."""
        await self.started()
        await self.until("leads are even", lambda: spread(self.leads().values()) <= 1, WITHIN_S)
        full = self.cluster.nodes[2]
        full.disk.switches.full = True
        await self.until("it leads nothing", lambda: not self.leads()[full.node_id], 5.0)
        before = self.moved()
        await self.nothing_moves_to(full, 60.0)
        group = sorted(self.led_by(self.at_catalog()))[0]
        assert await self.give(self.at_catalog(), group, full.node_id) == "unavailable"
        full.disk.switches.full = False
        await self.nothing_moves_to(full, 60.0)
        assert self.moved() - before <= BASINS, "the others are evened out, once"
        await self.write_everywhere()
        await self.finish()

    def moved(self) -> int:
        """Leads that were moved by all nodes together."""
        nodes = [one.node for one in self.cluster.nodes if one.node is not None]
        return sum(node.service.balance.moved for node in nodes)

    async def nothing_moves_to(self, node: SimNode, seconds: float) -> None:
        until = self.cluster.loop.time() + seconds
        while self.cluster.loop.time() < until:
            assert self.leads()[node.node_id] == 0
            await asyncio.sleep(0.05)

    def park(self, node: SimNode, group: GroupId) -> None:
        """What a replica does that finds an entry which it cannot read: it acknowledges on, and
        never leads."""
        replica = self.host(node).basins[group]
        replica.group.parked = "entry 9: only a newer release reads it"
        replica.group.engine.abstain()

    async def not_while_one_is_parked(self) -> None:
        """Unasked, nothing is tried; asked, each pair is tried once, and the rest comes to be even
        around it."""
        leading = await self.started()
        held = self.cluster.nodes[2]
        group = sorted(self.led_by(leading))[0]
        self.park(held, group)
        pauses: list[float] = []
        looking = self.cluster.loop.create_task(self.note_pauses(leading, group, pauses))
        await asyncio.sleep(60.0)
        assert (pauses, self.moved()) == ([], 0), "nobody's writes stood still"
        for _ in range(4):
            await self.ask()
        await self.until("leads are even", lambda: spread(self.leads().values()) <= 1, 2.0)
        assert len(pauses) <= 2, "to the one that is parked once, and to the other once"
        assert max(pauses, default=0.0) < ATTEMPT_SECONDS + ANSWER_SECONDS + 0.1
        looking.cancel()

    async def note_pauses(self, node: SimNode, group: GroupId, pauses: list[float]) -> None:
        """How long the writes of the group waited for hand-overs, one by one."""
        clock, since = self.cluster.loop.time, 0.0
        proposer = self.host(node).basins[group].proposer
        while True:
            if proposer.paused and not since:
                since = clock()
            elif since and not proposer.paused:
                pauses.append(clock() - since)
                since = 0.0
            await asyncio.sleep(0.005)

    async def a_pair_fails_once(self) -> None:
        """A replica that does not take over is asked once; another group goes in its place."""
        leading = await self.started()
        held = self.cluster.nodes[2]
        parked = sorted(self.led_by(leading))[:5]
        for group in parked:
            self.park(held, group)
        tried: list[tuple[int, int]] = []
        for _ in range(6):
            told = await self.ask()
            tried += [(m.group_id, m.to_node) for m in told.moves if not m.done]
        assert tried, "the first plan asks what it cannot know"
        assert len(set(tried)) == len(tried), "nothing is tried twice"
        await self.until("leads are even", lambda: spread(self.leads().values()) <= 1, 2.0)

    async def behind_takes_none(self) -> None:
        """A member that lacks much of the log is not waited for: writes go on meanwhile."""
        leading = await self.started()
        host, behind = self.host(leading), self.cluster.nodes[1]
        self.deafen(behind, 60.0)
        group = sorted(self.led_by(leading))[0]
        replica = host.basins[group]
        number = self.number_of(group)
        while replica.group.engine.last_index - self.matched(replica, behind) <= NEAR_ENTRIES:
            await self.write(number, once=True)
        pauses: list[float] = []
        looking = self.cluster.loop.create_task(self.note_pauses(leading, group, pauses))
        assert await self.give(leading, group, behind.node_id) == "unavailable"
        await asyncio.sleep(1.0)
        looking.cancel()
        assert pauses == []
        assert not self.failures

    def matched(self, replica: Replica, node: SimNode) -> int:
        return replica.group.engine.match_index(NodeId(node.node_id))

    async def drained_meanwhile(self) -> None:
        """A node that drains between a plan and its moves is passed over, however it is asked."""
        leading = await self.started()
        going, catalog = self.cluster.nodes[2], self.at_catalog()
        assert going.node is not None and catalog.node is not None
        balance = catalog.node.service.balance
        _, moves = await balance._plan()
        assert any(move.taker == going.node_id for move in moves)
        await going.node.retire()
        told = pb.LeadBalance()
        for move in moves:
            told.moves.add(group_id=move.group_id)
        await balance._perform(moves, told)
        await self.nothing_moves_to(going, 2.0)
        group = sorted(self.led_by(leading))[0]
        assert await self.give(leading, group, going.node_id) == "unavailable"
        for group_id in sorted(self.led_by(leading)):
            self.host(leading).basins[group_id].group.transfer_leadership(NodeId(going.node_id))
        await self.nothing_moves_to(going, 2.0)
        await self.write_everywhere()

    async def who_drains_moves_nothing(self) -> None:
        """The node that performs a plan leaves the rest of it when it goes itself."""
        await self.started()
        catalog = self.at_catalog()
        assert catalog.node is not None
        balance = catalog.node.service.balance
        _, moves = await balance._plan()
        told = pb.LeadBalance()
        for move in moves:
            told.moves.add(group_id=move.group_id)
        catalog.node.host.draining = True
        await balance._perform(moves, told)
        assert moves and told.has_more and not told.moved

    async def second_drain(self) -> None:
        """Leads of a node that drains go to one that does not, at once: the other that drains is
        not even asked."""
        leading = await self.started()
        first = self.cluster.nodes[1]
        assert first.node is not None and leading.node is not None
        await first.node.retire()
        began = self.cluster.loop.time()
        await leading.node.retire()
        assert self.cluster.loop.time() - began < ATTEMPT_SECONDS
        await self.until("it leads all", lambda: self.leads()[3] == BASINS + 1, 5.0)
        await self.write_everywhere()

    async def paused_twice(self) -> None:
        """A lead that is being given away by its node itself is not given to another one, and
        whoever ends first does not let writes in while the other one goes on."""
        leading = await self.started()
        group = sorted(self.led_by(leading))[0]
        proposer = self.host(leading).basins[group].proposer
        states: list[bool] = []
        with proposer.pause():
            assert await self.give(leading, group, 2) == "hot_server"
            with proposer.pause():
                pass
            states.append(proposer.paused)
        states.append(proposer.paused)
        assert states == [True, False]
        await self.write_everywhere()

    async def looks_go_on(self) -> None:
        """A look that fails is one look: the next ones even the leads out."""
        await self.started()
        for node in self.cluster.nodes:
            assert node.node is not None
            self.break_once(node.node.service.balance)
        await self.until("leads are even", lambda: spread(self.leads().values()) <= 1, WITHIN_S)

    def break_once(self, balance: LeadBalance) -> None:
        real, failures = balance.round, iter([True])

        async def once(*, dry_run: bool = False) -> pb.LeadBalance:
            if next(failures, False):
                raise ZeroDivisionError
            return await real(dry_run=dry_run)

        balance.round = once  # type: ignore[method-assign]

    def number_of(self, group: GroupId) -> int:
        """Of the stream that is in the basin of that group."""
        catalog = self.host(self.cluster.nodes[0]).catalog
        assert catalog is not None
        name = catalog.state.basins_by_group[group].name
        streams = self.cluster.recorder.streams
        return next(n for n, one in enumerate(streams) if one.basin == name)

    def deafen(self, deaf: SimNode, seconds: float = 3.0) -> None:
        """It is connected, and hears nothing of its groups."""
        for node in self.cluster.nodes:
            if node is not deaf:
                for a, b in raft_pairs(node.node_id, deaf.node_id):
                    if a == peer_address(node.node_id):
                        self.cluster.network.clog(a, b, seconds)

    async def give(self, asked: SimNode, group_id: GroupId, to: int) -> str:
        """What was refused; empty: it was done."""

        def fill(request: pb.Request) -> None:
            request.give_lead.to = to

        assert asked.node is not None
        answer = await asked.node.host.ask_any(NodeId(asked.node_id), fill, group_id)
        assert answer is not None
        return answer.refusal.code if answer.WhichOneof("result") == "refusal" else ""


@pytest.mark.parametrize(
    ("options", "play"),
    [
        (UNASKED, Balancing.unasked),
        (THREE, Balancing.so_many_at_a_time),
        (OPTIONS, Balancing.to_nobody_who_goes),
        (OPTIONS, Balancing.one_lead),
        (UNASKED, Balancing.not_to_a_full_disk),
        (UNASKED, Balancing.not_while_one_is_parked),
        (OPTIONS, Balancing.a_pair_fails_once),
        (OPTIONS, Balancing.behind_takes_none),
        (OPTIONS, Balancing.drained_meanwhile),
        (OPTIONS, Balancing.who_drains_moves_nothing),
        (OPTIONS, Balancing.second_drain),
        (OPTIONS, Balancing.paused_twice),
        (UNASKED, Balancing.looks_go_on),
    ],
    ids=[
        "unasked",
        "so-many-at-a-time",
        "nobody-who-goes",
        "one-lead",
        "full-disk",
        "parked",
        "fails-once",
        "behind",
        "drained-meanwhile",
        "performer-drains",
        "second-drain",
        "paused-twice",
        "looks-go-on",
    ],
)
def test_leads_are_evened_out(
    options: Options, play: Callable[[Balancing], Coroutine[Any, Any, None]]
) -> None:
    assert AT_ONCE_MAX == 8

    async def run(cluster: SimCluster) -> None:
        await play(Balancing(cluster))

    in_simulation(7, options, run)
