"""Nodes come to a cluster with join tokens and leave it, through crashes at any step."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import DeadlineError
from svc_cluster.base.ids import NodeId
from svc_cluster.catalog.join_tickets import UNKNOWN_TOKEN
from svc_cluster.model.join_token import JoinToken
from svc_cluster.replica.drain_operations import DRAIN
from svc_cluster.replica.introductions import AGAIN_SECONDS
from tests.simulation.adapters import raft_pairs
from tests.simulation.cluster import SimCluster, in_simulation
from tests.simulation.joining_scenario import COMES, OPTIONS, Joining, play_join
from tests.simulation.node import Luck, SimNode
from tests.simulation.test_replacement import created_alone

STEPS_EVERY = int(os.environ.get("JOIN_STEPS_EVERY", "25"))
REFUSED = ["node_refused"]


def play(
    run: Callable[[Joining], Awaitable[None]], seed: int = 1, expected: list[str] | None = None
) -> None:
    async def main(cluster: SimCluster) -> None:
        joining = Joining(cluster)
        await joining.begin()
        await run(joining)
        joining.watch.cancel()

    in_simulation(seed, OPTIONS, main, expected=expected or [])


async def let_in(joining: Joining, token: JoinToken, seeds: tuple[int, ...] = (1, 2, 3)) -> SimNode:
    """A node comes with an open token."""
    assert (await joining.add(token)).WhichOneof("result") == "member_ticket"
    node = joining.newcomer(token, seeds)
    node.start()
    await joining.until("it has joined", lambda: joining.has_joined(node))
    return node


def refusal(response: pb.Response) -> str:
    assert response.WhichOneof("result") == "refusal", response
    return response.refusal.message


@pytest.mark.parametrize("role", ["new", "leader"])
def test_a_crash_at_any_step_of_a_join_delays_it_only(role: str) -> None:
    """The token lets the same directory in again and again; the catalog's voters stay three."""
    steps = play_join(2, role)
    assert {"log submit", "log durable"} <= {*steps.effects}
    for number in range(0, len(steps.effects), STEPS_EVERY):
        luck = Luck(number % 2 == 0, 0.0 if number % 4 else 1.0)
        assert play_join(2, role, number, luck).hit, f"step {number} was not reached"


def test_nodes_that_came_let_others_come_and_serve_basins() -> None:
    """The fifth knows no node but the fourth, which has no vote and passes it on."""

    async def run(joining: Joining) -> None:
        fourth = await let_in(joining, joining.token(4))
        fifth = await let_in(joining, joining.token(5), (4,))
        for place in range(4):
            await joining.cluster.insist(lambda api, n=place: api.create_basin(f"more-{n}"))
        rows = joining.state().basins.values()
        assert all(any(node.node_id in one.replicas for one in rows) for node in (fourth, fifth))
        for node in [fourth, fifth]:
            joining.cluster.nemesis.crash(node, joining.rng, 2.0)
        await joining.until("they are back", lambda: all(n.node for n in joining.cluster.nodes))
        await joining.finish()

    play(run)


def test_two_directories_with_one_token_are_one_node() -> None:
    """The first to be heard is it, also once the other has shown the token again."""

    async def run(joining: Joining) -> None:
        token = joining.token()
        node = await let_in(joining, token)
        before = joining.state().nodes[node.node_id]
        joining.bury(node)
        other = joining.newcomer(token)
        other.start()
        await joining.until("the other is refused", lambda: other.out is not None)
        assert "another data directory" in str(other.out)
        assert joining.state().nodes[node.node_id] == before
        joining.bury(other)
        node.start()
        await joining.until("the first goes on", lambda: joining.has_joined(node))
        await joining.finish()

    play(run, expected=REFUSED)


@pytest.mark.parametrize("what", ["expired", "wrong", "none", "withdrawn"])
def test_a_token_that_is_not_good_lets_nobody_in(what: str) -> None:
    async def run(joining: Joining) -> None:
        token = joining.token()
        if what != "none":
            shown = await joining.add(token, 60)
            assert shown.WhichOneof("result") == "member_ticket"
        if what == "expired":
            await asyncio.sleep(62.0)
        if what == "withdrawn":
            assert (await joining.remove()).WhichOneof("result") == "done"
        if what == "wrong":
            token = joining.token()
        node = joining.newcomer(token)
        node.start()
        await joining.until("it is refused", lambda: node.out is not None)
        assert node.out == f"node {COMES} is not let in: {UNKNOWN_TOKEN}"
        assert node.node is not None
        assert not node.node.former.formation.is_open
        assert COMES not in joining.state().nodes
        joining.bury(node)
        await joining.finish()

    play(run, expected=REFUSED)


def test_a_token_that_is_over_is_opened_again_by_its_hash() -> None:
    """Whoever asks once more for the one that it has is told of one that lets its node in."""

    async def run(joining: Joining) -> None:
        token = joining.token()
        first = (await joining.add(token, 60)).member_ticket.expires_at_ms
        again = (await joining.add(token, 60)).member_ticket.expires_at_ms
        assert first == again, "it is open: nothing is done"
        await asyncio.sleep(62.0)
        assert (await joining.add(token, 60)).member_ticket.expires_at_ms > first
        node = joining.newcomer(token)
        node.start()
        await joining.until("it has joined", lambda: joining.has_joined(node))
        await joining.finish()

    play(run)


def test_a_node_leaves_only_when_it_is_empty_and_never_comes_back() -> None:
    """With its directory. Its id is given to another one, which is a member like any other: the
    one before it is refused beside that, too."""

    async def run(joining: Joining) -> None:
        node = await let_in(joining, joining.token())
        await joining.basin_on(node, "held")
        said = refusal(await joining.remove())
        assert said.startswith(f"node {COMES} holds replicas of 1 basin: drain it first")
        await joining.cluster.insist(lambda api: api.delete_basin("held"))
        gone = lambda: not any(b.is_on(node.node_id) for b in joining.state().basins.values())  # noqa: E731
        await joining.until("the basin is gone", gone)
        assert (await joining.remove()).WhichOneof("result") == "done"
        assert (await joining.remove()).WhichOneof("result") == "done", "it may be repeated"
        await joining.until("it hears that", lambda: node.out is not None)
        assert f"node {COMES} was removed from the cluster" in str(node.out)
        for other in joining.cluster.nodes[:3]:
            assert other.node is not None
            assert COMES not in other.node.roster.nodes
            assert not other.node.host.is_peer_up(node.node_id)
        joining.bury(node)
        node.out = None
        node.start()
        await joining.until("it is refused again", lambda: node.out is not None)
        joining.bury(node)
        await asyncio.sleep(3 * AGAIN_SECONDS)  # who it was is asked about
        joining.cluster.nodes.remove(node)
        again = await let_in(joining, joining.token())
        assert again.node is not None
        assert again.node.former.formation.record.ordinal == 1
        await joining.basin_on(again, "held-again")
        node.out = None
        node.start()
        refused = lambda: node.node is not None and node.node.why_not_formed() is not None  # noqa: E731
        await joining.until("it is refused beside its successor", refused)
        assert "the place of node 4 was given to another data directory" in str(
            node.node and node.node.why_not_formed()
        )
        for one in (node, again):  # who have one address
            joining.bury(one)
        again.start()
        await joining.until("it has joined", lambda: joining.has_joined(again))
        await joining.finish()

    play(run, expected=REFUSED)


@pytest.mark.parametrize("votes", [False, True])
def test_a_node_that_came_later_and_lost_its_disk_comes_again(votes: bool) -> None:
    """Drained and removed, with the vote that it may have had given to another one, it is let in
    with another directory under its id; nothing that was acknowledged is lost."""

    async def run(joining: Joining) -> None:
        node = await let_in(joining, joining.token())
        await joining.basin_on(node, "held")
        if votes:
            await joining.vote(1, 2, COMES)
            await joining.until("it votes", lambda: joining.voters() == {(1, 2, COMES)})
        joining.bury(node)
        joining.cluster.nodes.remove(node)
        said = refusal(await joining.replace(COMES))
        assert "drain and remove it, and let it come again" in said
        token = joining.token()
        assert "belongs to the cluster already" in refusal(await joining.add(token))
        early = joining.newcomer(joining.token())
        early.start()
        await joining.until("it is told what to do", lambda: early.out is not None)
        assert "drain and remove node 4" in str(early.out)
        joining.bury(early)
        joining.cluster.nodes.remove(early)
        assert (await joining.drain(COMES, DRAIN)).WhichOneof("result") == "node_drain"
        empty = lambda: not any(b.is_on(NodeId(COMES)) for b in joining.state().basins.values())  # noqa: E731
        await joining.until("nothing is left there", empty, 60.0)
        if votes:
            others = lambda: COMES not in next(iter(joining.voters()))  # noqa: E731
            await joining.until("another one votes", others, 60.0)
        assert (await joining.remove()).WhichOneof("result") == "done"
        again = await let_in(joining, token)
        await joining.basin_on(again, "held-again")
        await joining.finish()

    play(run, expected=REFUSED)


def test_a_crash_at_any_step_of_coming_again_delays_it_only() -> None:
    """The ordinal is on the disk before the node takes part, or comes to it at the next start."""
    steps = play_join(3, "again")
    assert {"log submit", "log durable"} <= {*steps.effects}
    for number in range(0, len(steps.effects), STEPS_EVERY):
        luck = Luck(number % 2 == 0, 0.0 if number % 4 else 1.0)
        assert play_join(3, "again", number, luck).hit, f"step {number} was not reached"


def test_a_member_that_has_not_heard_of_a_removal_brings_nobody_back() -> None:
    """The removed node knocks, and who it is is asked about: of one that lags behind, too."""

    async def run(joining: Joining) -> None:
        node = await let_in(joining, joining.token())
        leader = joining.at_catalog()
        knows, lags = (one for one in joining.cluster.nodes[:3] if one is not leader)
        for a, b in raft_pairs(leader.node_id, lags.node_id):
            joining.cluster.network.clog(a, b, 4 * AGAIN_SECONDS)
        assert (await joining.remove()).WhichOneof("result") == "done"
        await asyncio.sleep(3 * AGAIN_SECONDS)
        assert lags.node is not None and COMES in lags.node.roster.nodes, "it has not heard"
        for other in (leader, knows):
            assert other.node is not None
            assert COMES not in other.node.roster.nodes
            assert COMES not in other.node.former.formation.introduced
        await joining.until("it hears that", lambda: node.out is not None)
        joining.bury(node)
        await joining.finish()

    play(run, expected=REFUSED)


def test_who_began_the_cluster_is_neither_added_nor_removed() -> None:
    async def run(joining: Joining) -> None:
        assert "one of those that the cluster began with" in refusal(
            await joining.add(joining.token(2))
        )
        assert "votes in the catalog" in refusal(await joining.remove(2))
        assert "no node 9 is registered" in refusal(await joining.remove(9))
        await joining.finish()

    play(run)


def test_two_operators_at_once_open_one_ticket() -> None:
    """The catalog's log decides whose; the other hears that there is one."""

    async def run(joining: Joining) -> None:
        one, other = joining.token(), joining.token()
        answers = await asyncio.gather(joining.add(one), joining.add(other))
        kinds = [answer.WhichOneof("result") for answer in answers]
        assert sorted(map(str, kinds)) == ["member_ticket", "refusal"]
        token = one if kinds[0] == "member_ticket" else other
        node = joining.newcomer(token)
        node.start()
        await joining.until("it has joined", lambda: joining.has_joined(node))
        await joining.finish()

    play(run)


def test_a_catalog_that_has_forgotten_its_log_reaches_a_newcomer_by_snapshot() -> None:
    async def main(cluster: SimCluster) -> None:
        joining = Joining(cluster)
        await joining.begin()
        for place in range(12):
            await cluster.insist(lambda api, n=place: api.create_basin(f"early-{n}"))
        await asyncio.sleep(5.0)
        for number, seeds in ((4, (1, 2, 3)), (5, (4,))):
            # the fifth asks the fourth, which has no more of the log
            node = await let_in(joining, joining.token(number), seeds)
            assert node.snapshots_installed, "the log began behind what it lacks"
        await joining.finish()
        joining.watch.cancel()

    options = replace(OPTIONS, log_retention_seconds=0.3, log_retention_bytes=1)
    in_simulation(3, options, main)


def test_a_stranger_moves_no_node() -> None:
    """Who has no token and no row asks in the name of a node that has one."""

    async def main(cluster: SimCluster) -> None:
        joining = Joining(cluster)
        await joining.begin()
        node = await let_in(joining, joining.token())
        before = joining.state().nodes[node.node_id]
        stranger = joining.newcomer(joining.token(5))  # no ticket was ever opened for it
        stranger.start()
        await joining.until("it is refused", lambda: stranger.out is not None)

        def fill(request: pb.Request) -> None:
            asked = request.join_cluster
            asked.node.node_id = COMES
            asked.node.incarnation = before.incarnation  # told in every greeting
            asked.node.address = "203.0.113.9:7000"
            asked.node.facts.link_address = "203.0.113.9:7000"
            asked.node.facts.zone = "elsewhere"
            asked.secret = b"x" * 32

        assert stranger.node is not None
        leader = joining.at_catalog()
        answer = await stranger.node._calls.ask_node(NodeId(leader.node_id), fill)
        after = joining.state().nodes[node.node_id]
        joining.watch.cancel()
        assert after == before, (answer, after)

    in_simulation(1, OPTIONS, main, expected=["node_refused"])


def test_a_dead_node_goes_with_the_deleted_basins_that_were_nowhere_else() -> None:
    """While it is there it seals them itself, and is not removed before. Dead it holds up neither
    their deletion nor its removal; its directory, which could lead them alone, is refused when it
    comes back beside its successor."""

    async def run(joining: Joining) -> None:
        node = await let_in(joining, joining.token())
        names: list[str] = []
        while not any(COMES in joining.state().basins[name].replicas for name in names):
            names.append(f"alone-{len(names)}")
            await created_alone(joining.cluster, names[-1])
            there = lambda: names[-1] in joining.state().basins  # noqa: E731
            await joining.until("it is known", there)
        (alone,) = [n for n in names if COMES in joining.state().basins[n].replicas]
        await joining.cluster.insist(lambda api: api.create_stream(alone, "s"))
        joining.bury(node)
        joining.cluster.nodes.remove(node)
        assert (await joining.drain(COMES, DRAIN)).WhichOneof("result") == "node_drain"
        said = refusal(await joining.remove())
        assert "holds replicas of 1 basin" in said, "a basin that is not deleted keeps it"
        (gateway,) = joining.cluster.gateways
        with pytest.raises(DeadlineError, match="not finished yet"):
            await gateway.ask(lambda parts: parts.backend.delete_basin(alone))
        away = lambda: not joining.cluster.nodes[0].node.host.is_peer_up(node.node_id)  # type: ignore[union-attr]  # noqa: E731
        await joining.until("it is missed", away)
        assert alone in joining.state().basins, "nobody seals it"
        assert (await joining.remove()).WhichOneof("result") == "done"
        await joining.until("its row is gone", lambda: alone not in joining.state().basins)
        await created_alone(joining.cluster, alone)
        again = await let_in(joining, joining.token())
        joining.bury(again)
        node.out = None
        node.start()
        refused = lambda: node.node is not None and node.node.why_not_formed() is not None  # noqa: E731
        await joining.until("it is refused beside its successor", refused)
        joining.bury(node)
        again.start()
        await joining.until("it has joined", lambda: joining.has_joined(again))
        joining.cluster.look()
        joining.cluster.compare_stores()

    play(run, expected=REFUSED)


def test_a_living_node_is_not_removed_with_a_deleted_basin_that_it_has_not_sealed() -> None:
    """Its disk is slow, so that the seal takes a while: until then it may still acknowledge there,
    and neither it nor the basin goes."""

    async def run(joining: Joining) -> None:
        node = await let_in(joining, joining.token())
        names: list[str] = []
        while not any(COMES in joining.state().basins[name].replicas for name in names):
            names.append(f"alone-{len(names)}")
            await created_alone(joining.cluster, names[-1])
            await joining.until("it is known", lambda: names[-1] in joining.state().basins)
        (alone,) = [n for n in names if COMES in joining.state().basins[n].replicas]
        quick = node.disk.profile
        node.disk.profile = replace(quick, stall_share=1.0, latency_max_s=6.0, stall_max_s=6.1)
        (gateway,) = joining.cluster.gateways
        with pytest.raises(DeadlineError):
            await gateway.ask(lambda parts: parts.backend.delete_basin(alone))
        assert joining.state().basins[alone].deleted_at_ms is not None
        said = refusal(await joining.remove())
        assert "holds replicas of 1 basin" in said
        assert alone in joining.state().basins
        node.disk.profile = quick
        await joining.until("it is sealed", lambda: alone not in joining.state().basins)
        assert (await joining.remove()).WhichOneof("result") == "done"
        await joining.until("it hears that", lambda: node.out is not None)
        joining.bury(node)

    play(run, expected=REFUSED)
