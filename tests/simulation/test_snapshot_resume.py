"""A snapshot that is broken off goes on behind what its receiver has, whoever sends then.

The suite interrupts at every chunk of one seed; `SNAPSHOT_SEEDS=8` plays more.
"""

from __future__ import annotations

import os
import random

import pytest

from svc_cluster.replica import node
from svc_cluster.replica.leader_handover import hand_over
from tests.simulation.adapters import raft_pairs
from tests.simulation.node import SimNode
from tests.simulation.snapshot_scenario import (
    BASIN,
    CHANGED_MAX,
    DOWN_S,
    Scenario,
    Steps,
    Trouble,
    chunks,
    play,
    sent_again,
)

SEEDS = range(3, 3 + int(os.environ.get("SNAPSHOT_SEEDS", "1")))


@pytest.fixture(scope="module", params=SEEDS)
def undisturbed(request: pytest.FixtureRequest) -> tuple[int, Steps]:
    """(seed, what happens when nothing goes wrong)"""
    return request.param, play(seed=request.param)


def leader_of(scenario: Scenario) -> SimNode | None:
    """Who leads the basin's group, also before it serves; of several the last that was elected."""
    terms = {}
    for one in scenario.cluster.nodes:
        basin = None if one.node is None else one.node.host.basins.get(BASIN)
        if basin is not None and basin.group.engine.can_propose:
            terms[basin.group.engine.term] = one
    return terms[max(terms)] if terms else None


def lose_connections(scenario: Scenario) -> None:
    """All conversations of the receiver break."""
    for one in scenario.cluster.nodes:
        if one is not scenario.receiver:
            for a, b in raft_pairs(one.node_id, scenario.receiver.node_id):
                scenario.cluster.network.reset(a, b)


def crash_receiver(scenario: Scenario) -> None:
    scenario.cluster.nemesis.crash(scenario.receiver, random.Random(2), DOWN_S)


def change_leader(scenario: Scenario) -> None:
    """The lead goes to the one that neither has it nor is the receiver."""
    leader = leader_of(scenario)
    if leader is None or leader.node is None:
        return  # the lead is on its way already
    (to,) = (n for n in scenario.cluster.nodes if n not in (leader, scenario.receiver))
    host = leader.node.host
    given = hand_over(host.basins[BASIN], host.services.figures, to.node_id)
    scenario.tasks.append(scenario.cluster.loop.create_task(given))


def test_what_was_taken_is_not_sent_again_when_the_leader_changes_at_any_chunk(
    undisturbed: tuple[int, Steps],
) -> None:
    """One run for each chunk: the replica becomes equal to the others pair by pair, by one install,
    and only the chunks that have changed come again, from the next leader."""
    seed, steps = undisturbed
    for number in range(steps.chunks):
        played = play(seed=seed, at_chunk=number, trouble=change_leader)
        assert played.hit, f"chunk {number} was not reached"
        assert played.installs == 1
        assert sent_again(played) == 0, f"chunk {number}"
        assert chunks(played) <= chunks(steps) + CHANGED_MAX, f"chunk {number}"


def test_a_receiver_that_crashed_begins_anew_and_mixes_nothing(
    undisturbed: tuple[int, Steps],
) -> None:
    """What it had is gone with the process: it is told to nobody, and none of it is left."""
    seed, steps = undisturbed
    for number in range(0, steps.chunks, 4):
        played = play(seed=seed, at_chunk=number, trouble=crash_receiver)
        assert played.hit, f"chunk {number} was not reached"
        assert sent_again(played) == 0, f"chunk {number}"


@pytest.mark.parametrize("trouble", [lose_connections, change_leader])
def test_a_transfer_that_never_lasts_for_five_chunks_completes(trouble: Trouble) -> None:
    """Each attempt is interrupted, in the state's fifth part at the latest: before, none of them
    would ever have come to an end."""
    played = play(seed=SEEDS[0], every=5, trouble=trouble)
    assert played.hits >= 4
    assert played.installs == 1
    assert sent_again(played) == 0
    senders = {brought.sender for brought in played.brought}
    assert len(senders) == (2 if trouble is change_leader else 1)


def test_nodes_of_before_are_sent_every_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    """They do not name the feature: no chunk has what they would skip, and a transfer that is
    broken off begins again."""
    monkeypatch.setattr(node, "features_of_node", lambda **_: ())
    undisturbed = play(seed=SEEDS[0])
    assert undisturbed.installs == 1
    assert all(brought.pairs for brought in undisturbed.brought[:-1])
    played = play(seed=SEEDS[0], at_chunk=10, trouble=lose_connections)
    assert played.hit
    assert played.installs == 1
    assert sent_again(played) > 0
