"""A crash at any step of the snapshot install boots and completes.

The suite takes one seed and one pair of crashes in 40; `SNAPSHOT_SEEDS=8 SNAPSHOT_PAIRS_EVERY=1`
plays more seeds and every pair. A run is some seconds of virtual time, a tenth of a second of a
core.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.simulation.adapters import raft_pairs
from tests.simulation.node import Luck
from tests.simulation.snapshot_scenario import (
    CHANGED_MAX,
    DOWN_S,
    Scenario,
    Steps,
    chunks,
    play,
    sent_again,
)

PAIRS_EVERY = int(os.environ.get("SNAPSHOT_PAIRS_EVERY", "40"))
SEEDS = range(3, 3 + int(os.environ.get("SNAPSHOT_SEEDS", "1")))

EVERY_LUCK = [Luck(), *(Luck(log, store) for log in (False, True) for store in (0.0, 0.5, 1.0))]
"""At the steps that matter: the frame and the writes survive, or not, in every combination."""


@pytest.fixture(scope="module", params=SEEDS)
def undisturbed(request: pytest.FixtureRequest) -> tuple[int, Steps]:
    """(seed, what happens when nothing goes wrong)"""
    return request.param, play(seed=request.param)


def test_the_scenario_installs_a_snapshot_of_many_chunks(undisturbed: tuple[int, Steps]) -> None:
    """What the other tests disturb is there: writes, a flush, a frame in the log, a discard."""
    _, steps = undisturbed
    assert steps.installs == 1
    assert steps.chunks >= 20
    kinds = set(steps.effects)
    assert kinds >= {
        "store write",
        "store flush begin",
        "store flush done",
        "log submit",
        "log durable",
        "store discard",
    }


def test_an_install_keeps_the_vote(undisturbed: tuple[int, Steps]) -> None:
    """In the term in which the receiver gave its vote it has none left: not with the new state, and
    not when the power fails afterwards."""
    _, steps = undisturbed
    assert len(steps.promises) == 3
    assert steps.promises[0][1] is not None, "it has voted in this term"
    assert set(steps.promises) == {steps.promises[0]}


def test_the_state_before_goes_only_behind_the_frame_that_replaces_it(
    undisturbed: tuple[int, Steps],
) -> None:
    """The new state is flushed, then the frame in the log is durable, then the old state may go.
    Other groups may write to the log meanwhile; nothing else goes."""
    _, steps = undisturbed
    assert steps.effects.count("store discard") == 1
    last_write = max(at for at, kind in enumerate(steps.effects) if kind == "store write")
    before = iter(steps.effects[last_write : steps.effects.index("store discard")])
    for kind in ("store flush begin", "store flush done", "log submit", "log durable"):
        assert kind in before, f"{kind} in {steps.effects}"  # and those behind it


def test_receiver_that_crashes_at_any_step_completes(undisturbed: tuple[int, Steps]) -> None:
    """Power fails right behind each effect on the receiver's disks, one run for each: it boots, all
    three replicas become equal, pair by pair, and every acknowledged record is there."""
    seed, steps = undisturbed
    for number, kind in enumerate(steps.effects):
        for luck in (Luck(),) if kind == "store write" else EVERY_LUCK:
            played = play(seed=seed, at_effect=number, luck=luck)
            assert played.hit, f"step {number} ({kind}) was not reached"
            assert played.repaired == 0, f"step {number} ({kind}) left log and state apart"


def test_receiver_that_crashes_twice_completes(undisturbed: tuple[int, Steps]) -> None:
    """A second power failure during the second attempt, or the recovery from the first."""
    seed, steps = undisturbed
    count = len(steps.effects)
    pairs = [(first, second) for first in range(count) for second in range(count)]
    for first, second in pairs[seed % PAIRS_EVERY :: PAIRS_EVERY]:
        assert play(seed=seed, at_effect=first, again_at=second).hit


def _crash_sender(scenario: Scenario) -> None:
    scenario.cluster.nemesis.crash(scenario.sender, random.Random(1), DOWN_S)


def _lose_call(scenario: Scenario) -> None:
    """The conversation that carries it is reset, not the one back."""
    sender, receiver = scenario.sender.node_id, scenario.receiver.node_id
    (there, _) = raft_pairs(sender, receiver)
    scenario.cluster.network.reset(*there)


def _lose_everything(scenario: Scenario) -> None:
    for a, b in raft_pairs(scenario.sender.node_id, scenario.receiver.node_id):
        scenario.cluster.network.reset(a, b)


@pytest.mark.parametrize("answered", [False, True], ids=["chunk", "answer"])
@pytest.mark.parametrize("trouble", [_crash_sender, _lose_call, _lose_everything])
def test_transfer_that_breaks_at_any_chunk_completes(
    undisturbed: tuple[int, Steps], trouble: object, answered: bool
) -> None:
    """The sender loses power, or the connection breaks, when a chunk arrives or when its answer
    leaves: another attempt, or another leader, brings the replica up, and goes on behind what it
    has."""
    seed, steps = undisturbed
    assert callable(trouble)
    for number in range(steps.chunks):
        played = play(seed=seed, at_chunk=number, answered=answered, trouble=trouble)
        assert played.hit, f"chunk {number} was not reached"
        assert sent_again(played) == 0, f"chunk {number}"
        assert chunks(played) <= chunks(steps) + CHANGED_MAX, f"chunk {number}"


def test_both_ends_that_crash_together_complete(undisturbed: tuple[int, Steps]) -> None:
    """Power fails on sender and receiver at one chunk."""
    seed, steps = undisturbed

    def trouble(scenario: Scenario) -> None:
        _crash_sender(scenario)
        scenario.cluster.nemesis.crash(scenario.receiver, random.Random(2), DOWN_S)

    for number in range(0, steps.chunks, 4):
        assert play(seed=seed, at_chunk=number, trouble=trouble).hit
