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

from svc_cluster._pb.cluster.v1 import peer_pb2, replica_pb2
from svc_cluster.base.clock import SystemClock
from svc_cluster.cli.api_client import ApiClient, AppendRecord, decode_batch
from svc_cluster.cli.own_cluster import OwnCluster
from svc_cluster.codec.log_entry import FORMAT_VERSION, PAYLOAD_TYPE
from svc_cluster.replica.peers import PEER_METHOD, SESSION_METHOD
from tests.e2e.cluster import rounds
from tests.e2e.load import set_up
from tests.integration import hostile
from tests.integration.hostile import U64_MAX, Facts

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


def test_strangers_are_refused_before_anything_is_decoded(victim: Victim) -> None:
    """No proof, a wrong secret, another cluster's id, no such node, another data directory of a
    known node, a proof for other facts: each is refused on every method of every node."""
    facts = victim.facts

    async def main() -> None:
        accepted = hostile.proof(facts, 3)
        changed = tuple(
            (key, "1" if key == "svc-node" else value) for key, value in hostile.proof(facts, 3)
        )
        strangers = {
            "nothing": (),
            "no proof": accepted[:-1],
            "wrong secret": hostile.proof(facts, 3, secret=b"x" * 32),
            "empty secret": hostile.proof(facts, 3, secret=b""),
            "another cluster": hostile.proof(facts, 3, cluster_id="0" * 32),
            "no such node": hostile.proof(facts, 3, node_id=9),
            "another directory": hostile.proof(facts, 3, incarnation="0" * 32),
            "another's directory": hostile.proof(facts, 3, node_id=1),
            "no role": hostile.proof(facts, 3, role="admin"),
            "changed under the proof": changed,
        }
        emptied = ("another directory", "another's directory")
        envelope = peer_pb2.PeerEnvelope().SerializeToString()
        for name, metadata in strangers.items():
            for port in facts.ports.values():
                answers = await hostile.every_method(port, metadata, envelope)
                assert answers == ["UNAUTHENTICATED"] * 3, (name, answers)
                # an emptied directory is told that it is refused, and nothing else is done for it
                told = "INVALID_ARGUMENT" if name in emptied else "UNAUTHENTICATED"
                assert await hostile.form(port, metadata, envelope) == told, name
        gateway = hostile.proof(facts, 3, role="gateway", node_id=0, incarnation="ab" * 16)
        answers = await hostile.every_method(facts.ports[1], gateway, b"")
        assert answers == ["PERMISSION_DENIED", "open", "PERMISSION_DENIED"]
        assert await hostile.form(facts.ports[1], gateway, b"") == "PERMISSION_DENIED"
        await victim.still_serves()

    asyncio.run(main())


def test_pickles_are_bytes_like_any_other(victim: Victim, tmp_path: Path) -> None:
    """Pickles that would make a file when loaded, from a peer with the secret: as envelopes, as
    requests, as snapshot chunks, inside them, and as log entries that a replica takes into its
    log. No file is made."""
    marker = tmp_path / "executed"
    facts = victim.facts

    async def main() -> None:
        for bomb in hostile.bombs(marker):
            for node, port in facts.ports.items():
                impostor = hostile.proof(facts, node % 3 + 1)
                await hostile.every_method(port, impostor, bomb)
        leader, group = await victim.basin_group()
        follower = leader % 3 + 1
        impostor = hostile.proof(facts, leader)
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
                facts.ports[follower], impostor, chunk.SerializeToString()
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
    impostor = hostile.proof(victim.facts, 6 - leader - follower)
    await hostile.stream(
        victim.facts.ports[follower], PEER_METHOD, impostor, [envelope.SerializeToString()]
    )
    await victim.still_serves()


def test_lengths_that_are_too_great_harm_nobody_else(victim: Victim) -> None:
    """Frames beyond 16 MiB, a protobuf that promises more bytes than it has, 100,000 messages in
    one envelope, an entry of 5 MiB: refused, and the node goes on."""
    facts = victim.facts

    async def main() -> None:
        impostor = hostile.proof(facts, 3)
        envelope = peer_pb2.PeerEnvelope()
        for _ in range(100_000):
            envelope.messages.add(group_id=2, sender_term=1).stale_term.SetInParent()
        entry = peer_pb2.PeerEnvelope()
        message = entry.messages.add(group_id=2, sender_term=1)
        message.append_request.entries.add(term=1, payload=bytes(5 * 1024 * 1024))
        for frame, status in (
            (bytes(17 * 1024 * 1024), {"RESOURCE_EXHAUSTED"}),
            (b"\x0a\xff\xff\xff\xff\x0f", {"INVALID_ARGUMENT"}),
            (b"\x0a" + b"\xff" * 11, {"INVALID_ARGUMENT"}),
            (envelope.SerializeToString(), {"INVALID_ARGUMENT"}),
            # harms its group alone: it is dropped and counted
            (entry.SerializeToString(), {"open"}),
        ):
            answer = await hostile.stream(facts.ports[1], PEER_METHOD, impostor, [frame])
            assert answer in status, (frame[:16], answer)
        answer = await hostile.stream(facts.ports[1], SESSION_METHOD, impostor, [b"\xff" * 100])
        assert answer == "INVALID_ARGUMENT"
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
            answer = await hostile.stream(
                facts.ports[1],
                PEER_METHOD,
                hostile.proof(facts, 3),
                [envelope.SerializeToString()],
            )
            assert answer == "open", "such a message harms its group alone: it is dropped"
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
            liars = [hostile.proof(facts, node % 3 + 1) for _ in frames]
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
                liars = [hostile.proof(facts, rng.choice((1, 2, 3))) for _ in frames]
                await hostile.barrage(port, liars, frames)
            await victim.still_serves()

    asyncio.run(main())
