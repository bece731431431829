"""What has arrived in part has its bounds: in bytes for all callers, in time for each message."""

from __future__ import annotations

import asyncio

import pytest

from svc_cluster.link import wire as wire_module
from svc_cluster.link.arriving import Arriving
from svc_cluster.link.connector import Connector
from svc_cluster.link.frame import FrameKind, FrameReader, encode_frame
from svc_cluster.link.inbox import Inbox
from svc_cluster.link.wire import Wire
from tests.unit.link.test_conversation_numbers import Listening, listening, until

PART = 100_000


def wire_of(connector: Connector) -> Wire:
    assert connector._wire is not None
    return connector._wire


def write(connector: Connector, data: bytes) -> None:
    """What no caller that follows the rules would leave like this."""
    transport = wire_of(connector)._transport
    assert transport is not None
    transport.write(data)


def part(series: int, size: int = PART, kind: FrameKind = FrameKind.BULK) -> bytes:
    return encode_frame(kind, bytes(size), series=series, more=True)


def test_a_part_is_as_old_as_the_first_look_at_it() -> None:
    """Whatever else comes and goes; one that is gone and comes again is new."""
    arriving = Arriving()
    first, second = ("series", 1), ("frame", 7)
    assert arriving.look(10.0, []) == 0.0
    assert arriving.look(11.0, [first]) == 0.0
    assert arriving.look(15.0, [first, second]) == 4.0
    assert arriving.look(18.0, [second]) == 3.0
    assert arriving.look(20.0, [first, second]) == 5.0
    assert arriving.look(21.0, []) == 0.0
    assert arriving.look(22.0, [second]) == 0.0


def test_the_oldest_series_is_the_first_that_has_no_end() -> None:
    """Under whichever number it goes: numbers come again."""

    def take(series: int, *, more: bool) -> None:
        for frame in FrameReader().feed(
            encode_frame(FrameKind.CALL, b"x", series=series, more=more)
        ):
            inbox.take(frame)

    def oldest() -> int | None:
        return inbox.oldest

    inbox = Inbox()
    assert oldest() is None
    take(9, more=True)
    take(5, more=True)
    take(9, more=True)
    assert oldest() == 1
    take(9, more=False)
    assert oldest() == 2
    take(9, more=True)
    assert oldest() == 2
    take(5, more=False)
    assert oldest() == 3, "the second series of that number is another one"
    take(9, more=False)
    assert oldest() is None


def test_the_caller_with_the_most_in_part_loses_a_conversation(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The one with the most of it, not the one that went over the bound, nor the largest of all:
    whoever has less in all is not touched, and completes what it began."""
    monkeypatch.setattr("svc_cluster.link.acceptor.ARRIVING_BYTES_MAX", 10 * PART)
    caplog.set_level("WARNING")

    async def body(node: Listening) -> None:
        greedy = [await node.call("node", 1) for _ in range(3)]
        modest = await node.call("node", 2)
        wires = [wire_of(each) for each in greedy]
        for place, connector in enumerate(greedy):
            for series in (1, 2) if place < 2 else (1,):
                write(connector, part(series))
        write(modest, part(1) + part(2) + part(3) + part(4))
        write(greedy[1], part(3))
        await until(lambda: node.acceptor.arriving_bytes == 10 * PART)
        assert [each.is_open for each in wires] == [True] * 3
        write(modest, part(5, size=1))
        await until(lambda: not all(each.is_open for each in wires))
        assert [each.is_open for each in wires] == [True, False, True]
        await until(lambda: node.acceptor.arriving_bytes == 7 * PART + 1)
        write(modest, encode_frame(FrameKind.BULK, b"end", series=1))
        await until(lambda: sum(one.messages for one in node.heard) == 1)
        assert node.acceptor.arriving_bytes == 6 * PART + 1
        for connector in [*greedy, modest]:
            await connector.close()
        await until(lambda: node.acceptor.arriving_bytes == 0)

    listening(body)
    lines = [record for record in caplog.records if record.getMessage() == "caller_refused"]
    assert len(lines) == 1


def test_no_node_loses_a_conversation_before_callers_that_are_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However much more the node has in part; but for callers that have no more than their even
    share, of which there may be very many, nobody else loses one."""
    monkeypatch.setattr("svc_cluster.link.acceptor.ARRIVING_BYTES_MAX", 10 * PART)
    monkeypatch.setattr("svc_cluster.link.acceptor.CONVERSATIONS_MAX", 10)

    async def body(node: Listening) -> None:
        peer = await node.call("node", 1)
        busy, modest = await node.call("gateway", 0), await node.call("administrator", 0)
        wires = [wire_of(each) for each in (peer, busy, modest)]
        write(modest, part(1, size=PART // 2))
        write(busy, part(1) + part(2))
        await until(lambda: node.acceptor.arriving_bytes == 2.5 * PART)
        write(peer, b"".join(part(series) for series in range(1, 9)))
        await until(lambda: not all(each.is_open for each in wires))
        assert [each.is_open for each in wires] == [True, False, True]
        await until(lambda: node.acceptor.arriving_bytes == 8.5 * PART)
        write(peer, part(9) + part(10))
        await until(lambda: not (wires[0].is_open and wires[2].is_open))
        assert [each.is_open for each in wires] == [False, False, True]
        for connector in (peer, busy, modest):
            await connector.close()

    listening(body)


@pytest.mark.parametrize(
    "unfinished",
    [part(1), part(1)[: PART // 2], part(1)[:3], part(1) + part(1)],
    ids=["series", "frame", "header", "long series"],
)
def test_what_never_becomes_whole_ends_its_conversation(
    monkeypatch: pytest.MonkeyPatch, unfinished: bytes
) -> None:
    """However the rest is held back, and although the caller gives every other sign of life."""
    monkeypatch.setattr(wire_module, "GREETING_SECONDS", 0.02)
    monkeypatch.setattr(wire_module, "PING_SECONDS", 0.02)
    monkeypatch.setattr(wire_module, "ARRIVING_SECONDS_MAX", 0.3)

    async def body(node: Listening) -> None:
        caller, other = await node.call("node", 1), await node.call("node", 2)
        wire, whole = wire_of(caller), wire_of(other)
        write(caller, unfinished)
        await until(lambda: node.acceptor.arriving_bytes > 0)
        for number in range(1, 1000):
            if not wire.is_open:
                break
            # another message, of many frames, is always on its way here
            write(other, part(number, size=10) + encode_frame(FrameKind.BULK, b"x", series=number))
            await asyncio.sleep(0.005)
        assert not wire.is_open
        assert whole.is_open
        await until(lambda: node.acceptor.arriving_bytes == 0)
        await caller.close()
        await other.close()

    listening(body)
