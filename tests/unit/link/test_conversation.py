"""Two sides of a conversation, their bytes passed from hand to hand."""

from __future__ import annotations

import pytest

from svc_cluster.base.ids import NodeId
from svc_cluster.link.conversation import Conversation, Terms
from svc_cluster.link.credit import CREDIT_BYTES, MESSAGE_BYTES_MAX, encode_window
from svc_cluster.link.frame import CLASSES, HEADER, MORE, PAYLOAD_BYTES_MAX, FrameKind, encode_frame
from svc_cluster.link.greeting import GREETING_BYTES_MAX, Speaker
from svc_cluster.link.handshake import HandshakeError, Identity
from svc_cluster.link.inbox import SERIES_MAX
from svc_cluster.link.outbox import SERIES_NUMBER_MAX, SLICE_BYTES, NoCreditError

SECRET = b"s" * 32


class Side:
    """One end: remembers what it was told, and deals with messages only when asked to."""

    def __init__(
        self,
        role: str = "node",
        *,
        acceptor: bool = False,
        secret: bytes = SECRET,
        cluster: str = "c1",
        unwanted: str | None = None,
        nonce: bytes | None = None,
    ) -> None:
        node = NodeId(0 if role != "node" else (2 if acceptor else 1))
        self.speaker = Speaker(Identity(cluster, role, node, "i1"), ("scrub",), 12, 40)
        self.peer: Speaker | None = None
        self.got: list[tuple[FrameKind, bytes]] = []
        self.rooms: list[tuple[FrameKind, int]] = []
        self.deals = True

        def check(speaker: Speaker) -> None:
            if unwanted is not None:
                raise HandshakeError(unwanted)

        if nonce is None:
            nonce = (b"a" if acceptor else b"c") * 32
        self.talk = Conversation(Terms(secret, self.speaker, check), self, nonce, acceptor=acceptor)

    def opened(self, speaker: Speaker) -> None:
        self.peer = speaker

    def room(self, kind: FrameKind, size: int) -> None:
        self.rooms.append((kind, size))

    def message(self, kind: FrameKind, payload: bytes) -> None:
        self.got.append((kind, payload))
        if self.deals:
            self.talk.dealt_with(kind, len(payload))


def exchange(a: Side, b: Side, *, piece: int = 1 << 30) -> None:
    """Pass everything on until both are silent, in pieces of so many bytes."""
    moved = True
    while moved:
        moved = False
        for giver, taker in ((a, b), (b, a)):
            data = b"".join(giver.talk.take())
            for start in range(0, len(data), piece):
                taker.talk.receive(data[start : start + piece])
            moved |= bool(data)


def open_pair(**options: object) -> tuple[Side, Side]:
    caller, acceptor = Side("node"), Side("node", acceptor=True)
    exchange(caller, acceptor)
    assert caller.talk.is_open and acceptor.talk.is_open
    return caller, acceptor


@pytest.mark.parametrize("piece", [1, 7, 1 << 30])
def test_both_sides_prove_themselves_and_say_what_they_can(piece: int) -> None:
    """However the bytes are cut, each side ends open and knows who the other is, with its features
    and the command kinds that it applies."""
    caller, acceptor = Side("gateway"), Side("node", acceptor=True)
    exchange(caller, acceptor, piece=piece)
    assert caller.talk.is_open and acceptor.talk.is_open
    assert acceptor.peer == caller.speaker
    assert caller.peer == acceptor.speaker
    assert acceptor.peer is not None and acceptor.peer.basin_commands == 12


@pytest.mark.parametrize(
    ("caller", "reason"),
    [
        (Side("node", secret=b"other"), "the caller does not know the cluster secret"),
        (Side("node", cluster="c2"), "the caller belongs to another cluster"),
        (Side("visitor"), "the caller does not say who it is"),
    ],
)
def test_who_cannot_prove_itself_is_refused_and_told_why(caller: Side, reason: str) -> None:
    """Both sides end as refused, the caller with the acceptor's reason, and nobody was told that
    a conversation had begun."""
    acceptor = Side("node", acceptor=True)
    exchange(caller, acceptor)
    assert acceptor.talk.end == reason and acceptor.talk.refused
    assert caller.talk.end == reason and caller.talk.refused
    assert caller.peer is None and acceptor.peer is None


def test_an_acceptor_that_does_not_know_the_secret_is_refused() -> None:
    """A caller does not talk to a stranger that answers under the right address, although the
    stranger lets everybody in."""
    caller = Side("node")
    stranger = Side("node", acceptor=True, secret=b"other")
    stranger.talk._terms = Terms(SECRET, stranger.speaker, lambda _: None)
    exchange_one = b"".join(stranger.talk.take())
    caller.talk.receive(exchange_one)
    stranger.talk.receive(b"".join(caller.talk.take()))
    stranger.talk._terms = Terms(b"other", stranger.speaker, lambda _: None)
    welcome = bytearray(b"".join(stranger.talk.take()))
    welcome[-1] ^= 1
    caller.talk.receive(bytes(welcome))
    assert caller.talk.end == "the other side does not know the cluster secret"
    assert caller.talk.refused and caller.peer is None


def test_a_proof_that_was_overheard_proves_nothing_the_next_time() -> None:
    """The bytes of a good caller, sent again to an acceptor with another nonce, are refused."""
    caller, acceptor = Side("node"), Side("node", acceptor=True)
    caller.talk.receive(b"".join(acceptor.talk.take()))
    overheard = b"".join(caller.talk.take())
    later = Side("node", acceptor=True, nonce=b"b" * 32)
    later.talk.take()
    later.talk.receive(overheard)
    assert later.talk.end == "the caller does not know the cluster secret"
    assert later.peer is None


def test_a_proven_caller_that_is_not_wanted_hears_the_reason() -> None:
    caller, acceptor = Side("node"), Side("node", acceptor=True, unwanted="no such node here")
    exchange(caller, acceptor)
    assert caller.talk.end == "no such node here" and caller.talk.refused


@pytest.mark.parametrize("kind", list(FrameKind))
def test_nothing_large_is_read_from_a_side_that_has_proved_nothing(kind: FrameKind) -> None:
    """The header alone ends the conversation: no byte of the payload is kept."""
    acceptor = Side("node", acceptor=True)
    acceptor.talk.receive(HEADER.pack(GREETING_BYTES_MAX + 1, kind, 0, 0, 0))
    assert acceptor.talk.end is not None and "a frame of 4097 bytes" in acceptor.talk.end
    assert acceptor.talk._reader.held_bytes == 0
    assert acceptor.got == []


@pytest.mark.parametrize("kind", [k for k in FrameKind if k is not FrameKind.GREETING])
def test_nothing_but_greetings_counts_before_the_proofs(kind: FrameKind) -> None:
    """A message before the proof is not delivered, it ends the conversation."""
    acceptor = Side("node", acceptor=True)
    acceptor.talk.receive(encode_frame(kind, b"x"))
    assert acceptor.talk.end is not None and "before the greetings" in acceptor.talk.end
    assert acceptor.got == []


@pytest.mark.parametrize(
    "data",
    [
        HEADER.pack(PAYLOAD_BYTES_MAX + 1, FrameKind.BULK, 0, 0, 0),
        HEADER.pack(1, 9, 0, 0, 0) + b"x",
        HEADER.pack(1, FrameKind.BULK, 2, 0, 1) + b"x",
        HEADER.pack(1, FrameKind.BULK, 0, 1, 0) + b"x",
        HEADER.pack(1, FrameKind.BULK, MORE, 0, 0) + b"x",
        HEADER.pack(9, FrameKind.WINDOW, 0, 0, 3) + b"x" * 9,
        HEADER.pack(0, FrameKind.CALL, 0, 0, 0),
        HEADER.pack(1, FrameKind.BULK, 0, 0, 4) + b"x",
        encode_frame(FrameKind.BULK, b"x", series=5, more=True)
        + encode_frame(FrameKind.CALL, b"y", series=5),
        encode_frame(FrameKind.WINDOW, encode_window(FrameKind.BULK, 1)),
        encode_frame(FrameKind.WINDOW, b"\x02"),
        encode_frame(FrameKind.WINDOW, b"\x63" + bytes(8)),
        encode_frame(FrameKind.GREETING, b"again"),
        encode_frame(FrameKind.URGENT, bytes(MESSAGE_BYTES_MAX[FrameKind.URGENT] + 1)),
        b"".join(
            encode_frame(FrameKind.BULK, b"x", series=number + 1, more=True)
            for number in range(SERIES_MAX + 1)
        ),
    ],
)
def test_what_is_unknown_or_out_of_bounds_ends_the_conversation(data: bytes) -> None:
    """It is never skipped: the side that reads it ends, says why, and delivers nothing after it."""
    caller, acceptor = open_pair()
    acceptor.talk.receive(data + encode_frame(FrameKind.CALL, b"afterwards"))
    assert acceptor.talk.end is not None and not acceptor.talk.refused
    assert (FrameKind.CALL, b"afterwards") not in acceptor.got
    exchange(caller, acceptor)
    assert caller.talk.end == f"the other side ended it: {acceptor.talk.end}"


def test_a_long_message_arrives_whole_and_the_urgent_one_before_it() -> None:
    """A heartbeat that is queued behind six megabytes of log leaves in front of all that has not
    been handed to the socket."""
    caller, acceptor = open_pair()
    bulk = bytes(range(256)) * (MESSAGE_BYTES_MAX[FrameKind.BULK] // 256)
    caller.talk.send(FrameKind.BULK, 7, bulk)
    acceptor.talk.receive(b"".join(caller.talk.take()))
    caller.talk.send(FrameKind.URGENT, 7, b"heartbeat")
    exchange(caller, acceptor)
    assert acceptor.got == [(FrameKind.URGENT, b"heartbeat"), (FrameKind.BULK, bulk)]
    assert caller.talk.held_bytes == 0 == acceptor.talk.held_bytes


def test_numbers_of_series_begin_again_behind_the_last_one() -> None:
    """Four bytes of them are used up at last: the messages around that arrive like all others."""
    caller, acceptor = open_pair()
    caller.talk.outbox._series = SERIES_NUMBER_MAX - 1
    sent = [bytes([number]) * (SLICE_BYTES + 1) for number in range(4)]
    for number, payload in enumerate(sent):
        caller.talk.send(FrameKind.BULK, number, payload)
    exchange(caller, acceptor)
    assert [payload for _, payload in acceptor.got] == sent
    assert caller.talk.end is None and acceptor.talk.end is None


def test_flows_take_turns_and_each_stays_in_order() -> None:
    """One flow with four megabytes does not keep a small one waiting, and no flow overtakes
    itself."""
    caller, acceptor = open_pair()
    size = SLICE_BYTES * 3
    for number in range(4):
        caller.talk.send(FrameKind.BULK, 1, bytes([number]) * size)
    caller.talk.send(FrameKind.BULK, 2, b"small")
    exchange(caller, acceptor)
    assert [payload[:1] for _, payload in acceptor.got] == [b"s", b"\0", b"\1", b"\2", b"\3"]


def test_a_transfer_is_slow_beside_bulk_and_never_stuck() -> None:
    """With bulk waiting all the time, a snapshot's slices still leave, one in four."""
    caller, _ = open_pair()
    caller.talk.send(FrameKind.TRANSFER, 1, bytes(2 * SLICE_BYTES))
    for flow in range(8):
        caller.talk.send(FrameKind.BULK, flow, bytes(SLICE_BYTES))
    order = []
    while frames := caller.talk.outbox.take(1):
        order += [HEADER.unpack_from(frame)[1] for frame in frames]
    assert [FrameKind(kind) for kind in order].index(FrameKind.TRANSFER) == 3
    assert order.count(FrameKind.TRANSFER) == 2 and order[7] == FrameKind.TRANSFER


@pytest.mark.parametrize("kind", [FrameKind.CALL, FrameKind.BULK, FrameKind.TRANSFER])
def test_a_reader_that_stands_still_costs_one_credit_and_no_more(kind: FrameKind) -> None:
    """The sender is refused before it holds more than the credit of the class, other classes go
    on, and the refusal queues nothing; when the reader moves, so does the sender."""
    caller, acceptor = open_pair()
    acceptor.deals = False
    message = bytes(64 * 1024)
    sent = 0
    while caller.talk.outbox.credits[kind].allows(len(message)):
        assert sent < 1000, "there is no end of credit"
        caller.talk.send(kind, sent % 5, message)
        sent += 1
    with pytest.raises(NoCreditError):
        caller.talk.send(kind, 5, message)
    assert sent * len(message) == CREDIT_BYTES[kind] == caller.talk.held_bytes
    held = caller.talk.held_bytes
    caller.talk.send(FrameKind.URGENT, 0, b"still alive")
    assert caller.talk.held_bytes == held + len(b"still alive")
    exchange(caller, acceptor)
    with pytest.raises(NoCreditError):
        caller.talk.send(kind, 0, message)
    for _ in range(sent // 2):
        acceptor.talk.dealt_with(kind, len(message))
    exchange(caller, acceptor)
    caller.talk.send(kind, 0, message)
    exchange(caller, acceptor)
    assert len(acceptor.got) == sent + 2


@pytest.mark.parametrize("kind", CLASSES)
def test_the_longest_message_never_waits_for_ever(kind: FrameKind) -> None:
    """Bytes that are dealt with and not reported yet leave room for the longest message of the
    class; the owner is told of room exactly as far as the other side reports it."""
    caller, acceptor = open_pair()
    unreported = CREDIT_BYTES[kind] // 4 - 1
    for size in [MESSAGE_BYTES_MAX[kind]] * (unreported // MESSAGE_BYTES_MAX[kind]) + [
        unreported % MESSAGE_BYTES_MAX[kind]
    ]:
        if size:
            caller.talk.send(kind, 1, bytes(size))
    exchange(caller, acceptor)
    assert caller.rooms == []
    assert caller.talk.outbox.credits[kind].under_way == unreported
    longest = bytes(MESSAGE_BYTES_MAX[kind])
    caller.talk.send(kind, 2, longest)
    exchange(caller, acceptor)
    assert acceptor.got[-1] == (kind, longest)
    assert caller.rooms == [(kind, unreported + len(longest))]
    assert caller.talk.outbox.credits[kind].under_way == 0


def test_a_message_that_does_not_fit_is_refused_without_effect() -> None:
    """Nothing of it is queued, and it goes when there is room for it."""
    caller, acceptor = open_pair()
    acceptor.deals = False
    longest = bytes(MESSAGE_BYTES_MAX[FrameKind.BULK])
    caller.talk.send(FrameKind.BULK, 1, longest)
    held = caller.talk.held_bytes
    with pytest.raises(NoCreditError):
        caller.talk.send(FrameKind.BULK, 2, longest)
    assert caller.talk.held_bytes == held
    exchange(caller, acceptor)
    acceptor.talk.dealt_with(FrameKind.BULK, len(longest))
    exchange(caller, acceptor)
    assert caller.rooms == [(FrameKind.BULK, len(longest))]
    caller.talk.send(FrameKind.BULK, 2, longest)
    exchange(caller, acceptor)
    assert acceptor.got == [(FrameKind.BULK, longest)] * 2


def test_a_sender_that_ignores_its_credit_is_ended() -> None:
    """The receiver's memory does not depend on the sender's honesty."""
    _, acceptor = open_pair()
    acceptor.deals = False
    frame = encode_frame(FrameKind.BULK, bytes(PAYLOAD_BYTES_MAX))
    for _ in range(20):
        acceptor.talk.receive(frame)
    assert acceptor.talk.end == "more than the credit of the class"
    assert sum(len(payload) for _, payload in acceptor.got) <= CREDIT_BYTES[FrameKind.BULK]


def test_questions_for_a_sign_of_life_cost_one_answer_until_it_is_taken() -> None:
    """Who asks and asks, and reads nothing, makes nothing wait but that; then it is asked again."""
    caller, acceptor = open_pair()
    question = encode_frame(FrameKind.PING, b"?")
    answer = encode_frame(FrameKind.PING, b"!")
    for _ in range(2):
        acceptor.talk.receive(question * 10_000)
        assert acceptor.talk.take() == [answer]
        assert acceptor.talk.take() == []
    caller.talk.receive(answer)
    assert caller.talk.is_open


def test_the_end_is_told_with_its_reason_and_is_final() -> None:
    caller, acceptor = open_pair()
    caller.talk.close("the node stops")
    exchange(caller, acceptor)
    assert acceptor.talk.end == "the other side ended it: the node stops"
    acceptor.talk.receive(encode_frame(FrameKind.CALL, b"late"))
    assert acceptor.got == []
