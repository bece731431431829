"""Even a peer that holds the secret can at most depose a leader."""

from __future__ import annotations

import asyncio
import random

import pytest

from svc_cluster._pb.cluster.v1 import peer_pb2
from tests.hostile.peers import words as hostile
from tests.hostile.peers.stranger import OPEN
from tests.hostile.peers.victim import Victim
from tests.hostile.peers.words import U64_MAX
from tests.hostile.scale import SCALE


@pytest.mark.parametrize("number", [2**62 + 1, 2**63, U64_MAX])
def test_numbers_out_of_range_are_not_listened_to(victim: Victim, number: int) -> None:
    """Terms and indexes beyond 2^62, in every kind of message: not listened to."""
    facts = victim.facts

    async def main() -> None:
        _, group = await victim.basin_group()
        for name in hostile.BODIES:
            envelope = peer_pb2.PeerEnvelope()
            message = envelope.messages.add(group_id=group["group_id"], sender_term=number)
            getattr(message, name).SetInParent()
            answer = await hostile.talk(
                facts.ports[1],
                hostile.raft(facts, 3),
                hostile.peer_message(envelope.SerializeToString()),
            )
            assert answer == OPEN, "such a message harms its group alone: it is dropped"
        await victim.still_serves()

    asyncio.run(main())


@pytest.mark.parametrize("term", [2**40, 2**61, 2**62])
def test_a_term_far_ahead_cannot_use_up_all_terms(victim: Victim, term: int) -> None:
    """Messages of a peer with the secret whose terms are almost the last ones there are: an
    election must still be possible afterwards."""
    facts = victim.facts

    async def main() -> None:
        _, group = await victim.basin_group()
        frames = []
        for name in hostile.BODIES:
            envelope = peer_pb2.PeerEnvelope()
            for group_id in (1, group["group_id"]):
                message = envelope.messages.add(group_id=group_id, sender_term=term)
                getattr(message, name).SetInParent()
            frames.append(envelope.SerializeToString())
        for node, port in facts.ports.items():
            liars = [hostile.raft(facts, node % 3 + 1) for _ in frames]
            await hostile.barrage(port, liars, frames)
        await victim.still_serves()

    asyncio.run(main())


def test_random_raft_messages_of_a_peer_with_the_secret_do_no_harm(victim: Victim) -> None:
    """Well-formed envelopes with senseless terms, indexes and entries, to all nodes in the name of
    all nodes: a leader may fall, no process does, and no replica comes to differ."""
    facts = victim.facts

    async def main() -> None:
        for seed in range(4 * SCALE):
            rng = random.Random(seed)
            for node, port in facts.ports.items():
                groups = await victim.groups_of(node)
                frames = [hostile.random_envelope(rng, groups) for _ in range(60)]
                frames += [hostile.mutated(rng, frame) for frame in frames[:15]]
                liars = [hostile.raft(facts, rng.choice((1, 2, 3))) for _ in frames]
                await hostile.barrage(port, liars, frames)
            await victim.still_serves()

    asyncio.run(main())
