"""Proven callers have few conversations with a node, and what arrives in them is counted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from svc_cluster.base.ids import NodeId
from svc_cluster.link.acceptor import Acceptor
from svc_cluster.link.connector import Connector, introduce
from svc_cluster.link.conversation import Terms
from svc_cluster.link.frame import FrameKind, encode_frame
from svc_cluster.link.greeting import RefusedError, Speaker
from svc_cluster.link.handshake import Identity
from svc_cluster.link.wire import Wire
from tests.outside_callers import talk

SECONDS = 60.0
PER_CALLER, IN_ALL, STRANGERS = 3, 5, 4
MEMBERS = range(1, 10)


def terms(role: str, node: int) -> Terms:
    return Terms(b"s" * 32, Speaker(Identity("c1", role, NodeId(node), "i1")), lambda _: None)


class Heard:
    """The node's side of one conversation, which deals with whatever it hears."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.messages = 0

    def message(self, kind: FrameKind, payload: bytes) -> None:
        self.messages += 1
        self._wire.dealt_with(kind, len(payload))

    def room(self, kind: FrameKind, size: int) -> None: ...

    def link_down(self) -> None: ...


class Listening:
    def __init__(self) -> None:
        self.heard: list[Heard] = []
        self.members = set(MEMBERS)
        self.acceptor = Acceptor(
            asyncio.get_running_loop(),
            lambda: terms("node", 9),
            self._welcome,
            lambda who: who.role == "node" and who.node_id not in self.members,
        )
        self.address = ""

    def _welcome(self, _: Speaker, wire: Wire) -> Heard:
        self.heard.append(Heard(wire))
        return self.heard[-1]

    async def call(self, role: str, node: int) -> Connector:
        """A conversation that is open."""
        return await talk(self.address, terms(role, node))

    async def refused(self, role: str, node: int) -> str:
        with pytest.raises(RefusedError) as refusal:
            await introduce(self.address, terms(role, node), None, "")
        return str(refusal.value)


def listening(body: Callable[[Listening], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(SECONDS):
            node = Listening()
            node.address = f"127.0.0.1:{await node.acceptor.start('127.0.0.1', 0)}"
            try:
                await body(node)
            finally:
                await node.acceptor.close("the test is over")

    asyncio.run(main())


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.005)


def test_a_proven_caller_has_a_bounded_number_of_conversations(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The newest is refused with the reason, in one line for many; those before it go on, other
    callers get in, and so does the next one when a conversation has ended."""
    monkeypatch.setattr("svc_cluster.link.acceptor.CONVERSATIONS_PER_CALLER_MAX", PER_CALLER)
    monkeypatch.setattr("svc_cluster.link.acceptor.CONVERSATIONS_MAX", IN_ALL)
    caplog.set_level("WARNING")

    async def body(node: Listening) -> None:
        gateways = [await node.call("gateway", 0) for _ in range(PER_CALLER)]
        for _ in range(4):
            assert f"at most {PER_CALLER}" in await node.refused("gateway", 0)
        nodes = [await node.call("node", 1) for _ in range(PER_CALLER)]
        assert f"at most {PER_CALLER}" in await node.refused("node", 1)
        nodes.append(await node.call("node", 2))
        others = [await node.call("administrator", 0) for _ in range(IN_ALL - PER_CALLER)]
        assert f"there are {IN_ALL}" in await node.refused("administrator", 0)
        nodes.append(await node.call("node", 2))
        assert len(node.heard) == 2 * PER_CALLER + 2 + len(others)
        assert node.acceptor.refusals == 6
        gateways[0].send(FrameKind.CALL, 0, b"still here")
        await until(lambda: node.heard[0].messages == 1)
        await gateways.pop().close()
        await until(lambda: sum(node.acceptor._open.values()) == len(node.heard) - 1)
        gateways.append(await node.call("gateway", 0))
        for connector in [*gateways, *nodes, *others]:
            await connector.close()
        await until(lambda: not node.acceptor._open)

    listening(body)
    lines = [record for record in caplog.records if record.getMessage() == "caller_refused"]
    assert len(lines) == 2, "one for the address, one for the node"


def test_strangers_have_few_conversations_whatever_ids_they_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another id brings no further conversation; members and gateways are let in beside them, and
    one that has become a member needs no place among the strangers, nor keeps the one it had."""
    monkeypatch.setattr("svc_cluster.link.acceptor.CONVERSATIONS_PER_CALLER_MAX", PER_CALLER)
    monkeypatch.setattr("svc_cluster.link.acceptor.CONVERSATIONS_MAX", IN_ALL)
    monkeypatch.setattr("svc_cluster.link.acceptor.STRANGERS_MAX", STRANGERS)

    async def body(node: Listening) -> None:
        strangers = [await node.call("node", 100 + n) for n in range(STRANGERS)]
        for another in range(200, 204):
            assert f"there are {STRANGERS}" in await node.refused("node", another)
        assert len(node.heard) == STRANGERS and node.acceptor.refusals == 4
        others = [await node.call("gateway", 0) for _ in range(PER_CALLER)]
        others += [await node.call("node", 1) for _ in range(PER_CALLER)]
        node.members.add(200)
        others.append(await node.call("node", 200))
        assert f"there are {STRANGERS}" in await node.refused("node", 201)
        node.members.add(100)
        others.append(await node.call("node", 202))
        assert f"there are {STRANGERS}" in await node.refused("node", 201)
        await strangers.pop().close()
        await until(lambda: sum(node.acceptor._open.values()) == len(node.heard) - 1)
        strangers.append(await node.call("node", 201))
        for connector in [*strangers, *others]:
            await connector.close()
        await until(lambda: not node.acceptor._open)

    listening(body)


def test_messages_that_have_arrived_in_part_are_counted() -> None:
    """Of every conversation, until the rest has come or the conversation is over."""
    part = bytes(100_000)

    async def body(node: Listening) -> None:
        callers = [await node.call("gateway", 0) for _ in range(2)]
        for caller in callers:
            wire = caller._wire
            assert wire is not None and wire._transport is not None
            wire._transport.write(encode_frame(FrameKind.BULK, part, series=1, more=True))
            wire._transport.write(encode_frame(FrameKind.CALL, part, series=2, more=True))
        await until(lambda: node.acceptor.arriving_bytes == 4 * len(part))
        first = callers[0]._wire
        assert first is not None and first._transport is not None
        first._transport.write(encode_frame(FrameKind.BULK, b"end", series=1, more=False))
        await until(lambda: node.acceptor.arriving_bytes == 3 * len(part))
        await callers[1].close()
        await until(lambda: node.acceptor.arriving_bytes == len(part))
        await callers[0].close()
        await until(lambda: node.acceptor.arriving_bytes == 0)
        assert sum(one.messages for one in node.heard) == 1

    listening(body)
