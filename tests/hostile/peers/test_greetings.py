"""Whoever reaches a node's port and has proved nothing is refused before anything is decoded."""

from __future__ import annotations

import asyncio
from typing import Any

from svc_cluster._pb.cluster.v1 import link_pb2, peer_pb2, replica_pb2
from svc_cluster.link.greeting import NONCE_BYTES, make_welcome
from tests.hostile.peers import words as hostile
from tests.hostile.peers.stranger import OPEN, Claim, Stranger
from tests.hostile.peers.victim import Victim
from tests.hostile.peers.words import Facts


def strangers(facts: Facts) -> dict[str, Claim]:
    """Callers without a right to anything."""
    return {
        "wrong secret": hostile.proof(facts, 3, secret=b"x" * 32),
        "empty secret": hostile.proof(facts, 3, secret=b""),
        "another cluster": hostile.proof(facts, 3, cluster_id="0" * 32),
        "no cluster": hostile.proof(facts, 3, cluster_id=""),
        "no such node": hostile.proof(facts, 3, node_id=9),
        "no node": hostile.proof(facts, 3, node_id=0),
        "a gateway with the id of a node": hostile.proof(facts, 3, role="gateway", node_id=1000),
        "no incarnation": hostile.proof(facts, 3, incarnation=""),
        "no role": hostile.proof(facts, 3, role="admin"),
    }


REFUSALS = {
    "the caller does not know the cluster secret",
    "the caller belongs to another cluster",
    "the caller does not say who it is",
    "no node of this id belongs to the cluster",
}


def test_strangers_are_refused_before_anything_is_decoded(victim: Victim) -> None:
    """A wrong secret, another cluster's id, no such node: each is refused by every node, whatever
    it wants; and so is whoever has the secret of a gateway and wants to talk Raft."""
    facts = victim.facts

    async def main() -> None:
        envelope = peer_pb2.PeerEnvelope().SerializeToString()
        for name, claim in strangers(facts).items():
            for port in facts.ports.values():
                for answer in await hostile.every_way(port, claim, envelope):
                    assert answer in REFUSALS, (name, answer)
                assert await hostile.form(port, claim, envelope) in REFUSALS, name
        for port in facts.ports.values():
            claim = hostile.gateway(facts)
            answers = await hostile.every_way(port, claim, b"")
            assert answers == ["only nodes talk Raft"] * 2 + [OPEN]
            assert await hostile.form(port, claim, b"") == "only nodes form a cluster"
        await victim.still_serves()

    asyncio.run(main())


def test_another_directory_of_a_known_node_is_told_so_and_no_more(victim: Victim) -> None:
    """An emptied disk, and a node with the directory of another: no word of Raft, no request is
    done, and the formation is the one thing that it is answered about."""
    facts = victim.facts
    asked = replica_pb2.Request(group_id=1, deadline_ms=5000)
    asked.register_node.node_id, asked.register_node.incarnation = 3, "0" * 32

    async def main() -> None:
        for claim in (
            hostile.proof(facts, 3, incarnation="0" * 32),
            hostile.proof(facts, 3, node_id=1),
        ):
            for port in facts.ports.values():
                envelope = peer_pb2.PeerEnvelope().SerializeToString()
                raft, chunk, _ = await hostile.every_way(port, claim, envelope)
                assert "another data directory" in raft, raft
                assert chunk == raft
                answer = await hostile.ask(port, claim, asked)
                assert isinstance(answer, replica_pb2.Response), answer
                assert answer.refusal.code == "unavailable"
                assert "another data directory" in answer.refusal.message
                assert "formation" in await hostile.form(port, claim, b"\xff")
                identity = claim.speaker.identity
                told = hostile.report(identity.node_id, identity.incarnation)
                lie = hostile.report(2, facts.incarnations[2])
                assert await hostile.form(port, claim, told) == "answered"
                assert await hostile.form(port, claim, lie) == "the report is another node's"
        await victim.still_serves()

    asyncio.run(main())


def test_a_proof_is_worth_nothing_a_second_time(victim: Victim) -> None:
    """Overheard on another connection, made for another version, taken from the other side's
    mouth, empty, or of other facts than those beside it: none of them lets in."""
    facts = victim.facts
    port = facts.ports[1]
    claim = hostile.gateway(facts)

    async def said(greeting: bytes) -> str:
        async with await Stranger.call(port) as stranger:
            stranger.greet(greeting)
            return await stranger.gone()

    def changed(original: bytes, **fields: Any) -> bytes:
        greeting = link_pb2.Greeting.FromString(original)
        for name, value in fields.items():
            setattr(greeting.claim, name, value)
        return greeting.SerializeToString()

    async def main() -> None:
        secretless = "the caller does not know the cluster secret"
        async with await Stranger.call(port) as honest:
            overheard = honest.claim(claim)
            honest.greet(overheard)
            assert await honest.listens() == OPEN
            assert await said(overheard) == secretless
            assert await honest.listens() == OPEN, "the one it belongs to goes on"
            honest.greet(overheard)
            assert await honest.gone() == "a greeting in an open conversation"
        other = hostile.proof(facts, 3).speaker.identity
        speaker = link_pb2.Speaker(
            cluster_id=other.cluster_id, role="node", node_id=3, incarnation=other.incarnation
        )
        for fields in (
            {"proof": b""},
            {"version": 0},
            {"version": 2},
            {"nonce": b""},
            {"nonce": bytes(NONCE_BYTES)},
            {"speaker": speaker.SerializeToString()},
        ):
            async with await Stranger.call(port) as stranger:
                stranger.greet(changed(stranger.claim(claim), **fields))
                assert await stranger.gone() == secretless, fields
        async with await Stranger.call(port) as stranger:
            greeting = link_pb2.Greeting.FromString(stranger.challenge)
            nonce = greeting.challenge.nonce
            mirrored = make_welcome(facts.secret, nonce, nonce, 1, claim.speaker)
            welcome = link_pb2.Greeting.FromString(mirrored).welcome
            mirror = link_pb2.Greeting()
            mirror.claim.version, mirror.claim.nonce = 1, nonce
            mirror.claim.speaker, mirror.claim.proof = welcome.speaker, welcome.proof
            stranger.greet(mirror.SerializeToString())
            assert await stranger.gone() == secretless
        async with await Stranger.call(port) as stranger:
            greeting = link_pb2.Greeting.FromString(stranger.challenge)
            nonce = greeting.challenge.nonce
            mirrored = make_welcome(facts.secret, nonce, nonce, 1, claim.speaker)
        assert "out of turn" in await said(mirrored)
        await victim.still_serves()

    asyncio.run(main())
