"""Nodes come to vote in the catalog, and those that the cluster began with leave it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

import pytest

from svc_cluster.base.errors import ServiceError
from svc_cluster.base.ids import NodeId
from svc_cluster.catalog.catalog_commands import DrainNode
from svc_cluster.replica.drain_operations import DRAIN, TELL
from tests.simulation.adapters import addresses_of
from tests.simulation.cluster import SimCluster, in_simulation
from tests.simulation.joining_scenario import OPTIONS, Joining
from tests.simulation.node import SimNode
from tests.simulation.replacement_scenario import EXPECTED, Replacing
from tests.simulation.store import StallingStore
from tests.simulation.test_joining import let_in, play, refusal

REFUSED = ["node_refused"]


async def leave(joining: Joining, number: int) -> None:
    """Drain a node, wait until it is empty and votes no more, and remove it."""
    await joining.until("it is registered", lambda: number in joining.state().nodes)
    assert (await joining.drain(number, DRAIN)).WhichOneof("result") == "node_drain"

    def is_empty() -> bool:
        return all(number not in members for members in joining.voters()) and not any(
            row.is_on(NodeId(number)) for row in joining.state().basins.values()
        )

    await joining.until(f"node {number} is empty", is_empty, 60.0)
    assert (await joining.remove(number)).WhichOneof("result") == "done"
    node = next(one for one in joining.cluster.nodes if one.node_id == number)
    await joining.until("it hears that", lambda: node.out is not None)
    joining.bury(node)
    node.node = None


def test_a_cluster_outlives_all_nodes_that_it_began_with() -> None:
    """Three come, and the first three are drained and removed, one after the other. What is left
    restarts from its disks, lets another one in, and serves what there was."""

    async def run(joining: Joining) -> None:
        for number in (4, 5, 6):
            await let_in(joining, joining.token(number))
        for number in (1, 2, 3):
            await leave(joining, number)
        await joining.until("three vote", lambda: joining.voters() == {(4, 5, 6)})
        cluster = joining.cluster
        left = [node for node in cluster.nodes if node.out is None]
        assert [int(node.node_id) for node in left] == [4, 5, 6]
        for node in left:
            cluster.nemesis.crash(node, joining.rng, 1.0)
        await joining.until("they are back", lambda: all(node.node for node in left))
        late = await let_in(joining, joining.token(7), (6,))
        assert late.node is not None
        seeds = [node for node, _ in late.node.former.formation.record.seeds]
        assert sorted(seeds) == [4, 5, 6], "of those that were removed it is told nothing"
        await joining.finish((4, 5, 6))
        for history in cluster.recorder.streams:
            cluster.judge(history, await cluster.read_all(history))

    play(run, expected=REFUSED)


def test_a_drained_node_whose_vote_nobody_else_could_have_takes_it_along() -> None:
    """Of five that all vote two are drained: three votes are left, on nodes that stay."""

    async def run(cluster: SimCluster) -> None:
        joining = Joining(cluster)
        await joining.begin()
        assert joining.voters() == {(1, 2, 3, 4, 5)}
        await leave(joining, 2)
        (voters,) = joining.voters()
        assert len(voters) == 3 and 2 not in voters
        leaving = voters[0]
        await leave(joining, leaving)
        (left,) = joining.voters()
        assert len(left) == 3 and {*left} == {1, 3, 4, 5} - {leaving}
        await joining.finish(left)
        joining.watch.cancel()

    in_simulation(2, replace(OPTIONS, nodes=5), run, expected=REFUSED)


def test_who_waits_for_a_catalog_that_goes_is_answered_at_once() -> None:
    """A change that waits in the queue of a replica whose configuration ends: it had no effect."""

    async def run(joining: Joining) -> None:
        leader = joining.at_catalog()
        catalog = joining.catalog(leader)
        assert catalog is not None and leader.node is not None
        clock = leader.node.services.clock

        async def wait() -> float:
            begun = clock.monotonic()
            with catalog.proposer.pause():
                asked = asyncio.ensure_future(
                    catalog.change(lambda _: DrainNode(NodeId(1), True), begun + 30.0)
                )
                await asyncio.sleep(0.1)
                catalog.stop()
                with pytest.raises(ServiceError) as caught:
                    await asked
            assert not caught.value.may_have_taken_effect
            return clock.monotonic() - begun

        assert await leader.within(wait()) < 1.0

    play(run)


def test_who_votes_in_the_catalog_is_not_removed() -> None:
    """Neither one that came and votes, nor one that is to; who began and votes no more is."""

    async def run(joining: Joining) -> None:
        node = await let_in(joining, joining.token(4))
        assert "votes in the catalog" in refusal(await joining.remove(3))
        joining.bury(node)
        assert (await joining.vote(1, 2, 4)).WhichOneof("result") == "done"
        assert "votes in the catalog" in refusal(await joining.remove(4)), "it is to vote"
        assert joining.voters() == {(1, 2, 3)}
        node.start()
        await joining.until("it votes", lambda: joining.voters() == {(1, 2, 4)})
        assert "votes in the catalog" in refusal(await joining.remove(4))
        assert "1, 3 or 5 votes, and not 2" in refusal(await joining.vote(1, 2))
        assert "no node 5 is registered" in refusal(await joining.vote(1, 2, 5))
        fifth = await let_in(joining, joining.token(5))
        assert fifth.node is not None
        seeds = [node for node, _ in fifth.node.former.formation.record.seeds]
        assert seeds == [1, 2, 4, 3], "it is told of those that vote first, and of all others"
        told = await joining.drain(3, TELL)
        assert told.node_drain.state == "active"
        await joining.finish((1, 2, 4))

    play(run)


def test_a_voter_whose_disk_is_lost_is_replaced_and_one_without_a_vote_is_not() -> None:
    """In a later configuration than the one that the new directory begins with."""

    async def run(cluster: SimCluster) -> None:
        joining, replacing = Joining(cluster), Replacing(cluster, 0)
        watch = await replacing.begin()
        joining.watch = watch
        await let_in(joining, joining.token(4))
        assert (await joining.vote(1, 2, 4)).WhichOneof("result") == "done"
        await joining.until("they vote", lambda: joining.voters() == {(1, 2, 4)})
        victim = cluster.nodes[1]
        replacing.lose(victim)
        await cluster.guarded(replacing.replace(victim), watch)
        await joining.until("it is whole", lambda: replacing.is_whole(victim), 60.0)
        await joining.until("it votes", lambda: joining.voters() == {(1, 2, 4)})
        gone = cluster.nodes[2]
        replacing.lose(gone)
        await _refused(joining, gone)
        watch.cancel()

    in_simulation(5, OPTIONS, run, expected=EXPECTED)


@pytest.mark.parametrize("is_asked", [True, False], ids=["asked", "unasked"])
def test_a_lost_disk_is_replaced_where_the_leader_came_later(is_asked: bool) -> None:
    """The empty directory knows the nodes of its settings alone: neither does the leader hear that
    it is there, nor does it know the leader. It is told by the others, and is whole again."""

    async def run(cluster: SimCluster) -> None:
        joining, replacing = Joining(cluster), Replacing(cluster, 0)
        watch = await replacing.begin()
        joining.watch = watch
        await let_in(joining, joining.token(4))
        await joining.vote(1, 2, 4)
        await joining.until("they vote", lambda: joining.voters() == {(1, 2, 4)})
        await joining.lead(4)
        victim = cluster.nodes[1]
        replacing.lose(victim)
        if is_asked:
            await cluster.guarded(replacing.replace(victim), watch)
        await joining.until("it is whole", lambda: replacing.is_whole(victim), 60.0)
        await joining.until("it votes", lambda: joining.voters() == {(1, 2, 4)})
        await joining.finish((1, 2, 4))
        watch.cancel()

    options = replace(OPTIONS, replace_lost_nodes=not is_asked)
    in_simulation(5, options, run, expected=EXPECTED)


def test_who_was_away_while_others_came_to_vote_gets_the_catalog_from_them() -> None:
    """No log has what it lacks any more, and who leads is a node that it has never heard of."""

    async def run(cluster: SimCluster) -> None:
        joining = Joining(cluster)
        await joining.begin()
        away = await let_in(joining, joining.token(4))
        copy = joining.catalog(away)
        assert copy is not None
        has = copy.group.engine.last_index
        away.crash(joining.rng)
        for address in addresses_of(away.node_id):
            cluster.network.crash(address)
        token = joining.token(5)
        assert (await joining.add(token)).WhichOneof("result") == "member_ticket"
        joining.newcomer(token).start()
        await joining.until("the fifth has come", lambda: 5 in joining.state().nodes)
        await joining.vote(1, 2, 5)
        await joining.until("they vote", lambda: joining.voters() == {(1, 2, 5)})
        await joining.lead(5)
        for place in range(12):
            await cluster.insist(lambda api, n=place: api.create_basin(f"later-{n}"))
        await asyncio.sleep(15.0)
        assert all(
            one.group.engine.base_index > has
            for node in cluster.nodes
            if node is not away and (one := joining.catalog(node)) is not None
        ), "no log has all any more"
        away.start()
        await joining.until("all talk to it", lambda: joining.has_joined(away))
        await joining.finish((1, 2, 5))
        assert away.snapshots_installed, "the log began behind what it lacks"
        joining.watch.cancel()

    options = replace(OPTIONS, log_retention_seconds=0.3, log_retention_bytes=1)
    in_simulation(3, options, run)


async def voting(joining: Joining, voters: tuple[int, ...]) -> None:
    await joining.until(f"{voters} vote", lambda: joining.voters() == {voters})


def knows(joining: Joining, number: int) -> bool:
    return number in joining.state().nodes


def lose_store(joining: Joining, node: SimNode) -> None:
    """All that was applied is gone, and the log is there."""
    node.crash(joining.rng)
    node.store = StallingStore(joining.cluster.loop, joining.rng)
    node.start()


def is_whole(joining: Joining, node: SimNode) -> bool:
    catalog = joining.catalog(node)
    return catalog is not None and not catalog.group.engine.recovery


def test_a_damaged_catalog_is_made_whole_by_voters_that_came_later() -> None:
    """Neither of them is known to who lost what it had applied, and no log has it any more."""

    async def run(cluster: SimCluster) -> None:
        joining = Joining(cluster)
        await joining.begin()
        for number in (4, 5):
            await let_in(joining, joining.token(number))
        for to in ((1, 2, 4), (2, 4, 5)):
            assert (await joining.vote(*to)).WhichOneof("result") == "done"
            await voting(joining, to)
        node = cluster.nodes[1]
        await asyncio.sleep(15.0)
        lose_store(joining, node)
        await joining.until("it is whole", lambda: is_whole(joining, node), 60.0)
        await joining.finish((2, 4, 5))
        joining.watch.cancel()

    options = replace(OPTIONS, log_retention_seconds=0.3, log_retention_bytes=1)
    in_simulation(3, options, run)


def test_a_newcomer_that_was_away_while_its_seeds_lost_their_votes_gets_the_catalog() -> None:
    async def run(cluster: SimCluster) -> None:
        joining = Joining(cluster)
        await joining.begin()
        token = joining.token(7)
        assert (await joining.add(token)).WhichOneof("result") == "member_ticket"
        late = joining.newcomer(token)
        late.start()

        def is_let_in() -> bool:
            return late.node is not None and late.node.former.formation.is_formed

        await joining.until("it is let in", is_let_in)
        joining.bury(late)
        for number in (4, 5, 6):
            token = joining.token(number)
            assert (await joining.add(token)).WhichOneof("result") == "member_ticket"
            joining.newcomer(token).start()
            await joining.until("it has come", partial(knows, joining, number))
        for to in ((1, 2, 4), (2, 4, 5), (4, 5, 6)):
            assert (await joining.vote(*to)).WhichOneof("result") == "done"
            await voting(joining, to)
        await asyncio.sleep(15.0)
        late.start()
        await joining.until("it has joined", lambda: joining.has_joined(late), 60.0)
        await joining.finish((4, 5, 6))
        joining.watch.cancel()

    options = replace(OPTIONS, log_retention_seconds=0.3, log_retention_bytes=1)
    in_simulation(3, options, run)


def test_a_newcomer_remembers_where_the_voters_are() -> None:
    """The only node that its settings name has let it in, and is gone before it has a catalog."""

    async def run(joining: Joining) -> None:
        fourth = await let_in(joining, joining.token(4))
        token = joining.token(5)
        assert (await joining.add(token)).WhichOneof("result") == "member_ticket"
        late = joining.newcomer(token, (4,))
        late.start()

        def is_let_in() -> bool:
            return late.node is not None and late.node.former.formation.is_formed

        await joining.until("it is let in", is_let_in)
        for node in (late, fourth):
            joining.bury(node)
        fourth.node = None
        late.start()

        def has_catalog() -> bool:
            catalog = joining.catalog(late)
            return catalog is not None and 5 in catalog.state.nodes

        await joining.until("it has the catalog", has_catalog)

    play(run)


@pytest.mark.parametrize("down", [3, 5, 6])
def test_a_drained_node_loses_its_vote_whoever_else_is_down(down: int) -> None:
    """One of the five that vote, or a sixth that could have the vote and does not answer."""

    async def run(cluster: SimCluster) -> None:
        joining = Joining(cluster)
        await joining.begin()
        await joining.until("all are registered", lambda: len(joining.state().nodes) == 5)
        if down == 6:
            await let_in(joining, joining.token(6))
        dead = next(node for node in cluster.nodes if node.node_id == down)
        joining.bury(dead)
        dead.node = None
        await asyncio.sleep(1.0)
        assert (await joining.drain(2, DRAIN)).WhichOneof("result") == "node_drain"
        await joining.until("2 votes no more", lambda: not _votes(joining, 2), 120.0)
        joining.watch.cancel()

    in_simulation(2, replace(OPTIONS, nodes=5), run, expected=REFUSED)


def test_a_vote_goes_to_no_node_whose_catalog_is_damaged() -> None:
    """Nothing makes a copy without a vote whole: another node has the vote, at once."""

    async def run(joining: Joining) -> None:
        damaged = await let_in(joining, joining.token(4))
        await let_in(joining, joining.token(5))
        copy = joining.catalog(damaged)
        assert copy is not None
        copy.group.distrust()
        await asyncio.sleep(1.0)
        before = joining.state().placements.next
        assert (await joining.drain(3, DRAIN)).WhichOneof("result") == "node_drain"
        await joining.until("3 votes no more", lambda: not _votes(joining, 3), 60.0)
        assert _votes(joining, 5) and not _votes(joining, 4)
        assert joining.state().placements.next <= before + 4, "a change of each group, not more"

    play(run, expected=REFUSED)


def _votes(joining: Joining, number: int) -> bool:
    """Whether the node votes in the catalog, by the newest row; all do before there is one."""
    row = joining.state().own_group.row
    return row is None or number in row.replicas


async def _refused(joining: Joining, gone: SimNode) -> None:
    """It has come up empty, and gets no place."""

    def fill(request: object) -> None:
        request.replace_node.node_id = gone.node_id  # type: ignore[attr-defined]

    while True:
        said = refusal(await joining.ask(fill))
        if "has not come up" not in said and "is up with" not in said:
            break
        await asyncio.sleep(0.2)
    assert f"node {gone.node_id} has no vote in the catalog" in said
    assert joining.state().nodes[NodeId(gone.node_id)].ordinal == 0
