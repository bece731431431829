"""In which order a replica does what others wait for, and what only it needs."""

from __future__ import annotations

import asyncio

from svc_cluster.base.ids import LogIndex, NodeId
from svc_cluster.raft.group import Message
from svc_cluster.raft.messages import AppendRequest, AppendResponse, PeerMessage
from tests.at_once import encode_entry
from tests.unit.replica.leading import Rig, played


def test_entries_leave_before_the_own_log_is_framed() -> None:
    """When a leader hands its entries to the followers, nothing of them waits for its own disk yet;
    behind the turn it does, and nothing is acknowledged before that is synced."""

    async def body(rig: Rig) -> None:
        waiting: list[int] = []

        def look(message: PeerMessage) -> None:
            if isinstance(message, AppendRequest) and message.entries:
                waiting.append(len(rig.disk.queue))

        rig.peers.on_sent = look
        answers = rig.submit()
        while not waiting:
            await asyncio.sleep(0)
        assert waiting == [0, 0]
        assert len(rig.disk.queue) == 1
        engine = rig.group.engine
        response = AppendResponse(rig.term, LogIndex(engine.last_index + 1), True, False, 99)
        for _ in range(2):
            rig.group.step(Message(NodeId(3), response))
            await asyncio.sleep(0)
        assert answers == []
        assert engine.commit_index < engine.last_index
        await rig.settle()
        assert [error for _, error in answers] == [None]

    played(body)


def test_a_follower_speaks_before_it_applies() -> None:
    """An entry is committed when a follower's sync of it ends. By the time what it says of that has
    left, at the end of the turn, nothing is applied; soon behind that it is."""

    async def body(rig: Rig) -> None:
        loop = asyncio.get_running_loop()
        behind = rig.group.engine.last_index
        applied: list[int] = []

        def look(message: PeerMessage) -> None:
            if isinstance(message, AppendResponse) and message.next_index == behind + 2:
                loop.call_soon(lambda: applied.append(rig.replica.state.applied_index))

        rig.peers.on_sent = look
        await rig.follow(2, encode_entry([]), behind=behind, commit_index=behind + 1)
        assert applied == [behind]
        assert rig.replica.state.applied_index == behind + 1

    played(body)


def test_a_leader_answers_in_the_turn_of_the_commit() -> None:
    """The follower's answer that commits an entry is dealt with in one turn, down to what the
    client is told."""

    async def body(rig: Rig) -> None:
        answers = await rig.append()
        engine = rig.group.engine
        response = AppendResponse(rig.term, LogIndex(engine.last_index + 1), True, False, 99)
        rig.group.step(Message(NodeId(3), response))
        assert answers == []
        await asyncio.sleep(0)
        assert [error for _, error in answers] == [None]

    played(body)
