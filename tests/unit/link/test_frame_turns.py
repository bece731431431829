"""However much one read brings, a turn of the loop deals with a bounded number of frames, of all
conversations together; each has its share, in order."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from svc_cluster.link.acceptor import Acceptor
from svc_cluster.link.connector import Connector
from svc_cluster.link.frame import FrameKind, FrameReader, encode_frame
from svc_cluster.link.frame_turns import FRAME_BYTES, SHARE_FRAMES, TURN_FRAMES_MAX
from svc_cluster.link.greeting import Speaker
from svc_cluster.link.wire import Wire
from tests.outside_callers import talk
from tests.unit.link.wires import terms

MANY = 5 * TURN_FRAMES_MAX + 3


class Room:
    """A node that notes in which turn of its loop it heard what."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.turn = 0
        self.heard: list[tuple[int, int, bytes]] = []
        """Turn, number of the conversation, payload."""
        self.wires: list[Wire] = []
        self.callers: list[Connector] = []
        self.ended: list[int] = []
        self.bug_at = -1
        """Behind so many messages nobody can deal with one."""
        self.acceptor = Acceptor(self._loop, terms("node", 9), self._welcome)
        self._handle = self._loop.call_soon(self._count)

    def _count(self) -> None:
        self.turn += 1
        self._handle = self._loop.call_soon(self._count)

    def _welcome(self, _: Speaker, wire: Wire) -> Guest:
        self.wires.append(wire)
        return Guest(self, len(self.wires) - 1)

    async def close(self) -> None:
        self._handle.cancel()
        await self.acceptor.close("the test is over")

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not holds():
                await asyncio.sleep(0)


class Guest:
    def __init__(self, room: Room, number: int) -> None:
        self._room = room
        self._number = number

    def message(self, kind: FrameKind, payload: bytes) -> None:
        if len(self._room.heard) == self._room.bug_at:
            raise RuntimeError("a bug")
        self._room.heard.append((self._room.turn, self._number, payload))
        self._room.wires[self._number].dealt_with(kind, len(payload))

    def room(self, kind: FrameKind, size: int) -> None: ...

    def link_down(self) -> None:
        self._room.ended.append(self._number)


def with_callers(count: int, body: Callable[[Room], Awaitable[None]]) -> None:
    async def main() -> None:
        room = Room()
        address = f"127.0.0.1:{await room.acceptor.start('127.0.0.1', 0)}"
        room.callers = [await talk(address, terms("node", 1 + n)()) for n in range(count)]
        try:
            await room.until(lambda: len(room.wires) == count)
            await body(room)
        finally:
            for caller in room.callers:
                await caller.close()
            await room.close()

    asyncio.run(main())


def frames(count: int, *, size: int = 8) -> list[bytes]:
    return [number.to_bytes(size, "big") for number in range(count)]


def sent(payloads: list[bytes]) -> bytes:
    return b"".join(encode_frame(FrameKind.URGENT, payload) for payload in payloads)


def test_one_read_is_dealt_with_over_several_turns_and_in_order() -> None:
    async def body(room: Room) -> None:
        payloads = frames(MANY)
        data = sent(payloads)
        # the end of it comes by itself, amid the first: what is cut does not depend on reads
        room.wires[0].data_received(data[:-5])
        room.wires[0].data_received(data[-5:])
        assert len(room.heard) == TURN_FRAMES_MAX, "the first of them at once"
        await room.until(lambda: len(room.heard) == MANY)
        assert [payload for _, _, payload in room.heard] == payloads
        per_turn = Counter(turn for turn, _, _ in room.heard)
        assert max(per_turn.values()) == TURN_FRAMES_MAX and len(per_turn) == 6
        assert room.wires[0].talk.arriving_bytes == 0
        # and the socket is read again
        room.callers[0].send(FrameKind.URGENT, 0, b"again")
        await room.until(lambda: room.heard[-1][2] == b"again")

    with_callers(1, body)


def test_long_frames_count_for_more() -> None:
    async def body(room: Room) -> None:
        payloads = frames(10, size=32 * FRAME_BYTES)
        room.wires[0].data_received(
            b"".join(encode_frame(FrameKind.BULK, payload) for payload in payloads)
        )
        await room.until(lambda: len(room.heard) == len(payloads))
        per_turn = Counter(turn for turn, _, _ in room.heard)
        assert max(per_turn.values()) == 4, "of 33 units each"
        assert [payload for _, _, payload in room.heard] == payloads

    with_callers(1, body)


def test_who_brings_much_does_not_keep_others_waiting() -> None:
    """One frame of another is heard behind the turn that was begun and one share of the next."""

    async def body(room: Room) -> None:
        flood, other = room.wires
        flood.data_received(sent(frames(MANY)))
        other.data_received(sent([b"me too"]))
        assert len(room.heard) == TURN_FRAMES_MAX
        await room.until(lambda: len(room.heard) == MANY + 1)
        place = next(at for at, (_, number, _) in enumerate(room.heard) if number == 1)
        assert place == TURN_FRAMES_MAX + SHARE_FRAMES
        per_turn = Counter(turn for turn, _, _ in room.heard)
        assert max(per_turn.values()) == TURN_FRAMES_MAX, "of both together"
        assert [p for _, number, p in room.heard if number == 0] == frames(MANY)

    with_callers(2, body)


def test_what_waits_goes_with_a_conversation_that_ends() -> None:
    """Nothing of it is heard any more, and nobody waits for it."""

    async def body(room: Room) -> None:
        flood, other = room.wires
        flood.data_received(sent(frames(MANY)))
        flood.give_up("enough")
        other.data_received(sent([b"me too"]))
        await room.until(lambda: any(number == 1 for _, number, _ in room.heard))
        assert len(room.heard) == TURN_FRAMES_MAX + 1 and room.ended == [0]
        assert flood.talk.arriving_bytes == 0

    with_callers(2, body)


def test_a_frame_that_is_none_ends_it_behind_those_before_it() -> None:
    async def body(room: Room) -> None:
        room.wires[0].data_received(sent(frames(MANY)) + b"\xff" * 12)
        await room.until(lambda: room.ended == [0])
        assert len(room.heard) == MANY
        assert "a frame of" in str(room.wires[0].talk.end)

    with_callers(1, body)


def test_a_bug_behind_the_first_turn_ends_the_conversation_at_once() -> None:
    """As in the first; nobody else waits for it, and it is told."""

    async def body(room: Room) -> None:
        told: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, what: told.append(str(what)))
        room.bug_at = 2 * TURN_FRAMES_MAX
        flood, other = room.wires
        flood.data_received(sent(frames(MANY)))
        await room.until(lambda: room.ended == [0])
        assert "a bug" in str(flood.talk.end) and any("a bug" in one for one in told)
        room.bug_at = -1
        other.data_received(sent([b"me too"]))
        await room.until(lambda: room.heard[-1][1] == 1)

    with_callers(2, body)


def test_a_long_frame_in_many_pieces_is_put_together_once() -> None:
    """Until it is whole, nothing that is held is copied, however often it is asked for."""
    reader = FrameReader()
    data = encode_frame(FrameKind.BULK, b"x" * 100_000)
    held = reader._held
    for start in range(0, len(data) - 1000, 1000):
        reader.add(data[start : start + 1000])
        assert reader.may_have_more == (start == 0), "only the first piece is looked at"
        assert reader.cut() is None
        assert reader._held is held and len(held) == start + 1000, "all of it, where it was"
        assert reader._wanted == len(data) and not reader.may_have_more
        assert reader.cut() is None
    reader.add(data[reader.held_bytes :])
    frame = reader.cut()
    assert frame is not None and frame.payload == data[12:]
    assert (reader.cut(), reader.held_bytes) == (None, 0)
