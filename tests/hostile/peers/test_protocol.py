"""What is not of the protocol ends the conversation that it came on, and harms no other."""

from __future__ import annotations

import asyncio

import pytest

from svc_cluster._pb.cluster.v1 import peer_pb2, replica_pb2
from svc_cluster.link.calls import Verb, encode
from svc_cluster.link.credit import encode_window
from svc_cluster.link.frame import HEADER, MORE, FrameKind
from svc_cluster.raft.group import ENTRY_BYTES_MAX
from tests.hostile.peers import words as hostile
from tests.hostile.peers.stranger import OPEN, Stranger, frame
from tests.hostile.peers.victim import BASIN, STREAM, Victim
from tests.hostile.scale import MIB


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
            (envelope.SerializeToString(), "an envelope of more than 8192 messages"),
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


def series(sizes: list[int], kind: FrameKind = FrameKind.CALL, number: int = 1) -> bytes:
    """The beginning of a message in frames of these sizes; its end does not come."""
    return b"".join(frame(kind, bytes(size), series=number, flags=MORE) for size in sizes)


FAULTS: dict[str, tuple[bytes, str]] = {
    "a frame too long": (HEADER.pack(MIB + 1, FrameKind.CALL, 0, 0, 0), "1048576 are allowed"),
    "the longest length there is": (HEADER.pack(2**32 - 1, FrameKind.BULK, 0, 0, 0), "are allowed"),
    "an unknown kind": (frame(99, b"x"), "unknown kind"),
    "an unknown flag": (frame(FrameKind.CALL, b"x", flags=2), "unknown flags"),
    "a number that is not zero": (frame(FrameKind.CALL, b"x", zero=1), "unknown flags"),
    "an empty message": (frame(FrameKind.CALL, b""), "without content"),
    "a series of windows": (
        frame(FrameKind.WINDOW, bytes(9), series=1),
        "a series of frames of kind",
    ),
    "a series without a number": (frame(FrameKind.CALL, b"x", flags=MORE), "without a number"),
    "an end without a beginning": (frame(FrameKind.CALL, b"x", series=9), "no beginning"),
    "a series of two classes": (
        series([9]) + frame(FrameKind.BULK, b"x", series=1),
        "a series of two classes",
    ),
    "a message too long": (series([MIB] * 3 + [1]), "a message of more than"),
    "an urgent message too long": (frame(FrameKind.URGENT, bytes(64 * 1024 + 1)), "a message of"),
    "more than the credit": (
        b"".join(series([MIB], FrameKind.TRANSFER, number) for number in range(1, 6)),
        "more than the credit",
    ),
    "more series than there can be": (
        b"".join(series([1], number=number) for number in range(1, 200)),
        "series at once",
    ),
    "a series of crumbs": (series([2] * 5000), "frames"),
    "a window that cannot be true": (
        frame(FrameKind.WINDOW, encode_window(FrameKind.CALL, 1)),
        "1 bytes dealt with of 0",
    ),
    "a window of no class": (frame(FrameKind.WINDOW, b"\x20" + bytes(8)), "a window of the class"),
    "a window of another length": (frame(FrameKind.WINDOW, b"x"), "a window of 1 bytes"),
    "a ping that is none": (frame(FrameKind.PING, b"x"), "a ping that is none"),
    "a message without a verb": (frame(FrameKind.CALL, b"\x01"), "a message of 1 bytes"),
    "the verb 0": (frame(FrameKind.CALL, bytes(9)), "the unknown verb 0"),
    "a verb to come": (frame(FrameKind.CALL, b"\x07" + bytes(8)), "the unknown verb 7"),
    "the last verb there is": (frame(FrameKind.URGENT, b"\xff" * 9), "the unknown verb 255"),
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
            stranger.message(FrameKind.URGENT, encode(Verb.CANCEL, 77))
            stranger.ask(2, wait)
            stranger.message(FrameKind.CALL, encode(Verb.CANCEL, 2))
            stranger.ask(2, wait)
            assert await stranger.listens() == OPEN
            assert 2 not in stranger.answers, "it waits for what comes"
            stranger.ask(2, ping)
            assert "the number 2" in await stranger.gone()
        await victim.still_serves()

    asyncio.run(main())
