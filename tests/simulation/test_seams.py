"""The seam between two configurations of a basin, at the places where a mistake would not be seen
otherwise: what is awaited, what counts, what goes, and who is asked before."""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.simulation.mover import BASIN, Mover, free_nodes, swapped
from tests.simulation.seams_scenario import (
    HELD_S,
    flushed,
    hold_at_end,
    host_of,
    is_there,
    leader_of,
    node_of,
    numbers,
    opened_on,
    ordered,
    play,
    replica_of,
    restarted_alone,
    row_of,
    seals,
    unanswered,
)


@pytest.mark.parametrize("role", ["leaves", "stays", "new"])
def test_nothing_of_the_next_configuration_acts_before_its_frame_is_on_the_disk(role: str) -> None:
    """While a node's disk does not sync, its replica stays the one that has ended: nothing is said
    for the group, and nothing at or above the seal is told to be flushed. Then the move goes on."""

    async def run(mover: Mover) -> None:
        row = row_of(mover)
        nodes = swapped(mover)
        which = {"leaves": row.replicas[0], "stays": row.replicas[1], "new": nodes[-1]}
        node = node_of(mover, which[role])
        await ordered(mover, *nodes)
        await mover.until("the replica is there", lambda: is_there(node))
        held = hold_at_end(node)
        await mover.until("it has ended", lambda: held.next_one is not None)
        for _ in range(100):
            assert replica_of(node) is held.replica, "the next one has begun without its frame"
            assert replica_of(node).group.stopped
            await asyncio.sleep((HELD_S - 0.5) / 100)
        assert held.said == []
        assert held.flushed, "the flush is over"
        assert [one for one in held.flushed if one[0] >= one[1]] == []
        await mover.until("it has begun", lambda: numbers(mover).get(int(node.node_id)) != 0)
        await mover.move(*nodes)

    play(run)


def test_a_configuration_counts_once_it_has_decided_an_entry_of_its_own() -> None:
    """The next configuration has a leader whose first entry nobody acknowledges: the row stays the
    one before, and who leaves keeps its copy, which a quorum may still need. Then both follow."""

    async def run(mover: Mover) -> None:
        row = row_of(mover)
        nodes = swapped(mover)
        left = node_of(mover, row.replicas[0])
        with unanswered(mover.cluster.nodes, 1):
            await ordered(mover, *nodes)
            await mover.until(
                "all have begun", lambda: {*numbers(mover).values()} == {1}, seconds=10.0
            )
            has_led = False
            for _ in range(100):
                now = row_of(mover)
                assert (now.configuration, now.replicas) == (0, row.replicas)
                assert now.change is not None
                assert is_there(left), "the copy of before is gone"
                members = [node_of(mover, number) for number in nodes]
                has_led |= any(
                    replica_of(one).group.engine.role.value == "leader" for one in members
                )
                await asyncio.sleep(HELD_S / 100)
            assert has_led, "there was somebody to say that it has begun"
        await mover.move(*nodes)
        await mover.until("the copy of before goes", lambda: not is_there(left))

    play(run)


def test_an_older_catalog_makes_no_replica_where_one_was_destroyed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The node's store has lost the row that took its replica away, and the log has not. The row
    that it still has names it: nothing is made by that, which would have forgotten its votes."""

    async def run(mover: Mover) -> None:
        row = row_of(mover)
        nodes = swapped(mover)
        left = node_of(mover, row.replicas[0])
        await flushed(mover, left)
        await mover.move(*nodes)
        await mover.until("the copy is gone", lambda: not is_there(left))
        await asyncio.sleep(1.0)  # until the mark is synced
        opened = opened_on(left, monkeypatch)
        restarted_alone(mover, left)
        await asyncio.sleep(HELD_S)
        mover.cluster.network.heal_all()
        await mover.until("it is back", lambda: mover.cluster.not_whole() is None)
        assert any(opened.is_named), "the row of before was there to be believed"
        assert opened.made == []

    play(run, quiet=True)


def test_an_older_catalog_takes_no_copy_away_that_a_newer_one_has_ordered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The basin has left the node, which flushed that, and comes back. The node's store has lost
    the order to come back: the copy that was made by it stays."""

    async def run(mover: Mover) -> None:
        row = row_of(mover)
        left = node_of(mover, row.replicas[0])
        await mover.move(*swapped(mover))
        await mover.until("the copy is gone", lambda: not is_there(left))
        await flushed(mover, left)
        stay = row_of(mover).replicas[:2]
        await ordered(mover, *map(int, stay), int(left.node_id))
        await mover.until("a copy is there again", lambda: is_there(left))
        generation = replica_of(left).group.generation
        opened = opened_on(left, monkeypatch)
        await asyncio.sleep(0.1)  # until the log has it
        restarted_alone(mover, left)
        await asyncio.sleep(HELD_S)
        mover.cluster.network.heal_all()
        await mover.move(*map(int, stay), int(left.node_id))
        assert not all(opened.is_named), "the row of before was there to be believed"
        assert replica_of(left).group.generation == generation

    play(run, quiet=True)


def test_nobody_seals_while_the_members_that_stay_are_no_quorum_of_the_next() -> None:
    """Of the two members that stay one is down, and the third of the next ones is new: the leader
    waits, and says why. When the node is back the move goes through."""

    async def run(mover: Mover) -> None:
        leader = leader_of(mover)
        row = row_of(mover)
        others = [node for node in row.replicas if node != leader.node_id]
        down = node_of(mover, others[0])
        down.crash(random.Random(1))
        nodes = [int(leader.node_id), int(others[0]), free_nodes(mover)[0]]
        await ordered(mover, *nodes)
        await asyncio.sleep(2 * HELD_S)
        assert seals(mover) == 0
        assert host_of(leader).changes.reasons == {
            BASIN: "1 of the members that stay are ready, 2 are needed"
        }
        down.start()
        await mover.move(*nodes)

    play(run)


def test_one_member_becomes_three_once_both_newcomers_hold_everything() -> None:
    """Where one member stays alone, the two that are new are a quorum without it. So both have to
    say that they hold what is there, and one of them is cut off."""

    async def run(mover: Mover) -> None:
        first = int(leader_of(mover).node_id)
        await mover.move(first)
        new = free_nodes(mover)[:2]
        for node in mover.cluster.nodes:
            if node.node_id != new[1]:
                mover.cluster.nemesis.cut(new[1], node.node_id, both=True)
        before = seals(mover)
        await ordered(mover, first, *new)
        await asyncio.sleep(2 * HELD_S)
        assert seals(mover) == before
        assert row_of(mover).configuration == 1
        mover.cluster.network.heal_all()
        await mover.move(first, *new)

    play(run)
