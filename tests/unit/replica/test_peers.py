"""What goes to one peer, in which order, and what it costs when the peer stands still."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from svc_cluster.base.ids import GroupId, LogIndex, NodeId, Term
from svc_cluster.base.log_ops import LogEntry
from svc_cluster.codec.peer_message import encode_message
from svc_cluster.link.calls import Verb, decode, encode
from svc_cluster.link.conversation import Conversation
from svc_cluster.link.credit import CREDIT_BYTES, MESSAGE_BYTES_MAX
from svc_cluster.link.frame import FrameKind
from svc_cluster.link.link_errors import LinkLostError
from svc_cluster.raft.messages import AppendRequest, PeerMessage, StaleTerm, VoteGranted
from svc_cluster.replica import peer_conversation
from svc_cluster.replica.peer_conversation import ROOM_BYTES, PeerConversation
from svc_cluster.replica.peers import LinkPeers
from svc_cluster.replica.portions import PORTION_BYTES, portions
from tests.at_once import decode_envelope
from tests.unit.link.test_conversation import SECRET, Side, exchange

ENTRY_BYTES = 300_000
CLOCK = 1_700_000_000_000


def entries(group: int, behind: int, count: int, size: int = ENTRY_BYTES) -> AppendRequest:
    """`count` entries of term 3 that follow upon the index `behind`."""
    found = tuple(
        LogEntry(LogIndex(behind + number), Term(3), b"\x09" * size)
        for number in range(1, count + 1)
    )
    return AppendRequest(Term(3), LogIndex(behind), Term(3), LogIndex(0), found, 1)


def heartbeat(behind: int) -> AppendRequest:
    return AppendRequest(Term(3), LogIndex(behind), Term(3), LogIndex(0), (), 1)


class Rig:
    """A peer at the end of a real conversation, which the test freezes and thaws, and what it got:
    the turn's messages of each envelope, by class."""

    def __init__(self) -> None:
        self.near = Side()
        self.far = Side(acceptor=True)
        exchange(self.near, self.far)
        self.is_up = True
        self.addresses: list[str] = []
        self.closed = False
        self.knocks = 0
        self.rooms = 0
        self.talk = PeerConversation(asyncio.get_running_loop(), lambda: CLOCK)
        self.talk.on_room = self._room
        self.talk.attach(self)
        self.talk.calls.link_up(self.far.speaker)
        self.near.room = self.talk.room  # type: ignore[method-assign]

    def _room(self) -> None:
        self.rooms += 1

    # -- the part of a connector

    def send(self, kind: FrameKind, flow: int, payload: bytes) -> None:
        if not self.is_up:
            raise LinkLostError(sent=False)
        self.near.talk.send(kind, flow, payload)

    @property
    def held_bytes(self) -> int:
        return self.near.talk.held_bytes

    def knock(self) -> None:
        self.knocks += 1

    def has_credit(self, kind: FrameKind, size: int) -> bool:
        return not self.is_up or self.near.talk.outbox.credits[kind].allows(size)

    def under_way(self, kind: FrameKind) -> int:
        return self.near.talk.outbox.credits[kind].under_way if self.is_up else 0

    def is_waiting(self, kind: FrameKind, flow: int) -> bool:
        return self.near.talk.is_waiting(kind, flow)

    def dealt_with(self, kind: FrameKind, size: int) -> None:
        self.near.talk.dealt_with(kind, size)

    def redirect(self, address: str, other: str = "") -> None:
        self.addresses.append(address)

    def reset(self, reason: str) -> None:
        self.is_up = False

    async def close(self) -> None:
        self.is_up, self.closed = False, True

    # -- the test's

    def queue(self, group: int, message: PeerMessage) -> None:
        self.talk.send(GroupId(group), message)

    async def turn(self) -> None:
        """What was queued leaves for the conversation."""
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def thaw(self) -> None:
        """The peer reads until there is nothing left to read."""
        for _ in range(20):
            exchange(self.near, self.far)
            await self.turn()

    def arrived(self) -> list[tuple[FrameKind, list[tuple[GroupId, PeerMessage]]]]:
        """What the peer got since the last look, in its order."""
        got, self.far.got = self.far.got, []
        found = []
        for kind, payload in got:
            verb, number, body = decode(payload)
            assert (verb, number) == (Verb.PEER, 0)
            envelope = decode_envelope(body)
            assert envelope.wall_ms == CLOCK and envelope.faults == []
            found.append((kind, envelope.messages))
        return found

    @property
    def held(self) -> int:
        """Everything that is kept on behalf of the peer."""
        return self.talk.waiting_bytes + self.near.talk.held_bytes


def with_rig(body: Callable[[Rig], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        await body(Rig())

    asyncio.run(main())


def test_a_conversation_is_the_real_one() -> None:
    """The rig has no frame, credit or limit of its own."""

    async def body(rig: Rig) -> None:
        assert type(rig.near.talk) is Conversation
        assert rig.near.talk._terms.secret == SECRET

    with_rig(body)


def test_the_small_messages_of_a_turn_share_an_envelope_ahead_of_all_entries() -> None:
    """Votes and heartbeats of every group leave first, in their order; then the entries of each
    group in messages of their own."""

    async def body(rig: Rig) -> None:
        rig.queue(1, entries(1, 0, 2))
        rig.queue(2, StaleTerm(Term(3)))
        rig.queue(3, heartbeat(9))
        rig.queue(4, entries(4, 0, 1))
        rig.queue(5, VoteGranted(Term(4)))
        await rig.turn()
        await rig.thaw()
        assert rig.arrived() == [
            (
                FrameKind.URGENT,
                [
                    (GroupId(2), StaleTerm(Term(3))),
                    (GroupId(3), heartbeat(9)),
                    (GroupId(5), VoteGranted(Term(4))),
                ],
            ),
            (FrameKind.BULK, [(GroupId(4), entries(4, 0, 1))]),
            (FrameKind.BULK, [(GroupId(1), entries(1, 0, 2))]),
        ]

    with_rig(body)


def test_heartbeats_of_ten_thousand_groups_leave_in_messages_within_the_bound() -> None:
    """None is lost, and no message is longer than its class allows."""

    async def body(rig: Rig) -> None:
        for group in range(10_000):
            rig.queue(group, heartbeat(group))
        await rig.turn()
        exchange(rig.near, rig.far)
        assert all(
            len(payload) <= MESSAGE_BYTES_MAX[FrameKind.URGENT] for _, payload in rig.far.got
        )
        messages = [each for _, some in rig.arrived() for each in some]
        assert messages == [(GroupId(group), heartbeat(group)) for group in range(10_000)]
        assert rig.talk.send_failures == 0

    with_rig(body)


def test_a_heartbeat_overtakes_bulk_but_for_entries_that_it_refers_to() -> None:
    """Behind four megabytes of a group that have not left: a heartbeat that refers to what the peer
    has comes first; one that refers to those entries comes behind them, because the peer would
    refuse it; one of another group waits for nothing."""

    async def body(rig: Rig) -> None:
        rig.queue(1, entries(1, 10, 6))
        await rig.turn()
        rig.queue(1, heartbeat(10))
        rig.queue(1, heartbeat(16))
        rig.queue(2, heartbeat(500))
        await rig.turn()
        await rig.thaw()
        arrived = [(kind, each) for kind, some in rig.arrived() for each in some]
        assert arrived[:2] == [
            (FrameKind.URGENT, (GroupId(1), heartbeat(10))),
            (FrameKind.URGENT, (GroupId(2), heartbeat(500))),
        ]
        parts = [(FrameKind.BULK, (GroupId(1), part)) for part in portions(entries(1, 10, 6))]
        assert arrived[2:] == [*parts, (FrameKind.BULK, (GroupId(1), heartbeat(16)))]
        rig.queue(1, heartbeat(16))
        await rig.turn()
        await rig.thaw()
        assert rig.arrived() == [(FrameKind.URGENT, [(GroupId(1), heartbeat(16))])], "no more bulk"

    with_rig(body)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], [0]),
        ([1], [1]),
        ([PORTION_BYTES], [1]),
        ([PORTION_BYTES, 1], [1, 1]),
        ([PORTION_BYTES // 2] * 5, [2, 2, 1]),
        ([2_000_000, 1, 1, 2_000_000], [1, 2, 1]),
    ],
)
def test_entries_are_split_into_portions_that_follow_each_other(
    sizes: list[int], expected: list[int]
) -> None:
    """All of them, in order, each behind the one before, at most PORTION_BYTES or one entry."""
    found = tuple(
        LogEntry(LogIndex(number), Term(number), bytes([9]) * size)
        for number, size in enumerate(sizes, start=6)
    )
    message = AppendRequest(Term(90), LogIndex(5), Term(4), LogIndex(2), found, 8)
    parts = list(portions(message))
    assert [len(part.entries) for part in parts] == expected
    assert tuple(entry for part in parts for entry in part.entries) == found
    previous = (5, 4)
    for part in parts:
        assert (part.previous_index, part.previous_term) == previous
        assert (part.sender_term, part.commit_index, part.read_sequence) == (90, 2, 8)
        if part.entries:
            previous = part.entries[-1].log_index, part.entries[-1].term
        assert len(part.entries) <= 1 or sum(len(e.payload) for e in part.entries) <= PORTION_BYTES


def test_a_frozen_peer_costs_its_credit_and_one_batch_of_a_turn() -> None:
    """Two hundred groups, each with a megabyte whenever there is room, beside a peer that reads
    nothing: none is asked for more than fits, heartbeats go on, and each group that had no room is
    told exactly once when there is some."""

    async def body(rig: Rig) -> None:
        batch = entries(1, 0, 3)
        batch_bytes = 3 * (ENTRY_BYTES + 32) + 96
        taken = 0
        for number in range(200):
            had_room = rig.talk.has_room
            if had_room:
                rig.queue(number, batch)
                taken += 1
            rig.queue(number, heartbeat(0))
            await rig.turn()
            assert rig.talk.waiting_bytes == 0, "it fits the credit, and waits nowhere else"
            assert rig.under_way(FrameKind.BULK) <= ROOM_BYTES + batch_bytes
        assert taken == ROOM_BYTES // (3 * ENTRY_BYTES) + 1
        assert (rig.talk.has_room, rig.rooms) == (False, 0)
        assert rig.talk.send_failures == 0
        await rig.thaw()
        assert (rig.talk.has_room, rig.rooms) == (True, 1)
        bulk = [
            group for kind, some in rig.arrived() for group, _ in some if kind is FrameKind.BULK
        ]
        assert sorted(bulk) == list(range(taken))
        rig.queue(1, entries(1, 3, 1))
        await rig.turn()
        await rig.thaw()
        assert rig.rooms == 1, "there was room all the time"

    with_rig(body)


def test_a_frozen_peer_has_one_heartbeat_of_each_group_waiting_for_it() -> None:
    """Ticks and reads go on while the peer stands still: what waits for credit does not grow, and
    what arrives in the end is each group's entries and behind them the newest heartbeat."""

    async def body(rig: Rig) -> None:
        for group in range(12):
            rig.queue(group, entries(group, 0, 3))
        rounds: list[int] = []
        for sequence in range(2, 162):
            for group in range(12):
                rig.queue(group, replace(heartbeat(3), read_sequence=sequence))
            await rig.turn()
            rounds.append(rig.talk.waiting_bytes)
        assert rounds[-1] == rounds[0] > 0
        await rig.thaw()
        arrived = [each for _, some in rig.arrived() for each in some]
        waited = 0
        for group in range(12):
            first, *beats = [message for sender, message in arrived if sender == group]
            assert first == entries(group, 0, 3)
            sequences = [beat.read_sequence for beat in beats if isinstance(beat, AppendRequest)]
            assert sequences == sorted(sequences) and sequences[-1] == 161
            waited += len(sequences) == 1
        assert waited >= 5, "those whose entries had no credit"
        assert (rig.talk.waiting_bytes, rig.held) == (0, 0)

    with_rig(body)


def test_what_has_no_credit_waits_and_leaves_in_order_group_by_group() -> None:
    """Twelve groups hand over a megabyte each in one turn: what exceeds the credit is held here and
    counted, and all of it arrives once the peer reads, each group's in order; room is told once."""

    async def body(rig: Rig) -> None:
        for group in range(12):
            rig.queue(group, entries(group, 0, 3))
            rig.queue(group, heartbeat(3))
        most = 12 * (3 * (ENTRY_BYTES + 32) + 2 * 96)
        await rig.turn()
        assert 0 < rig.talk.waiting_bytes <= most - CREDIT_BYTES[FrameKind.BULK] + 1_000_000
        assert rig.held <= most
        assert not rig.talk.has_room
        await rig.thaw()
        arrived = [(kind, each) for kind, some in rig.arrived() for each in some]
        assert {kind for kind, _ in arrived} == {FrameKind.BULK}
        for group in range(12):
            of_group = [message for _, (sender, message) in arrived if sender == group]
            assert of_group == [entries(group, 0, 3), heartbeat(3)]
        assert (rig.talk.waiting_bytes, rig.held, rig.rooms) == (0, 0, 1)

    with_rig(body)


def test_what_waits_for_credit_is_encoded_when_it_may_leave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However often heartbeats of other groups, and the peer's reports, are a reason to try again:
    each message of entries is encoded once."""
    encoded: list[int] = []

    def counting(group_id: GroupId, message: PeerMessage) -> bytes:
        if isinstance(message, AppendRequest) and message.entries:
            encoded.append(group_id)
        return encode_message(group_id, message)

    monkeypatch.setattr(peer_conversation, "encode_message", counting)

    async def body(rig: Rig) -> None:
        for group in range(12):
            rig.queue(group, entries(group, 0, 3))
        for _ in range(50):
            rig.queue(99, heartbeat(1))
            await rig.turn()
        assert 0 < len(encoded) < 12
        assert rig.talk.waiting_bytes > 0
        for _ in range(10):
            await rig.thaw()
        assert encoded == list(range(12))
        assert rig.talk.waiting_bytes == 0
        assert rig.talk.send_failures == 0

    with_rig(body)


def test_heartbeats_to_a_frozen_peer_are_dropped_at_its_credit() -> None:
    """The group repeats what matters: nothing else is dropped, nothing kept, and it is counted."""

    async def body(rig: Rig) -> None:
        sent = 0
        while rig.talk.send_failures == 0:
            for group in range(1000):
                rig.queue(group, heartbeat(0))
            await rig.turn()
            sent += 1
            assert rig.held <= CREDIT_BYTES[FrameKind.URGENT]
        assert sent > 10
        rig.queue(1, entries(1, 0, 1))
        await rig.turn()
        await rig.thaw()
        assert any(kind is FrameKind.BULK for kind, _ in rig.arrived())

    with_rig(body)


def test_the_end_of_a_link_lets_everything_go() -> None:
    """Nothing that waited goes to the next conversation; nobody is told of room that a new
    conversation has anyway; what is sent while there is none is dropped and counted; heartbeats of
    the next one wait for nothing."""

    async def body(rig: Rig) -> None:
        for group in range(12):
            rig.queue(group, entries(group, 0, 3))
        await rig.turn()
        rig.queue(99, StaleTerm(Term(3)))
        assert rig.talk.waiting_bytes > 0
        call = rig.talk.calls.chunk(b"chunk")
        rig.is_up = False
        rig.talk.link_down()
        assert rig.talk.waiting_bytes == 0 and rig.talk.has_room
        with pytest.raises(LinkLostError) as lost:
            await call
        assert lost.value.sent
        rig.talk.room(FrameKind.BULK, 1)
        await rig.turn()
        assert rig.rooms == 0
        assert rig.talk.send_failures == 0
        sent = rig.talk.sent_bytes
        rig.queue(1, entries(1, 0, 3))
        rig.queue(1, StaleTerm(Term(3)))
        await rig.turn()
        assert (rig.talk.send_failures, rig.talk.waiting_bytes) == (2, 0)
        assert rig.talk.sent_bytes == sent
        rig.near, rig.far = Side(), Side(acceptor=True)
        exchange(rig.near, rig.far)
        rig.near.room = rig.talk.room  # type: ignore[method-assign]
        rig.is_up = True
        rig.queue(1, heartbeat(3))
        await rig.turn()
        await rig.thaw()
        assert rig.arrived() == [(FrameKind.URGENT, [(GroupId(1), heartbeat(3))])]

    with_rig(body)


def test_each_peer_has_a_conversation_of_its_own() -> None:
    """A frozen peer takes nobody else's room, and its room is told for it alone; a peer that is not
    one has no bound."""

    async def main() -> None:
        rigs: dict[int, Rig] = {2: Rig(), 3: Rig()}
        events: dict[tuple[NodeId, bool], Any] = {}

        def open_link(peer: NodeId, is_raft: bool, told: Any) -> Any:
            events[peer, is_raft] = told
            return rigs[peer]

        peers = LinkPeers(
            loop=asyncio.get_running_loop(),
            peers=(NodeId(2), NodeId(3)),
            clock=lambda: CLOCK,
            open_link=open_link,
        )
        told: list[tuple[str, int]] = []
        peers.start()
        peers.connect(
            lambda peer: told.append(("up", peer)),
            lambda peer: told.append(("down", peer)),
            lambda peer: told.append(("room", peer)),
        )
        assert sorted(events) == [(n, is_raft) for n in (2, 3) for is_raft in (False, True)]
        for peer, rig in rigs.items():
            link = events[NodeId(peer), True]
            rig.near.room = link.room  # type: ignore[method-assign]
            link.link_up(rig.far.speaker)
        for group in range(3):
            peers.send(NodeId(2), GroupId(group), entries(group, 0, 3))
        await asyncio.sleep(0)
        assert not peers.has_room(NodeId(2))
        assert peers.has_room(NodeId(3)) and peers.has_room(NodeId(9))
        assert told == [("up", 2), ("up", 3)]
        assert peers.sent_bytes[NodeId(2)] > 0 == peers.sent_bytes[NodeId(3)]
        await rigs[2].thaw()
        assert told[2:] == [("room", 2)]
        assert peers.has_room(NodeId(2))
        chunk = asyncio.ensure_future(peers.call(NodeId(3), b"chunk"))
        await asyncio.sleep(0)
        exchange(rigs[3].near, rigs[3].far)
        assert rigs[3].far.got[-1] == (FrameKind.TRANSFER, encode(Verb.SNAPSHOT, 1, b"chunk"))
        events[NodeId(3), True].message(FrameKind.CALL, encode(Verb.ANSWER, 1, b"taken"))
        assert await chunk == b"taken"
        report = asyncio.ensure_future(peers.form(NodeId(2), b"report"))
        with pytest.raises(ConnectionError):
            await report  # the conversation with its service is not up
        events[NodeId(2), True].link_down()
        assert told[3:] == [("down", 2)]
        await peers.close()
        assert not rigs[2].is_up and not rigs[3].is_up

    asyncio.run(main())


def test_nodes_come_and_go_and_are_followed_to_where_they_are() -> None:
    """A node that is met has both conversations at once, is sent to, and is told of; one that left
    hears nothing more, and whoever asks it is told so."""

    async def main() -> None:
        rigs: dict[int, Rig] = {2: Rig(), 4: Rig()}
        opened: list[tuple[int, bool, str]] = []
        addresses = {NodeId(2): "two:1"}
        told: list[tuple[str, int]] = []

        def open_link(peer: NodeId, is_raft: bool, events: Any) -> Any:
            opened.append((peer, is_raft, addresses[peer]))
            if is_raft:
                events.link_up(rigs[peer].far.speaker)
            return rigs[peer]

        peers = LinkPeers(
            loop=asyncio.get_running_loop(),
            peers=(NodeId(2),),
            clock=lambda: CLOCK,
            open_link=open_link,
            addresses=addresses,
        )
        peers.start()
        peers.connect(
            lambda peer: told.append(("up", peer)),
            lambda peer: told.append(("down", peer)),
            lambda peer: told.append(("room", peer)),
        )
        peers.knock(NodeId(2))
        peers.knock(NodeId(4))  # it is not known yet
        assert (rigs[2].knocks, rigs[4].knocks) == (2, 0), "for Raft and for its service"
        session = peers.meet(NodeId(4), "four:1")
        assert peers.meet(NodeId(4), "four:1") is session is peers.sessions[NodeId(4)]
        assert opened[2:] == [(4, False, "four:1"), (4, True, "four:1")]
        assert told == [("up", 2), ("up", 4)]
        assert rigs[4].addresses == [] == rigs[2].addresses
        peers.meet(NodeId(2), "two:9")
        assert rigs[2].addresses == ["two:9", "two:9"] and addresses[NodeId(2)] == "two:9"
        peers.leave(NodeId(4))
        peers.leave(NodeId(4))
        await asyncio.sleep(0)
        assert rigs[4].closed and not rigs[2].closed
        assert NodeId(4) not in peers.sessions
        peers.send(NodeId(4), GroupId(1), heartbeat(3))
        assert NodeId(4) not in peers.sent_bytes
        for asked in (peers.call(NodeId(4), b"chunk"), peers.form(NodeId(4), b"report")):
            with pytest.raises(ConnectionError, match="no such node"):
                await asked
        await peers.close()
        assert rigs[2].closed

    asyncio.run(main())
