"""Each kind of caller has its own words, and does what its role may do."""

from __future__ import annotations

import asyncio

from svc_cluster._pb.cluster.v1 import peer_pb2, replica_pb2
from svc_cluster.link.calls import Verb, encode
from svc_cluster.link.frame import CLASSES, FrameKind
from svc_cluster.model import versions
from tests.hostile.peers import words as hostile
from tests.hostile.peers.victim import SERVES_S, Victim
from tests.hostile.peers.words import Facts

TERMS_AHEAD = 1_000
"""No cluster of this suite has as many elections; a node takes over a term so far ahead."""


def test_each_kind_of_caller_has_its_own_words(victim: Victim) -> None:
    """A gateway has no part in Raft, in snapshots, in the formation; a node in a conversation of
    Raft asks for nothing; nobody who calls has answers. Each ends the conversation, and nothing
    was done: the term is what elections of the cluster itself make it."""
    facts = victim.facts

    async def main() -> None:
        _, group = await victim.basin_group()
        vote = peer_pb2.PeerEnvelope()
        promised = group["term"] + TERMS_AHEAD
        message = vote.messages.add(group_id=group["group_id"], sender_term=promised)
        message.vote_request.last_index = message.vote_request.last_term = 2**40
        ping = replica_pb2.Request(group_id=1)
        ping.ping.SetInParent()
        gateway, raft = hostile.gateway(facts), hostile.raft(facts, 3)
        service, of_raft = "in a conversation with a service", "in a conversation of Raft"
        for claim, verb, body, reason in (
            (gateway, Verb.PEER, vote.SerializeToString(), service),
            (gateway, Verb.SNAPSHOT, b"", service),
            (gateway, Verb.FORM, b"", "only nodes form a cluster"),
            (gateway, Verb.ANSWER, b"", service),
            (hostile.proof(facts, 3), Verb.PEER, vote.SerializeToString(), service),
            (hostile.proof(facts, 3), Verb.SNAPSHOT, b"", service),
            (raft, Verb.REQUEST, ping.SerializeToString(), of_raft),
            (raft, Verb.FORM, b"", of_raft),
            (raft, Verb.ANSWER, b"", of_raft),
        ):
            for port in facts.ports.values():
                answer = await hostile.talk(port, claim, (FrameKind.CALL, encode(verb, 1, body)))
                assert reason in answer, (claim, verb)
        rows = [await victim.groups_of(node) for node in facts.ports]
        terms = {row["term"] for own in rows for row in own if row["group_id"] == group["group_id"]}
        assert terms and max(terms) < promised, "a vote of a gateway was listened to"
        await victim.still_serves()

    asyncio.run(main())


STRANGE_NODE = 9


def registration(incarnation: str) -> replica_pb2.Request:
    request = replica_pb2.Request(group_id=1, deadline_ms=5000)
    request.register_node.node_id, request.register_node.incarnation = STRANGE_NODE, incarnation
    request.register_node.address = f"127.0.0.1:{STRANGE_NODE}"
    return request


def operations_of_nodes() -> list[replica_pb2.Request]:
    remove, root, leases = (replica_pb2.Request(group_id=1, deadline_ms=5000) for _ in range(3))
    remove.remove_basin.group_id = 2
    root.set_root_token.secret_hash, root.set_root_token.change_id = bytes(32), bytes(16)
    leases.hand_on_leases.term, leases.hand_on_leases.taken = 2, True
    return [registration("9" * 32), remove, root, leases]


async def asked_of_leader(facts: Facts, request: replica_pb2.Request) -> replica_pb2.Response:
    """What the catalog's leader, whichever node that is meanwhile, answers to a node."""
    async with asyncio.timeout(SERVES_S):
        while True:
            for port in facts.ports.values():
                answer = await hostile.ask(port, hostile.proof(facts, 3), request)
                assert isinstance(answer, replica_pb2.Response), answer
                if not answer.refusal.not_leader and answer.refusal.code != "unavailable":
                    answer.id = 0
                    return answer
            await asyncio.sleep(0.05)


async def basins_and_tokens(facts: Facts) -> list[replica_pb2.Response]:
    """What the catalog holds of both. Not its digest, which is chained over all of its entries:
    what gateways counted, and each election, is one too."""
    basins, tokens = (replica_pb2.Request(group_id=1, deadline_ms=5000) for _ in range(2))
    basins.list_basins.limit = 1000
    tokens.renew_lease.gateway_id, tokens.renew_lease.read_all = "a reader", True
    tokens.renew_lease.version_newest = versions.NEWEST
    answers = [await asked_of_leader(facts, request) for request in (basins, tokens)]
    assert [answer.WhichOneof("result") for answer in answers] == ["basins", "lease"], answers
    assert answers[0].basins.basins and not answers[0].basins.has_more and answers[1].lease.all_read
    return answers


def test_a_gateway_cannot_change_who_belongs_to_the_cluster(victim: Victim) -> None:
    """A gateway, or an administrator at this port, that asks to register a node, to remove a basin,
    to set the root token or for a leader's leases is refused by every node, in every class. Basins
    and tokens are the same as before, and the id of the node is still free: a node, which is not
    refused for its role, registers another data directory under it."""
    facts = victim.facts

    async def main() -> None:
        await victim.still_serves()
        before = await basins_and_tokens(facts)
        administrator = hostile.proof(facts, 1, role="administrator", node_id=0)
        for port in facts.ports.values():
            for request in operations_of_nodes():
                for claim in (hostile.gateway(facts), administrator):
                    for kind in CLASSES:
                        answer = await hostile.ask(port, claim, request, kind)
                        assert isinstance(answer, replica_pb2.Response), answer
                        assert answer.refusal.code == "permission_denied"
                        assert not answer.refusal.may_have_taken_effect
        everyday = replica_pb2.Request(group_id=1, deadline_ms=5000)
        everyday.list_basins.limit = 10
        answer = await hostile.ask(facts.ports[1], administrator, everyday)
        assert isinstance(answer, replica_pb2.Response)
        assert answer.refusal.code == "permission_denied"
        await victim.still_serves()
        assert await basins_and_tokens(facts) == before
        registered = await asked_of_leader(facts, registration("8" * 32))
        assert registered.WhichOneof("result") == "done", registered

    asyncio.run(main())
