"""The simulated network keeps its connections' promises and breaks everything else."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import importlib
import inspect
import pkgutil
import random
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from svc_cluster.base.ids import NodeId
from svc_cluster.base.limits import MESSAGE_BYTES_MAX
from svc_cluster.link.conversation import WRITE_BYTES, Conversation, Terms
from svc_cluster.link.credit import CREDIT_BYTES
from svc_cluster.link.credit import MESSAGE_BYTES_MAX as BYTES_OF_CLASS
from svc_cluster.link.frame import CLASSES, FrameKind
from svc_cluster.link.greeting import Speaker
from svc_cluster.link.handshake import Identity
from svc_cluster.link.outbox import SLICE_BYTES, NoCreditError, Outbox
from svc_cluster.link.wire import Wire
from svc_cluster.replica import link_server, peer_conversation, peers
from tests.simulation.adapters import SimAcceptor, SimCaller
from tests.simulation.loop import SimLoop, run
from tests.simulation.network import ADVERSARIAL, NetworkProfile, SimNetwork

Scene = Callable[[SimLoop, SimNetwork, list[str]], Coroutine[Any, Any, None]]


def _play(scene: Scene, profile: NetworkProfile | None = None, seed: int = 1) -> list[str]:
    """Run `scene` with endpoints a and b; what b hears is returned."""
    heard: list[str] = []

    async def main(loop: SimLoop) -> None:
        network = SimNetwork(loop, random.Random(seed), profile or NetworkProfile())
        network.register("a", lambda _sender, data: heard.append("a:" + data.decode()))
        network.register("b", lambda _sender, data: heard.append(data.decode()))
        await scene(loop, network, heard)

    run(main)
    return heard


def _send(network: SimNetwork, *numbers: int) -> None:
    for number in numbers:
        network.send("a", "b", str(number).encode())


def test_a_connection_is_first_in_first_out() -> None:
    """Delays differ, the order does not."""

    async def scene(_loop: SimLoop, network: SimNetwork, _heard: list[str]) -> None:
        _send(network, *range(100))
        await asyncio.sleep(1)

    assert _play(scene) == [str(number) for number in range(100)]


def test_a_message_that_no_receiver_takes_tears_the_connection() -> None:
    """One of exactly the bound arrives; one byte more is lost, with what was on its way before it,
    is counted, and the connection is reported as down and up again."""
    told: list[bool] = []
    sizes: list[int] = []

    async def scene(_loop: SimLoop, network: SimNetwork, _heard: list[str]) -> None:
        network.register("c", lambda _sender, _data: None, lambda _to, up: told.append(up))
        network.register("d", lambda _sender, data: sizes.append(len(data)))
        network.connect("c", "d")
        await asyncio.sleep(5)
        network.send("c", "d", bytes(MESSAGE_BYTES_MAX))
        await asyncio.sleep(5)
        assert network.stats.too_long == 0
        network.send("c", "d", b"before")
        network.send("c", "d", bytes(MESSAGE_BYTES_MAX + 1))
        await asyncio.sleep(5)
        assert network.stats.too_long == 1
        network.send("c", "d", b"after it")
        await asyncio.sleep(5)

    _play(scene)
    assert sizes == [MESSAGE_BYTES_MAX, len(b"after it")]
    assert told == [True, False, True]


def test_an_adversarial_network_drops_duplicates_and_delays() -> None:
    """All three happen; nothing is invented."""

    async def scene(_loop: SimLoop, network: SimNetwork, _heard: list[str]) -> None:
        for number in range(2_000):
            network.send("a", "b", str(number).encode(), datagram=True)
        await asyncio.sleep(10)

    heard = [int(text) for text in _play(scene, ADVERSARIAL)]
    assert set(heard) < set(range(2_000))
    assert len(heard) > len(set(heard)) > 1_900
    assert heard != sorted(heard)


def test_a_reset_loses_what_is_in_flight_and_no_more() -> None:
    """What was delivered stays; what is sent after the reconnection arrives."""

    async def scene(_loop: SimLoop, network: SimNetwork, heard: list[str]) -> None:
        _send(network, 1)
        await asyncio.sleep(1)
        _send(network, 2, 3)
        network.reset("a", "b")
        await asyncio.sleep(1)
        assert heard == ["1"]
        _send(network, 4)
        await asyncio.sleep(1)

    assert _play(scene) == ["1", "4"]


def test_a_short_cut_delays_and_a_long_one_loses() -> None:
    """Until somebody notices, what was swallowed is sent again, in order."""

    async def scene(_loop: SimLoop, network: SimNetwork, heard: list[str]) -> None:
        network.cut("a", "b")
        _send(network, 1, 2)
        await asyncio.sleep(0.3)
        assert heard == []
        network.heal("a", "b")
        await asyncio.sleep(0.1)
        assert heard == ["1", "2"]
        network.cut("a", "b")
        _send(network, 3)
        await asyncio.sleep(10)
        network.heal("a", "b")
        await asyncio.sleep(1)
        _send(network, 4)
        await asyncio.sleep(1)

    async def connected(loop: SimLoop, network: SimNetwork, heard: list[str]) -> None:
        _send(network, 0)
        await asyncio.sleep(0.1)
        heard.clear()
        await scene(loop, network, heard)

    assert _play(connected) == ["1", "2", "4"]


def test_a_one_way_cut_lets_the_other_way_through() -> None:
    """Deaf is not mute, until the connection is given up."""

    async def scene(_loop: SimLoop, network: SimNetwork, _heard: list[str]) -> None:
        _send(network, 0)
        network.send("b", "a", b"0")
        await asyncio.sleep(0.1)
        network.cut("a", "b", both=False)
        _send(network, 1)
        network.send("b", "a", b"1")
        await asyncio.sleep(0.2)

    assert sorted(_play(scene)) == ["0", "a:0", "a:1"]


def test_a_clog_holds_back_in_order() -> None:
    """Nothing gets through for a while, then all of it does."""

    async def scene(_loop: SimLoop, network: SimNetwork, heard: list[str]) -> None:
        network.clog("a", "b", 2.0)
        _send(network, *range(10))
        await asyncio.sleep(1.9)
        assert heard == []
        _send(network, 10)
        await asyncio.sleep(0.2)

    assert _play(scene) == [str(number) for number in range(11)]


def test_kept_connections_report_and_come_back() -> None:
    """`connect` tells of every change, also across a crash of the other side."""
    told: list[tuple[str, bool]] = []

    async def main(loop: SimLoop) -> None:
        network = SimNetwork(loop, random.Random(1))
        network.register("a", lambda *_: None, lambda peer, up: told.append((peer, up)))
        network.connect("a", "b")
        await asyncio.sleep(1)
        assert told == []
        process = loop.incarnation("b")
        process.run(network.register, "b", lambda *_: None)
        await asyncio.sleep(1)
        process.kill()
        network.crash("b")
        await asyncio.sleep(1)
        network.register("b", lambda *_: None)
        await asyncio.sleep(1)
        network.cut("b", "a", both=False)
        await asyncio.sleep(10)
        network.heal_all()
        await asyncio.sleep(1)

    run(main)
    assert told == [("b", up) for up in (True, False, True, False, True)]


# -- links over it


def _terms(role: str, node: int) -> Callable[[], Terms]:
    speaker = Speaker(Identity("c1", role, NodeId(node), f"i{node}"))
    return lambda: Terms(b"secret", speaker, lambda _: None)


class _Owner:
    """Of either side of a link: what it was told, and whether it deals with messages."""

    def __init__(self) -> None:
        self.ups: list[Speaker] = []
        self.downs = 0
        self.got: list[tuple[FrameKind, bytes]] = []
        self.rooms: list[tuple[FrameKind, int]] = []
        self.deals = True
        self.way: Any = None
        """What messages are dealt with on, and answers leave by."""

    def link_up(self, speaker: Speaker) -> None:
        self.ups.append(speaker)

    def link_down(self) -> None:
        self.downs += 1

    def message(self, kind: FrameKind, payload: bytes) -> None:
        self.got.append((kind, payload))
        if self.deals:
            self.way.dealt_with(kind, len(payload))

    def room(self, kind: FrameKind, size: int) -> None:
        self.rooms.append((kind, size))


class _Linked:
    """A caller at one address and an acceptor at another."""

    def __init__(self, loop: SimLoop) -> None:
        self.network = SimNetwork(loop, random.Random(1), NetworkProfile())
        self.near = _Owner()
        self.served: list[_Owner] = []
        self.acceptor = SimAcceptor(loop, self.network, "node", _terms("node", 2), self._welcome)
        caller = SimCaller(loop, self.network, "gateway")
        self.link = self.near.way = caller.link("node", _terms("gateway", 0), self.near)

    def _welcome(self, speaker: Speaker, wire: Wire) -> _Owner:
        owner = _Owner()
        owner.way = wire
        owner.link_up(speaker)
        self.served.append(owner)
        return owner


def _linked(scene: Callable[[_Linked], Coroutine[Any, Any, None]]) -> None:
    async def main(loop: SimLoop) -> None:
        linked = _Linked(loop)
        await asyncio.sleep(2)
        await scene(linked)

    run(main)


def test_a_link_is_proved_and_carries_messages_both_ways() -> None:
    """By the conversations of the product: greetings, frames and all."""

    async def scene(linked: _Linked) -> None:
        (served,) = linked.served
        assert [each.identity.role for each in served.ups] == ["gateway"]
        assert [each.identity.node_id for each in linked.near.ups] == [2]
        assert type(linked.link._wire) is Wire is type(served.way)
        assert type(served.way.talk) is Conversation
        assert type(served.way.talk.outbox) is Outbox
        long = bytes(range(256)) * (BYTES_OF_CLASS[FrameKind.BULK] // 256)
        linked.link.send(FrameKind.BULK, 1, long)
        linked.link.send(FrameKind.URGENT, 1, b"first")
        served.way.send(FrameKind.CALL, 1, b"back")
        await asyncio.sleep(2)
        assert served.got == [(FrameKind.URGENT, b"first"), (FrameKind.BULK, long)]
        assert linked.near.got == [(FrameKind.CALL, b"back")]
        assert linked.near.rooms == [(FrameKind.BULK, len(long))]
        assert linked.link.under_way(FrameKind.BULK) == 0

    _linked(scene)


@pytest.mark.parametrize("kind", CLASSES)
def test_the_limits_of_a_simulated_link_are_those_of_the_product(kind: FrameKind) -> None:
    """Whoever deals with nothing is sent its credit and no byte more, and other classes go on; the
    network carries any of it, and breaks no connection for its length."""

    async def scene(linked: _Linked) -> None:
        (served,) = linked.served
        served.deals = False
        message = bytes(min(BYTES_OF_CLASS[kind], 1024 * 1024))
        sent = 0
        with contextlib.suppress(NoCreditError):
            while sent <= 1000:
                linked.link.send(kind, sent, message)
                sent += 1
        assert sent * len(message) == CREDIT_BYTES[kind] == linked.link.under_way(kind)
        await asyncio.sleep(5)
        assert served.got == [(kind, message)] * sent
        with pytest.raises(NoCreditError):
            linked.link.send(kind, 1, message)
        other = FrameKind.CALL if kind is not FrameKind.CALL else FrameKind.URGENT
        linked.link.send(other, 1, b"goes on")
        await asyncio.sleep(1)
        assert served.got[-1] == (other, b"goes on")
        assert linked.network.stats.too_long == 0 and linked.near.downs == 0

    _linked(scene)


def test_a_narrow_link_carries_so_much_and_its_socket_takes_no_more() -> None:
    """What is beyond that stays in the conversation, where what is urgent goes past it."""

    async def scene(linked: _Linked) -> None:
        (served,) = linked.served
        linked.network.limit("gateway", "node", bytes_per_s=512 * 1024, latency_s=0.5)
        began = asyncio.get_running_loop().time()
        for flow in range(2):
            linked.link.send(FrameKind.BULK, flow, bytes(2 * 1024 * 1024))
        await asyncio.sleep(0.1)
        assert linked.link._wire is not None
        queued = linked.link._wire.talk.outbox.queued_bytes
        assert queued >= 4 * 1024 * 1024 - WRITE_BYTES - SLICE_BYTES
        await asyncio.sleep(3.5)
        linked.link.send(FrameKind.URGENT, 1, b"past it")
        while not served.got:
            await asyncio.sleep(0.05)
        assert served.got == [(FrameKind.URGENT, b"past it")]
        assert asyncio.get_running_loop().time() - began < 6.0
        while len(served.got) < 3:
            await asyncio.sleep(0.05)
        assert 8.5 <= asyncio.get_running_loop().time() - began < 8.8

    _linked(scene)


def test_a_simulated_sender_without_manners_is_ended_as_a_real_one() -> None:
    """Bytes that are no frames end the conversation at both ends; the next one is made."""

    async def scene(linked: _Linked) -> None:
        linked.link._write(b"\xff" * 64)
        await asyncio.sleep(3)
        assert linked.near.downs == 1 == linked.served[0].downs
        assert len(linked.served) == 2 and linked.link.is_up
        linked.link.send(FrameKind.CALL, 1, b"again")
        await asyncio.sleep(1)
        assert linked.served[1].got == [(FrameKind.CALL, b"again")]

    _linked(scene)


def test_the_simulator_has_no_frame_class_or_limit_of_its_own() -> None:
    """No module of the simulator defines a name that the product's links define, nor packs bytes
    into structures: what it takes from `svc_cluster.link` is all there is. Nor has it another way
    for entries, snapshots and formations than what carries them in a node."""
    package = importlib.import_module("svc_cluster.link")
    own: set[str] = set()
    for module in pkgutil.iter_modules(package.__path__):
        tree = ast.parse(Path(package.__path__[0], f"{module.name}.py").read_text())
        own |= _defined(tree)
    for way in (peers, peer_conversation, link_server):
        own |= _defined(ast.parse(inspect.getsource(way)))
    assert not {"call", "serve", "request"} & set(vars(SimNetwork))
    assert {"LinkPeers", "PeerConversation", "ROOM_BYTES", "PeerCaller", "CHUNKS_MAX"} <= own
    own = {name for name in own if not name.startswith("_") and name not in ("log", "T", "MIB")}
    assert {"Conversation", "Outbox", "Frame", "CREDIT_BYTES", "MESSAGE_BYTES_MAX"} <= own
    for path in sorted(Path(__file__).parent.glob("*.py")):
        tree = ast.parse(path.read_text())
        assert not _defined(tree) & own, path.name
        if path.name in ("adapters.py", "network.py"):
            imported = {alias.name for node in ast.walk(tree) for alias in _names(node)}
            assert "struct" not in imported, path.name


def _defined(tree: ast.Module) -> set[str]:
    """Classes, functions and values of a module's own."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def _names(node: ast.AST) -> list[ast.alias]:
    return node.names if isinstance(node, ast.Import | ast.ImportFrom) else []
