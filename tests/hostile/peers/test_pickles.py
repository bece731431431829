"""Nothing that a peer says is ever unpickled."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from svc_cluster._pb.cluster.v1 import peer_pb2, replica_pb2
from svc_cluster.codec.log_entry import FORMAT_VERSION, PAYLOAD_TYPE
from tests.hostile.peers import words as hostile
from tests.hostile.peers.stranger import Stranger
from tests.hostile.peers.victim import Victim


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
