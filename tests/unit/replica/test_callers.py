"""What a node makes of the messages of a proven caller: a peer's, and those for its service."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, cast

import pytest

from svc_cluster.base.errors import InvalidError
from svc_cluster.base.ids import GroupId, NodeId, Term
from svc_cluster.base.tasks import Tasks
from svc_cluster.codec.peer_message import encode_envelope, encode_message
from svc_cluster.link.calls import CallError, Verb, decode, encode
from svc_cluster.link.features import JOIN
from svc_cluster.link.frame import FrameKind
from svc_cluster.link.greeting import Speaker
from svc_cluster.link.handshake import HandshakeError, Identity
from svc_cluster.link.link_errors import LinkLostError
from svc_cluster.link.outbox import NoCreditError
from svc_cluster.raft.messages import PeerMessage, StaleTerm
from svc_cluster.replica.link_server import (
    CHUNKS_MAX,
    PeerCaller,
    ServiceCaller,
    caller_of,
    terms_of,
)
from svc_cluster.replica.peer_turns import TURN_MESSAGES_MAX, PeerTurns
from svc_cluster.replica.peers import RAFT
from svc_cluster.replica.roles import JOINER, NODE, CallerRights

PEER = Identity("c1", "node", NodeId(2), "i1")
ENVELOPE = encode_envelope(b"", [encode_message(GroupId(7), StaleTerm(Term(3)))], 17)


class Wire:
    """The way back to the caller."""

    def __init__(self) -> None:
        self.fault: Exception | None = None
        self.sent: list[tuple[FrameKind, int, Verb, int, bytes]] = []
        self.dealt: list[tuple[FrameKind, int]] = []

    def send(self, kind: FrameKind, flow: int, payload: bytes) -> None:
        if self.fault is not None:
            raise self.fault
        self.sent.append((kind, flow, *decode(payload)))

    def waiting_bytes(self, kind: FrameKind) -> int:
        return 0

    def give_up(self, reason: str) -> None:
        raise AssertionError(reason)

    def dealt_with(self, kind: FrameKind, size: int) -> None:
        self.dealt.append((kind, size))


class Session:
    """A service that answers nothing: what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def request(
        self, kind: FrameKind, number: int, data: bytes, byte_count: int, admission: CallerRights
    ) -> None:
        self.told.append(("request", kind, number, data, byte_count, admission))

    def cancel(self, number: int) -> None:
        self.told.append(("cancel", number))

    def left(self, kind: FrameKind, byte_count: int) -> None:
        self.told.append(("left", kind, byte_count))

    def close(self) -> None:
        self.told.append(("close",))


class Node:
    """A node's side of a conversation, with the answers in the test's hands."""

    def __init__(self) -> None:
        self.host = self
        self.receiver = self
        self.service = self
        self.refusal: str | None = None
        self.foreign = False
        self.removed = False
        self.heard: list[tuple[NodeId, list[tuple[GroupId, PeerMessage]], int | None]] = []
        self.chunks: list[tuple[NodeId, bytes]] = []
        self.gate = asyncio.Event()
        self.opened = Session()
        self.named: list[str] = []
        self.peer_turns = PeerTurns(asyncio.get_running_loop())
        self.fence = 0

    def speaker(self) -> Speaker:
        return Speaker(Identity("c1", "node", NodeId(1), "i1"))

    def check_member(self, identity: Identity) -> None:
        if self.foreign:
            raise HandshakeError("not a member")

    def check_caller(self, speaker: Speaker) -> None:
        self.check_member(speaker.identity)

    def is_removed(self, identity: Identity) -> bool:
        return self.removed

    def check_peer(self, identity: Identity) -> None:
        self.check_member(identity)
        if self.refusal is not None and identity.role == "node":
            raise HandshakeError(self.refusal)

    def peer_envelope(self, sender: NodeId, envelope: Any) -> None:
        self.heard.append((sender, envelope.messages, envelope.wall_ms))

    async def chunk(self, sender: NodeId, chunk: bytes) -> bytes:
        self.chunks.append((sender, chunk))
        await self.gate.wait()
        return b"taken " + chunk

    def session(self, caller: Any, name: str) -> Session:
        self.named.append(name)
        return self.opened

    class services:
        class version:
            @staticmethod
            def check(speaker: Speaker) -> None: ...

            @staticmethod
            def gateway_talks(incarnation: str, newest: int, *, begins: bool) -> None: ...

    def check_raft(self, speaker: Speaker) -> None:
        self.check_peer(speaker.identity)

    class former:
        class formation:
            is_formed = False

    def form(self, identity: Identity, report: bytes) -> bytes:
        if report == b"bad":
            raise HandshakeError("the report is another node's")
        return b"own"


def with_caller(
    body: Callable[[Node, Any, Wire], Coroutine[Any, Any, None]],
    *,
    features: tuple[str, ...] = (RAFT,),
    identity: Identity = PEER,
) -> None:
    async def main() -> None:
        node, wire, tasks = Node(), Wire(), Tasks()
        caller = caller_of(cast(Any, node), Speaker(identity, features), wire, tasks)
        await body(node, caller, wire)
        await tasks.cancel_all()

    asyncio.run(main())


async def settle() -> None:
    for _ in range(4):
        await asyncio.sleep(0)


def test_what_a_caller_may_have_is_shared_by_where_they_call_from() -> None:
    """A node has proved which one it is; of the others no more than their role is proved, so that
    another incarnation is not another caller. In one process there is no address."""

    async def body(node: Node, caller: PeerCaller, wire: Wire) -> None:
        gateway = Identity("c1", "gateway", NodeId(0), "i7")
        for identity, address in (
            (PEER, "10.0.0.2"),
            (gateway, "10.0.0.3"),
            (replace(gateway, incarnation="i8"), "10.0.0.3"),
            (gateway, ""),
        ):
            caller_of(cast(Any, node), Speaker(identity, ()), wire, Tasks(), address)
        assert node.named == ["node 2", "gateway 10.0.0.3", "gateway 10.0.0.3", "gateway i7"]

    with_caller(body)


def test_envelopes_of_a_peer_are_taken_and_cost_nothing_afterwards() -> None:
    async def body(node: Node, caller: PeerCaller, wire: Wire) -> None:
        payload = encode(Verb.PEER, 0, ENVELOPE)
        for kind in (FrameKind.URGENT, FrameKind.BULK):
            caller.message(kind, payload)
        assert node.heard == [(NodeId(2), [(GroupId(7), StaleTerm(Term(3)))], 17)] * 2
        assert wire.dealt == [(FrameKind.URGENT, len(payload)), (FrameKind.BULK, len(payload))]
        assert wire.sent == []

    with_caller(body)


def test_all_peers_together_have_one_bound_of_messages_a_turn() -> None:
    """Each says more than a turn takes: all of it is heard, in order, one peer after the other; an
    envelope is held on its sender's credit until its last message is dealt with."""

    async def body(node: Node, caller: PeerCaller, wire: Wire) -> None:
        third = replace(PEER, node_id=NodeId(3))
        wires = {NodeId(2): wire, NodeId(3): Wire()}
        other = PeerCaller(cast(Any, node), third, wires[NodeId(3)], Tasks())
        count = 2 * TURN_MESSAGES_MAX + 3
        said = [(GroupId(n + 1), StaleTerm(Term(3))) for n in range(count)]
        envelope = encode_envelope(b"", [encode_message(*each) for each in said], 17)
        for each in (caller, other):
            each.message(FrameKind.URGENT, encode(Verb.PEER, 0, envelope))
        turns = [sum(len(heard[1]) for heard in node.heard)]
        assert not any(each.dealt for each in wires.values())
        while not all(each.dealt for each in wires.values()):
            before = sum(len(heard[1]) for heard in node.heard)
            await asyncio.sleep(0)
            turns.append(sum(len(heard[1]) for heard in node.heard) - before)
        assert max(turns) == TURN_MESSAGES_MAX, "two peers do not make a turn twice as long"
        for sender in wires:
            heard = [one for who, some, _ in node.heard if who == sender for one in some]
            assert heard == said
        assert all(len(each.dealt) == 1 for each in wires.values())

    with_caller(body)


@pytest.mark.parametrize(
    "payload",
    [
        encode(Verb.PEER, 0, b"\xff\xff\xff"),
        encode(Verb.REQUEST, 1, b""),
        encode(Verb.ANSWER, 1, b""),
        encode(Verb.FORM, 1, b""),
        b"\x63" * 9,
        b"",
    ],
)
def test_what_is_none_of_rafts_ends_the_conversation(payload: bytes) -> None:
    """It is never skipped, and nothing of it is taken."""

    async def body(node: Node, caller: PeerCaller, wire: Wire) -> None:
        with pytest.raises(CallError):
            caller.message(FrameKind.CALL, payload)
        await settle()
        assert (node.heard, node.chunks, wire.sent, wire.dealt) == ([], [], [], [])

    with_caller(body)


def test_a_peer_whose_place_was_taken_is_heard_no_more() -> None:
    """Its conversation began before another data directory took its place: the next message of any
    sort ends it."""

    async def body(node: Node, caller: PeerCaller, wire: Wire) -> None:
        caller.message(FrameKind.URGENT, encode(Verb.PEER, 0, ENVELOPE))
        node.refusal = "another data directory has taken its place"
        for verb in (Verb.PEER, Verb.SNAPSHOT, Verb.CANCEL):
            with pytest.raises(CallError, match="another data directory"):
                caller.message(FrameKind.URGENT, encode(verb, 1, ENVELOPE))
        await settle()
        assert len(node.heard) == 1 and node.chunks == []

    with_caller(body)


def test_a_conversation_of_before_the_fence_is_heard_no_more() -> None:
    """Nor is what had arrived in it and waited for its turn."""

    async def body(node: Node, caller: PeerCaller, wire: Wire) -> None:
        many = encode_envelope(
            b"", [encode_message(GroupId(7), StaleTerm(Term(3)))] * (TURN_MESSAGES_MAX + 1), 17
        )
        caller.message(FrameKind.URGENT, encode(Verb.PEER, 0, many))
        heard = sum(len(messages) for _, messages, _ in node.heard)
        assert heard == TURN_MESSAGES_MAX
        node.fence += 1
        await settle()
        assert sum(len(messages) for _, messages, _ in node.heard) == heard
        for verb in (Verb.PEER, Verb.SNAPSHOT, Verb.CANCEL):
            with pytest.raises(CallError, match="has changed"):
                caller.message(FrameKind.URGENT, encode(verb, 1, ENVELOPE))
        assert node.chunks == []

    with_caller(body)


def test_chunks_are_taken_beside_each_other_and_cost_until_then() -> None:
    """Each is answered under its number. One more than CHUNKS_MAX ends the conversation, and is not
    taken."""

    async def body(node: Node, caller: PeerCaller, wire: Wire) -> None:
        for number in range(1, CHUNKS_MAX + 1):
            caller.message(FrameKind.TRANSFER, encode(Verb.SNAPSHOT, number, b"%d" % number))
        await settle()
        assert node.chunks == [(NodeId(2), b"%d" % n) for n in range(1, CHUNKS_MAX + 1)]
        assert wire.dealt == []
        with pytest.raises(CallError):
            caller.message(FrameKind.TRANSFER, encode(Verb.SNAPSHOT, 99, b"x"))
        node.gate.set()
        await settle()
        assert wire.sent == [
            (FrameKind.CALL, 0, Verb.ANSWER, n, b"taken %d" % n) for n in range(1, CHUNKS_MAX + 1)
        ]
        assert wire.dealt == [(FrameKind.TRANSFER, 10)] * CHUNKS_MAX
        caller.message(FrameKind.TRANSFER, encode(Verb.SNAPSHOT, 100, b"x"))
        await settle()
        assert wire.sent[-1][3:] == (100, b"taken x"), "what is taken leaves its place"
        assert len(node.chunks) == CHUNKS_MAX + 1

    with_caller(body)


def test_a_sender_that_gives_a_chunk_up_keeps_its_conversation() -> None:
    """It says that it no longer waits: Raft's messages go on arriving, the chunk is taken."""

    async def body(node: Node, caller: PeerCaller, wire: Wire) -> None:
        caller.message(FrameKind.TRANSFER, encode(Verb.SNAPSHOT, 1, b"x"))
        await settle()
        caller.message(FrameKind.URGENT, encode(Verb.CANCEL, 1))
        caller.message(FrameKind.URGENT, encode(Verb.PEER, 0, ENVELOPE))
        assert len(node.heard) == 1
        assert wire.dealt[0] == (FrameKind.URGENT, 9), "its bytes are given back"
        node.gate.set()
        await settle()
        assert wire.sent == [(FrameKind.CALL, 0, Verb.ANSWER, 1, b"taken x")]

    with_caller(body)


@pytest.mark.parametrize("fault", [NoCreditError(), LinkLostError(sent=False)])
def test_an_answer_to_a_chunk_that_cannot_leave_is_dropped(fault: Exception) -> None:
    """The sender begins again; the place of the chunk is free."""

    async def body(node: Node, caller: PeerCaller, wire: Wire) -> None:
        node.gate.set()
        wire.fault = fault
        for number in range(2 * CHUNKS_MAX):
            caller.message(FrameKind.TRANSFER, encode(Verb.SNAPSHOT, number, b"x"))
            await settle()
        assert wire.sent == [] and len(wire.dealt) == 2 * CHUNKS_MAX

    with_caller(body)


GATEWAY = Identity("c1", "gateway", NodeId(0), "")


def test_requests_and_cancellations_reach_the_service() -> None:
    """With the class, the bytes of the whole message and what the caller may ask now."""

    async def body(node: Node, caller: ServiceCaller, wire: Wire) -> None:
        caller.message(FrameKind.CALL, encode(Verb.REQUEST, 5, b"abc"))
        caller.message(FrameKind.URGENT, encode(Verb.CANCEL, 5))
        caller.room(FrameKind.BULK, 77)
        caller.link_down()
        assert node.opened.told == [
            ("request", FrameKind.CALL, 5, b"abc", 12, CallerRights("gateway")),
            ("cancel", 5),
            ("left", FrameKind.BULK, 77),
            ("close",),
        ]
        assert wire.dealt == [(FrameKind.URGENT, 9)], "the service gives back what requests cost"
        for verb in (Verb.ANSWER, Verb.PEER, Verb.SNAPSHOT, Verb.FORM):
            with pytest.raises(CallError):
                caller.message(FrameKind.CALL, encode(verb, 6, b"x"))

    with_caller(body, features=(), identity=GATEWAY)


def test_a_node_that_was_replaced_is_admitted_to_its_refusals_only() -> None:
    """As `roles` says; and it learns of the formation all the same."""

    async def body(node: Node, caller: ServiceCaller, wire: Wire) -> None:
        node.refusal = "another data directory has taken its place"
        caller.message(FrameKind.CALL, encode(Verb.REQUEST, 5, b"abc"))
        assert node.opened.told[0][5] == CallerRights("node", node.refusal)
        caller.message(FrameKind.CALL, encode(Verb.FORM, 6, b"report"))
        assert wire.sent == [(FrameKind.CALL, 0, Verb.ANSWER, 6, b"own")]
        assert wire.dealt == [(FrameKind.CALL, 15)]

    with_caller(body, features=())


@pytest.mark.parametrize("fault", [NoCreditError(), LinkLostError(sent=False)])
def test_an_answer_about_the_formation_that_cannot_leave_is_dropped(fault: Exception) -> None:
    """Who asked asks again; the conversation is not harmed."""

    async def body(node: Node, caller: ServiceCaller, wire: Wire) -> None:
        wire.fault = fault
        caller.message(FrameKind.CALL, encode(Verb.FORM, 6, b"report"))
        wire.fault = None
        caller.message(FrameKind.CALL, encode(Verb.FORM, 7, b"report"))
        assert [row[3] for row in wire.sent] == [7]
        with pytest.raises(CallError, match="another node's"):
            caller.message(FrameKind.CALL, encode(Verb.FORM, 8, b"bad"))

    with_caller(body, features=())


def test_who_may_talk_raft_is_decided_before_anything_is_heard() -> None:
    """A gateway never, a stranger never, a replaced data directory only to the service."""

    async def main() -> None:
        node = Node()
        check = terms_of(cast(Any, node), b"secret").check
        raft = Speaker(PEER, (RAFT,))
        check(raft)
        check(Speaker(GATEWAY))
        with pytest.raises(HandshakeError, match="only nodes talk Raft"):
            check(Speaker(GATEWAY, (RAFT,)))
        node.refusal = "replaced"
        check(replace(raft, features=()))
        with pytest.raises(HandshakeError, match="replaced"):
            check(raft)
        node.foreign = True
        for speaker in (raft, replace(raft, features=())):
            with pytest.raises(HandshakeError, match="not a member"):
                check(speaker)

    asyncio.run(main())


def test_a_node_that_comes_may_ask_to_be_let_in_alone_until_it_is() -> None:
    """In the same conversation it is a node like any other then; one that was removed hears that,
    whatever it names."""

    async def body(node: Node, caller: PeerCaller, wire: Wire) -> None:
        node.refusal = "the catalog here does not name it"

        def right(*features: str) -> CallerRights:
            return ServiceCaller(cast(Any, node), PEER, wire, features)._admission()

        comes = ServiceCaller(cast(Any, node), PEER, wire, (JOIN,))
        assert comes._admission() == CallerRights(JOINER, joins_as=(2, "i1"))
        assert right() == CallerRights(NODE, node.refusal)
        node.refusal = None
        assert comes._admission() == CallerRights(NODE)
        node.removed = True
        for rights in (right(JOIN), right()):
            with pytest.raises(InvalidError, match="removed from the cluster"):
                rights.check("join_cluster")

    with_caller(body)
