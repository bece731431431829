"""Any traffic, cut anywhere, dealt with at any time; and any bytes at all."""

from __future__ import annotations

from collections import defaultdict, deque

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from svc_cluster.link.credit import CREDIT_BYTES, MESSAGE_BYTES_MAX
from svc_cluster.link.frame import CLASSES, HEADER, PAYLOAD_BYTES_MAX, FrameKind
from svc_cluster.link.outbox import NoCreditError
from tests.unit.link.test_conversation import Side, open_pair

KINDS = st.sampled_from(CLASSES)
SIZES = st.one_of(
    st.integers(1, 64),
    st.integers(1, 300 * 1024),
    st.sampled_from([256 * 1024, 256 * 1024 + 1, 1024 * 1024, MESSAGE_BYTES_MAX[FrameKind.BULK]]),
)
STEPS = st.one_of(
    st.tuples(st.just("send"), KINDS, st.integers(0, 3), SIZES),
    st.tuples(st.just("move"), st.integers(1, 400 * 1024)),
    st.tuples(st.just("deal"), st.integers(1, 5)),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, max_size=40))
def test_every_message_arrives_once_whole_and_in_the_order_of_its_flow(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    """What was queued arrives, what was refused does not; within a flow of a class nothing is
    overtaken; neither side ever holds more than the credits; at the end nothing is left."""
    caller, acceptor = open_pair()
    acceptor.deals = False
    sent: dict[tuple[FrameKind, int], deque[bytes]] = defaultdict(deque)
    wire = deque[bytes]()
    undone: deque[tuple[FrameKind, int]] = deque()
    number = 0
    bound = sum(max(CREDIT_BYTES[kind], MESSAGE_BYTES_MAX[kind]) for kind in CLASSES)

    def take_in() -> None:
        for kind, payload in acceptor.got:
            undone.append((kind, len(payload)))
            flow = payload[0] % 4
            assert sent[kind, flow].popleft() == payload
        acceptor.got.clear()
        caller.talk.receive(b"".join(acceptor.talk.take()))
        assert caller.talk.held_bytes <= bound
        assert acceptor.talk.held_bytes <= bound + HEADER.size + PAYLOAD_BYTES_MAX
        assert caller.talk.end is None and acceptor.talk.end is None

    for step in steps:
        if step[0] == "send":
            _, kind, flow, size = step
            size = min(size, MESSAGE_BYTES_MAX[kind])
            number += 1
            payload = (bytes([flow]) + number.to_bytes(4, "big") * (size // 4 + 1))[:size]
            before = caller.talk.held_bytes
            try:
                caller.talk.send(kind, flow, payload)
            except NoCreditError:
                assert caller.talk.held_bytes == before
            else:
                sent[kind, flow].append(payload)
        elif step[0] == "move":
            wire.extend(caller.talk.take())
            data = b"".join(wire)
            acceptor.talk.receive(data[: step[1]])
            wire = deque([data[step[1] :]])
            take_in()
        else:
            for _ in range(min(step[1], len(undone))):
                acceptor.talk.dealt_with(*undone.popleft())
            take_in()
    acceptor.talk.receive(b"".join(wire))
    while frames := caller.talk.take():
        acceptor.talk.receive(b"".join(frames))
    take_in()
    assert not any(sent.values())
    assert caller.talk.held_bytes == 0 == acceptor.talk.held_bytes


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=64),
            st.builds(
                lambda size, kind, flags, zero, series, body: (
                    HEADER.pack(size if size is not None else len(body), kind, flags, zero, series)
                    + body
                ),
                st.one_of(st.none(), st.integers(0, 2**32 - 1)),
                st.one_of(st.sampled_from([int(kind) for kind in FrameKind]), st.integers(0, 255)),
                st.sampled_from([0, 0, 0, 1, 1, 2, 255]),
                st.sampled_from([0, 0, 0, 0, 1]),
                st.integers(0, 3),
                st.binary(max_size=48),
            ),
        ),
        max_size=30,
    ),
    st.booleans(),
)
def test_no_bytes_do_anything_but_end_the_conversation(pieces: list[bytes], is_open: bool) -> None:
    """Whatever arrives, nothing is raised, memory stays bounded, and a side that is over delivers
    nothing more."""
    side = open_pair()[1] if is_open else Side("node", acceptor=True)
    for piece in pieces:
        over = side.talk.is_over
        count = len(side.got)
        side.talk.receive(piece)
        assert not (over and len(side.got) > count)
        assert side.talk.held_bytes <= HEADER.size + PAYLOAD_BYTES_MAX + 4096
    assert is_open or not side.got
