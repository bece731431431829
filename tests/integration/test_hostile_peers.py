"""Whoever reaches a node's port: strangers are refused before anything is decoded, and even one
who holds the secret can at most depose a leader. Nothing is ever unpickled."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc_cluster._pb.cluster.v1 import link_pb2, peer_pb2, replica_pb2
from svc_cluster.base.clock import SystemClock
from svc_cluster.cli.api_client import ApiClient, AppendRecord, decode_batch
from svc_cluster.cli.own_cluster import OwnCluster
from svc_cluster.codec.log_entry import FORMAT_VERSION, PAYLOAD_TYPE
from svc_cluster.link.acceptor import UNPROVEN_MAX
from svc_cluster.link.calls import Verb, encode
from svc_cluster.link.credit import encode_window
from svc_cluster.link.frame import CLASSES, HEADER, MORE, Kind
from svc_cluster.link.greeting import NONCE_BYTES, make_welcome
from svc_cluster.raft.group import ENTRY_BYTES_MAX
from tests.e2e.cluster import rounds
from tests.e2e.load import set_up
from tests.integration import hostile
from tests.integration.hostile import U64_MAX, Facts
from tests.integration.stranger import OPEN, Claim, Stranger, frame

BASIN = "hostile-basin"
STREAM = "s"
READY_S = 90.0
SERVES_S = 60.0


class Victim:
    """A cluster, what was acknowledged on it, and the processes it began with."""

    def __init__(self, cluster: OwnCluster, directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory
        self.facts: Facts = hostile.facts_of(cluster)
        self.pids = cluster.pids()
        self.bodies: list[bytes] = []

    async def still_serves(self) -> None:
        """No process ended, an append is acknowledged, everything acknowledged is read back, and
        the replicas are equal."""
        assert self.cluster.pids() == self.pids, self.cluster.log_tail()
        api = ApiClient(self.cluster.url)
        try:
            await self._append(api, b"after the attack %d" % len(self.bodies))
            answer = await api.insist(
                SystemClock(),
                lambda: api.read(BASIN, STREAM, "seq_num=0&count=1000"),
                accept=frozenset({200}),
                deadline_s=SERVES_S,
            )
            assert [record.body for record in decode_batch(answer.body)] == self.bodies
        finally:
            api.close()
        await self._equal()
        assert self.cluster.pids() == self.pids, self.cluster.log_tail()
        assert b"refused to unpickle" not in b"".join(
            path.read_bytes() for path in self.cluster.directory.glob("*.log")
        ), "somebody tried to unpickle"

    async def fill(self, stream: str, byte_count: int) -> None:
        """A stream with at least so many bytes of records."""
        await set_up(self.cluster.url, BASIN, [stream])
        api = ApiClient(self.cluster.url)
        body = bytes(256 * 1024)
        try:
            for place in range(byte_count // len(body)):
                await api.insist(
                    SystemClock(),
                    lambda place=place: api.append(
                        BASIN, stream, [AppendRecord(body)], match_seq_num=place
                    ),
                    accept=frozenset({200, 412}),
                    deadline_s=SERVES_S,
                )
        finally:
            api.close()

    async def _append(self, api: ApiClient, body: bytes) -> None:
        """Exactly once, whatever became of the first tries."""
        expected = len(self.bodies)
        answer = await api.insist(
            SystemClock(),
            lambda: api.append(BASIN, STREAM, [AppendRecord(body)], match_seq_num=expected),
            accept=frozenset({200, 412}),
            deadline_s=SERVES_S,
        )
        if answer.status == 200:
            assert answer.json()["start"]["seq_num"] == expected
        else:
            assert answer.json()["seq_num_mismatch"] == expected + 1
        self.bodies.append(body)

    async def _equal(self) -> None:
        async with asyncio.timeout(SERVES_S):
            while True:
                rows: dict[int, list[tuple[int, str]]] = {}
                for groups in (await self.cluster.groups()).values():
                    for group in groups:
                        rows.setdefault(group["group_id"], []).append(
                            (group["applied_index"], group["digest"])
                        )
                if rows and all(len(seen) == 3 and len(set(seen)) == 1 for seen in rows.values()):
                    return
                await asyncio.sleep(0.05)

    async def groups_of(self, node: int) -> list[dict[str, Any]]:
        return (await self.cluster.groups())[node]

    async def basin_group(self) -> tuple[int, dict[str, Any]]:
        """The basin's leader and its row."""
        leader = await self.cluster.wait_leader(BASIN)
        rows = await self.groups_of(leader)
        return leader, next(row for row in rows if row["basin"] == BASIN)


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    directory = tmp_path_factory.mktemp("hostile")
    cluster = OwnCluster(directory / "cluster")
    cluster.start()
    try:
        asyncio.run(cluster.wait_ready(READY_S))
        asyncio.run(set_up(cluster.url, BASIN, [STREAM]))
        yield Victim(cluster, directory)
    finally:
        cluster.stop()


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


def test_whoever_proves_nothing_costs_nothing(victim: Victim) -> None:
    """15 MiB in one frame, in frames of every class, in claims of 4 KiB, half a claim: from as
    many callers as may be unproven, the node's memory does not grow by what they send; those that
    are not refused for what they say are refused when their time is up."""
    facts = victim.facts
    megabytes = 15 * 1024 * 1024
    pid = victim.cluster.node_pids()[1]

    async def one(words: bytes) -> str:
        async with await Stranger.call(facts.ports[1]) as stranger:
            stranger.say(words)
            return await stranger.gone()

    async def main() -> None:
        before = hostile.forget_peak(pid)
        attacks = {
            frame(Kind.GREETING, bytes(megabytes)): "are allowed",
            frame(Kind.CALL, bytes(megabytes)): "are allowed",
            frame(Kind.CALL, bytes(4096)) * (megabytes // 4096): "before the greetings",
            frame(Kind.GREETING, bytes(4096)) * (megabytes // 4096): "not a greeting",
            frame(Kind.PING, b"?"): "before the greetings",
            frame(7, b""): "unknown kind",
            b"GET / HTTP/1.1\r\nhost: x\r\n\r\n": "are allowed",
            b"": "closed",
            HEADER.pack(4096, Kind.GREETING, 0, 0, 0) + bytes(4000): "closed",
        }
        for words, reason in attacks.items():
            answers = await asyncio.gather(*(one(words) for _ in range(7)))
            for answer in answers:
                assert reason in answer or answer == "closed", (words[:20], answer)
            assert any(reason in answer for answer in answers), (words[:20], answers)
        held = [await Stranger.call(facts.ports[1]) for _ in range(UNPROVEN_MAX)]
        async with await Stranger.call(facts.ports[2]) as elsewhere:
            assert await elsewhere.prove(hostile.gateway(facts)) == OPEN
        for stranger in held:
            assert await stranger.gone() == "closed"
            await stranger.__aexit__()
        grown = hostile.memory_bytes(pid) - before
        assert grown < 2 * megabytes, f"{grown} bytes for callers that had proved nothing"
        await victim.still_serves()

    asyncio.run(main())


def test_pickles_are_bytes_like_any_other(victim: Victim, tmp_path: Path) -> None:
    """Pickles that would make a file when loaded, from a peer with the secret: as greetings, as
    envelopes, as requests, as snapshot chunks, inside them, and as log entries that a replica
    takes into its log. No file is made."""
    marker = tmp_path / "executed"
    facts = victim.facts

    async def main() -> None:
        for bomb in hostile.bombs(marker):
            for node, port in facts.ports.items():
                impostor = hostile.proof(facts, node % 3 + 1)
                await hostile.every_way(port, impostor, bomb)
                await hostile.form(port, impostor, bomb)
                async with await Stranger.call(port) as stranger:
                    stranger.greet(bomb)
                    await stranger.gone()
        leader, group = await victim.basin_group()
        follower = leader % 3 + 1
        for bomb in hostile.bombs(marker):
            chunk = replica_pb2.SnapshotChunk(
                group_id=group["group_id"],
                log_index=group["last_index"] + 10_000,
                term=2**20,
                sender_term=group["term"],
            )
            chunk.keys.append(bomb)
            chunk.values.append(bomb)
            answer = await hostile.snapshot_chunk(
                facts.ports[follower], hostile.raft(facts, leader), chunk.SerializeToString()
            )
            assert answer == "accepted", "the chunk did not get as far as the store"
        await victim.still_serves()
        bomb = hostile.bombs(marker)[-1]
        # not a version to come: what a newer release may have written parks its group (ADR 0017)
        for head in (b"", bytes([PAYLOAD_TYPE, FORMAT_VERSION]), bytes([PAYLOAD_TYPE, 0]), b"\1"):
            await _poison(victim, head + bomb)
        assert not marker.exists()

    asyncio.run(main())


def test_the_pickles_of_these_tests_would_work(tmp_path: Path) -> None:
    """The control: each of them, loaded by an interpreter of its own, makes its file."""
    marker = tmp_path / "executed"
    program = "import pickle, sys; pickle.load(sys.stdin.buffer)"
    for bomb in hostile.bombs(marker):
        subprocess.run([sys.executable, "-c", program], input=bomb, check=True)
        marker.unlink()


async def _poison(victim: Victim, payload: bytes) -> None:
    """Become the leader of a follower's next term and give it an entry. If that one is elected
    afterwards, the entry is committed everywhere, and everywhere it must come to nothing."""
    leader, group = await victim.basin_group()
    follower = leader % 3 + 1
    envelope = peer_pb2.PeerEnvelope()
    message = envelope.messages.add(group_id=group["group_id"], sender_term=group["term"] + 1)
    request = message.append_request
    request.previous_index = group["last_index"]
    request.previous_term = group["term"]
    request.commit_index = group["commit_index"]
    request.entries.add(term=group["term"] + 1, payload=payload)
    impostor = hostile.raft(victim.facts, 6 - leader - follower)
    await hostile.talk(
        victim.facts.ports[follower], impostor, hostile.peer_message(envelope.SerializeToString())
    )
    await victim.still_serves()


def test_lengths_that_are_too_great_harm_nobody_else(victim: Victim) -> None:
    """A protobuf that promises more bytes than it has, 100,000 messages in one envelope, an entry
    that is too long: refused, and the node goes on."""
    facts = victim.facts

    async def main() -> None:
        impostor = hostile.raft(facts, 3)
        envelope = peer_pb2.PeerEnvelope()
        for _ in range(100_000):
            envelope.messages.add(group_id=2, sender_term=1).stale_term.SetInParent()
        entry = peer_pb2.PeerEnvelope()
        message = entry.messages.add(group_id=2, sender_term=1)
        message.append_request.entries.add(term=1, payload=bytes(ENTRY_BYTES_MAX + 1))
        for data, answer in (
            (b"\x0a\xff\xff\xff\xff\x0f", "not a protobuf envelope"),
            (b"\x0a" + b"\xff" * 11, "not a protobuf envelope"),
            (envelope.SerializeToString(), "an envelope of 100000 messages"),
            # harms its group alone: it is dropped and counted
            (entry.SerializeToString(), OPEN),
        ):
            words = await hostile.talk(facts.ports[1], impostor, hostile.peer_message(data))
            assert words == answer, data[:16]
        # one request that cannot be read harms no other
        unread = hostile.request_message(b"\xff" * 100)
        assert await hostile.talk(facts.ports[1], hostile.gateway(facts), unread) == OPEN
        await victim.still_serves()

    asyncio.run(main())


def series(sizes: list[int], kind: Kind = Kind.CALL, number: int = 1) -> bytes:
    """The beginning of a message in frames of these sizes; its end does not come."""
    return b"".join(frame(kind, bytes(size), series=number, flags=MORE) for size in sizes)


MIB = 1024 * 1024
FAULTS: dict[str, tuple[bytes, str]] = {
    "a frame too long": (HEADER.pack(MIB + 1, Kind.CALL, 0, 0, 0), "1048576 are allowed"),
    "the longest length there is": (HEADER.pack(2**32 - 1, Kind.BULK, 0, 0, 0), "are allowed"),
    "an unknown kind": (frame(99, b"x"), "unknown kind"),
    "an unknown flag": (frame(Kind.CALL, b"x", flags=2), "unknown flags"),
    "a number that is not zero": (frame(Kind.CALL, b"x", zero=1), "unknown flags"),
    "an empty message": (frame(Kind.CALL, b""), "without content"),
    "a series of windows": (frame(Kind.WINDOW, bytes(9), series=1), "a series of frames of kind"),
    "a series without a number": (frame(Kind.CALL, b"x", flags=MORE), "without a number"),
    "an end without a beginning": (frame(Kind.CALL, b"x", series=9), "no beginning"),
    "a series of two classes": (
        series([9]) + frame(Kind.BULK, b"x", series=1),
        "a series of two classes",
    ),
    "a message too long": (series([MIB] * 3 + [1]), "a message of more than"),
    "an urgent message too long": (frame(Kind.URGENT, bytes(64 * 1024 + 1)), "a message of"),
    "more than the credit": (
        b"".join(series([MIB], Kind.TRANSFER, number) for number in range(1, 6)),
        "more than the credit",
    ),
    "more series than there can be": (
        b"".join(series([1], number=number) for number in range(1, 200)),
        "series at once",
    ),
    "a series of crumbs": (series([2] * 5000), "frames"),
    "a window that cannot be true": (
        frame(Kind.WINDOW, encode_window(Kind.CALL, 1)),
        "1 bytes dealt with of 0",
    ),
    "a window of no class": (frame(Kind.WINDOW, b"\x20" + bytes(8)), "a window of the class"),
    "a window of another length": (frame(Kind.WINDOW, b"x"), "a window of 1 bytes"),
    "a ping that is none": (frame(Kind.PING, b"x"), "a ping that is none"),
    "a message without a verb": (frame(Kind.CALL, b"\x01"), "a message of 1 bytes"),
    "the verb 0": (frame(Kind.CALL, bytes(9)), "the unknown verb 0"),
    "a verb to come": (frame(Kind.CALL, b"\x07" + bytes(8)), "the unknown verb 7"),
    "the last verb there is": (frame(Kind.URGENT, b"\xff" * 9), "the unknown verb 255"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_not_of_the_protocol_ends_the_conversation(victim: Victim, fault: str) -> None:
    """Of a gateway, and of a node that talks Raft: with a sentence that says what was wrong."""
    words, reason = FAULTS[fault]

    async def main() -> None:
        for claim in (hostile.gateway(victim.facts), hostile.raft(victim.facts, 3)):
            async with await Stranger.call(victim.facts.ports[1]) as stranger:
                assert await stranger.prove(claim) == OPEN
                stranger.say(words)
                assert reason in await stranger.gone()
        assert victim.cluster.pids() == victim.pids, victim.cluster.log_tail()

    asyncio.run(main())


def test_each_kind_of_caller_has_its_own_words(victim: Victim) -> None:
    """A gateway has no part in Raft, in snapshots, in the formation; a node in a conversation of
    Raft asks for nothing; nobody who calls has answers. Each ends the conversation, and nothing
    was done."""
    facts = victim.facts

    async def main() -> None:
        _, group = await victim.basin_group()
        vote = peer_pb2.PeerEnvelope()
        message = vote.messages.add(group_id=group["group_id"], sender_term=group["term"] + 1)
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
                answer = await hostile.talk(port, claim, (Kind.CALL, encode(verb, 1, body)))
                assert reason in answer, (claim, verb)
        rows = [await victim.groups_of(node) for node in facts.ports]
        terms = {row["term"] for own in rows for row in own if row["group_id"] == group["group_id"]}
        assert terms == {group["term"]}, "a vote of a gateway was listened to"
        await victim.still_serves()

    asyncio.run(main())


def operations_of_nodes() -> list[replica_pb2.Request]:
    register, remove, root = (replica_pb2.Request(group_id=1, deadline_ms=5000) for _ in range(3))
    register.register_node.node_id, register.register_node.incarnation = 9, "9" * 32
    register.register_node.address = "127.0.0.1:9"
    remove.remove_basin.group_id = 2
    root.set_root_token.secret_hash, root.set_root_token.change_id = bytes(32), bytes(16)
    return [register, remove, root]


def test_a_gateway_cannot_change_who_belongs_to_the_cluster(victim: Victim) -> None:
    """A gateway, or an administrator at this port, that asks to register a node, to remove a basin
    or to set the root token is refused by every node, in every class, and the catalog is the same
    as before. A node is not refused for its role."""
    facts = victim.facts

    async def catalog() -> set[str]:
        return {
            row["digest"]
            for node in facts.ports
            for row in await victim.groups_of(node)
            if row["group_id"] == 1
        }

    async def main() -> None:
        await victim.still_serves()
        before = await catalog()
        assert len(before) == 1
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
        assert await catalog() == before
        harmless = replica_pb2.Request(group_id=1, deadline_ms=5000)
        harmless.remove_basin.group_id = 10**9
        for port in facts.ports.values():
            answer = await hostile.ask(port, hostile.proof(facts, 3), harmless)
            assert isinstance(answer, replica_pb2.Response)
            assert answer.refusal.code != "permission_denied", "the control"

    asyncio.run(main())


def test_a_number_is_asked_for_once(victim: Victim) -> None:
    """A second request under the number of one that is not answered ends the conversation; one
    that was answered, or was cancelled, has given its number back. A cancellation of what was
    never asked is nothing."""
    facts = victim.facts

    async def main() -> None:
        _, group = await victim.basin_group()
        wait = replica_pb2.Request(group_id=group["group_id"], deadline_ms=60_000)
        wait.read.stream, wait.read.wait_ms = STREAM, 60_000
        wait.read.start_value = 10**6
        wait.read.clamp = True
        ping = replica_pb2.Request(group_id=1)
        ping.ping.SetInParent()
        leader = await victim.cluster.wait_leader(BASIN)
        async with await Stranger.call(facts.ports[leader]) as stranger:
            assert await stranger.prove(hostile.gateway(facts)) == OPEN
            for _ in range(3):
                stranger.ask(1, ping)
            stranger.message(Kind.URGENT, encode(Verb.CANCEL, 77))
            stranger.ask(2, wait)
            stranger.message(Kind.CALL, encode(Verb.CANCEL, 2))
            stranger.ask(2, wait)
            assert await stranger.listens() == OPEN
            assert 2 not in stranger.answers, "it waits for what comes"
            stranger.ask(2, ping)
            assert "the number 2" in await stranger.gone()
        await victim.still_serves()

    asyncio.run(main())


@pytest.mark.parametrize("lies", [False, True])
def test_a_caller_that_never_reads_costs_a_bounded_amount(victim: Victim, lies: bool) -> None:
    """It asks for reads of 1 MiB, for small things in masses, as a node for the formation, and
    takes nothing of it, or even says to have dealt with all of it: the node's memory stays within
    the credits, and others are served meanwhile."""
    facts = victim.facts

    async def main() -> None:
        _, group = await victim.basin_group()
        leader = await victim.cluster.wait_leader(BASIN)
        pid = victim.cluster.node_pids()[leader]
        await victim.fill("large", 4 * MIB)
        read = replica_pb2.Request(group_id=group["group_id"], deadline_ms=20_000)
        read.read.stream, read.read.clamp = "large", True
        small = replica_pb2.Request(group_id=group["group_id"], deadline_ms=20_000)
        small.check_tail.stream = STREAM
        report = hostile.report(3, facts.incarnations[3])
        port = facts.ports[leader]
        honest = hostile.memory_bytes(pid, "VmRSS")
        peak = hostile.forget_peak(pid)
        async with (
            await Stranger.call(port, deaf=True) as reads,
            await Stranger.call(port, deaf=True) as masses,
            await Stranger.call(port, deaf=True) as forms,
        ):
            for stranger, claim in (
                (reads, hostile.gateway(facts)),
                (masses, hostile.gateway(facts)),
                (forms, hostile.proof(facts, 3)),
            ):
                stranger.greet(stranger.claim(claim))
            for number in range(2000):
                reads.ask(number, read)
                if lies:
                    guess = encode_window(Kind.BULK, MIB * (number + 1) // 4)
                    reads.say(frame(Kind.WINDOW, guess))
            for number in range(60_000):
                masses.ask(number, small, Kind.CALL if number % 5 else Kind.URGENT)
                if number % 2000 == 0:
                    await asyncio.sleep(0)
            for number in range(20_000):
                forms.message(Kind.CALL, encode(Verb.FORM, number, report))
            for stranger in (reads, masses, forms):
                await stranger.said()
            await victim.still_serves()
            grown = hostile.memory_bytes(pid) - max(honest, peak)
        assert grown < 400 * MIB, f"{grown // MIB} MiB for callers that read nothing"
        await victim.still_serves()

    asyncio.run(main())


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
        for seed in range(rounds("HOSTILE_ROUNDS", 4)):
            rng = random.Random(seed)
            for node, port in facts.ports.items():
                groups = await victim.groups_of(node)
                frames = [hostile.random_envelope(rng, groups) for _ in range(60)]
                frames += [hostile.mutated(rng, frame) for frame in frames[:15]]
                liars = [hostile.raft(facts, rng.choice((1, 2, 3))) for _ in frames]
                await hostile.barrage(port, liars, frames)
            await victim.still_serves()

    asyncio.run(main())
