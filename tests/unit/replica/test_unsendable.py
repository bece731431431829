"""Entries that cannot be made into a message are their own group's trouble."""

from __future__ import annotations

import pytest

from svc_cluster.base.ids import GroupId
from svc_cluster.codec.peer_message import encode_message
from svc_cluster.raft.messages import AppendRequest, PeerMessage
from svc_cluster.replica import peer_conversation
from tests.unit.replica.test_peers import Rig, entries, heartbeat, with_rig

BAD, GOOD = 5, 6


def test_what_cannot_be_made_is_left_out_and_told_and_all_else_arrives(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Entries of the same group behind them too: it finds out what its peer lacks, as it does for a
    message that is lost. Nothing is kept of them, and one line says so however many they are."""

    def failing(group_id: GroupId, message: PeerMessage) -> bytes:
        if group_id == BAD and isinstance(message, AppendRequest) and message.previous_index == 0:
            raise ZeroDivisionError("planted")
        return encode_message(group_id, message)

    monkeypatch.setattr(peer_conversation, "encode_message", failing)

    async def body(rig: Rig) -> None:
        for _ in range(3):
            rig.queue(BAD, entries(BAD, 0, 1))
            rig.queue(GOOD, entries(GOOD, 0, 1))
        rig.queue(BAD, entries(BAD, 1, 1))
        await rig.turn()
        await rig.thaw()
        got = [(int(group), message) for _, some in rig.arrived() for group, message in some]
        assert [message for group, message in got if group == GOOD] == [entries(GOOD, 0, 1)] * 3
        assert [message for group, message in got if group == BAD] == [entries(BAD, 1, 1)]
        assert (rig.talk.waiting_bytes, rig.held) == (0, 0)
        assert rig.talk.send_failures == 3
        rig.queue(BAD, heartbeat(2))
        await rig.thaw()
        assert [message for _, some in rig.arrived() for _, message in some] == [heartbeat(2)]

    with_rig(body)
    lines = [line for line in caplog.records if "message_not_made" in line.getMessage()]
    assert len(lines) == 1
