"""Disks are replaced by empty ones at every step of a formation and behind a lagging peer: nothing
committed is lost, no node votes twice in a term, and nobody waits for ever."""

from __future__ import annotations

import asyncio
import os
import random

import pytest

from svc_cluster.base.ids import NodeId
from svc_cluster.link.handshake import HandshakeError, Identity, NotYetError
from tests.simulation.cluster import SimCluster, in_simulation
from tests.simulation.formation_scenario import GONE, OPTIONS, Ended, Trouble, form, lag

STRIDE = int(os.environ.get("FORMATION_STRIDE", "9"))
"""1: every step; otherwise each seed takes another share of them."""
SEEDS = int(os.environ.get("FORMATION_SEEDS", "30"))


@pytest.mark.parametrize("nodes", [1, 2, 3, 5])
def test_a_cluster_forms_without_trouble(nodes: int) -> None:
    """Also of one node, which waits for nobody, and all of them take part."""
    ended = form(1, nodes=nodes)
    assert ended.opened == set(range(1, nodes + 1)) and not ended.refused


@pytest.mark.parametrize("victim", [1, 2, 3])
def test_a_disk_emptied_at_any_step_forms_again_or_is_refused(victim: int) -> None:
    """The others take part in any case. The node with the empty disk takes part too, in a list of
    a later round, or the cluster was formed before and it says so; both occur."""
    steps = form(victim).steps
    assert steps > 40
    outcomes = set()
    for step in range(victim % STRIDE, steps, STRIDE):
        ended = form(victim, [Trouble(step, victim, emptied=True)])
        assert ended.opened | set(ended.refused) == {1, 2, 3}, (step, ended)
        assert set(ended.refused) <= {victim}, (step, ended)
        outcomes.add(bool(ended.refused))
    assert outcomes == {False, True}


@pytest.mark.parametrize("victim", [1, 2, 3])
def test_a_crash_at_any_step_is_gone_on_from(victim: int) -> None:
    """Nobody is refused whose disk is still there."""
    steps = form(victim).steps
    for step in range(victim % STRIDE, steps, STRIDE):
        ended = form(victim, [Trouble(step, victim, emptied=False)])
        assert ended.opened == {1, 2, 3} and not ended.refused, (step, ended)


def _several(seed: int) -> Ended:
    rng = random.Random(f"{seed}/troubles")
    nodes = rng.choice((2, 3, 3, 4, 5))
    troubles = [
        Trouble(rng.randrange(150), rng.randint(1, nodes), emptied=rng.random() < 0.6)
        for _ in range(rng.randint(2, 5))
    ]
    return form(seed, troubles, nodes=nodes)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_several_disks_and_crashes(seed: int) -> None:
    """Whatever is emptied: who takes part has lost nothing, and who does not says why. Where most
    disks were exchanged before it was known that the cluster is formed, nothing is formed."""
    ended = _several(seed)
    assert ended.reached > 0
    assert ended.opened or ended.refused
    if any(GONE in reason for reason in ended.refused.values()):
        assert not ended.opened


@pytest.mark.parametrize("cut_ms", [10, 100, 200, 300, 400, 500, 700, 900])
def test_an_emptied_node_and_a_lagging_peer_decide_nothing(cut_ms: int) -> None:
    """Two of three, and neither has what the third one has committed with the disk that is gone:
    they elect nobody, the empty node is refused and says so, and all is there when the third is
    back."""
    committed = lag(cut_ms, cut_ms / 1000)
    assert committed or cut_ms < 300


@pytest.mark.parametrize("cut_ms", [300, 400, 700])
def test_who_it_is_and_the_list_are_not_enough_to_vote(cut_ms: int) -> None:
    """A directory in which only the identity and the list of the formation are left has lost what
    it promised: beside a lagging peer it elects nobody, and it is made whole from the others."""
    committed = lag(cut_ms, cut_ms / 1000, keeps=("identity", "formation"))
    assert committed or cut_ms < 300


def test_a_formed_node_checks_who_speaks() -> None:
    """By its own list, whatever the caller believes: another directory under a known id, an id
    that is none, and, before the formation, anybody."""
    assert in_simulation(1, OPTIONS, _strangers) == ["not yet", "refused", "refused", "admitted"]


async def _strangers(cluster: SimCluster) -> list[str]:
    watch = cluster.start()
    first, second = cluster.nodes[:2]
    assert first.node is not None and second.node is not None
    known = second.node.identity.incarnation

    def answer(number: int, incarnation: str) -> str:
        assert first.node is not None
        try:
            first.node.check_peer(Identity("simulated", "node", NodeId(number), incarnation))
        except NotYetError:
            return "not yet"
        except HandshakeError:
            return "refused"
        return "admitted"

    answers = [answer(2, known)]
    while not first.node.former.formation.is_formed:
        await asyncio.sleep(0.01)
    answers += [answer(2, "0" * 32), answer(9, known), answer(2, known)]
    assert first.node.peers()[NodeId(2)] in ("up", "refused")
    watch.cancel()
    return answers
