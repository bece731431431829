"""The simulated network keeps its connections' promises and breaks everything else."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import importlib
import pkgutil
import random
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from svc_cluster.base.ids import NodeId
from svc_cluster.base.limits import MESSAGE_BYTES_MAX
from svc_cluster.link.conversation import Conversation, Terms
from svc_cluster.link.credit import CREDIT_BYTES
from svc_cluster.link.credit import MESSAGE_BYTES_MAX as BYTES_OF_CLASS
from svc_cluster.link.frame import CLASSES, Kind
from svc_cluster.link.greeting import Speaker
from svc_cluster.link.handshake import Identity
from svc_cluster.link.outbox import NoCreditError, Outbox
from svc_cluster.link.wire import Wire
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


def _call_scene(scene: Scene) -> None:
    async def served(loop: SimLoop, network: SimNetwork, heard: list[str]) -> None:
        async def handler(data: bytes) -> bytes:
            heard.append(data.decode())
            await asyncio.sleep(0.5)
            return b"re " + data

        network.serve("b", handler)
        await scene(loop, network, heard)

    _play(served)


def test_a_call_is_answered() -> None:
    """Concurrent calls get each its own answer."""

    async def scene(_loop: SimLoop, network: SimNetwork, _heard: list[str]) -> None:
        answers = await asyncio.gather(*(network.call("a", "b", b"%d" % n) for n in range(20)))
        assert answers == [b"re %d" % n for n in range(20)]

    _call_scene(scene)


def test_nobody_there_is_a_refusal() -> None:
    """Then, and only then, the request certainly had no effect."""

    async def scene(_loop: SimLoop, network: SimNetwork, _heard: list[str]) -> None:
        with pytest.raises(ConnectionRefusedError):
            await network.call("a", "c", b"hello")

    _call_scene(scene)


def test_a_call_cut_on_the_way_back_was_carried_out() -> None:
    """The caller cannot tell: the ambiguity that clients must live with."""

    async def scene(_loop: SimLoop, network: SimNetwork, heard: list[str]) -> None:
        call = asyncio.ensure_future(network.call("a", "b", b"write"))
        await asyncio.sleep(0.1)
        network.cut("b", "a", both=False)
        with pytest.raises(ConnectionError):
            await call
        assert heard == ["write"]
        network.cut("a", "b", both=False)
        with pytest.raises(ConnectionError):
            await network.call("a", "b", b"lost")
        assert heard == ["write"]

    _call_scene(scene)


def test_calls_to_a_crashed_process_fail_and_its_own_vanish() -> None:
    """The survivor is told; the dead one is not even asked."""

    async def main(loop: SimLoop) -> list[str]:
        network = SimNetwork(loop, random.Random(1))
        seen: list[str] = []

        async def handler(data: bytes) -> bytes:
            seen.append("asked " + data.decode())
            await asyncio.sleep(5)
            return b""

        async def ask(sender: str, to: str) -> None:
            try:
                await network.call(sender, to, sender.encode())
            finally:
                seen.append(f"{sender} is done")

        b = loop.incarnation("b")
        b.run(network.serve, "b", handler)
        network.serve("a", handler)
        task = asyncio.ensure_future(ask("a", "b"))
        b.spawn(ask("b", "a"), "ask")
        await asyncio.sleep(1)
        b.kill()
        network.crash("b")
        with pytest.raises(ConnectionResetError):
            await task
        await asyncio.sleep(10)
        return sorted(seen)

    assert run(main) == ["a is done", "asked a", "asked b"]


# -- links over it


def _terms(role: str, node: int) -> Callable[[], Terms]:
    speaker = Speaker(Identity("c1", role, NodeId(node), f"i{node}"))
    return lambda: Terms(b"secret", speaker, lambda _: None)


class _Owner:
    """Of either side of a link: what it was told, and whether it deals with messages."""

    def __init__(self) -> None:
        self.ups: list[Speaker] = []
        self.downs = 0
        self.got: list[tuple[Kind, bytes]] = []
        self.rooms: list[tuple[Kind, int]] = []
        self.deals = True
        self.way: Any = None
        """What messages are dealt with on, and answers leave by."""

    def link_up(self, speaker: Speaker) -> None:
        self.ups.append(speaker)

    def link_down(self) -> None:
        self.downs += 1

    def message(self, kind: Kind, payload: bytes) -> None:
        self.got.append((kind, payload))
        if self.deals:
            self.way.dealt_with(kind, len(payload))

    def room(self, kind: Kind, size: int) -> None:
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
        long = bytes(range(256)) * (BYTES_OF_CLASS[Kind.BULK] // 256)
        linked.link.send(Kind.BULK, 1, long)
        linked.link.send(Kind.URGENT, 1, b"first")
        served.way.send(Kind.CALL, 1, b"back")
        await asyncio.sleep(2)
        assert served.got == [(Kind.URGENT, b"first"), (Kind.BULK, long)]
        assert linked.near.got == [(Kind.CALL, b"back")]
        assert linked.near.rooms == [(Kind.BULK, len(long))]
        assert linked.link.under_way(Kind.BULK) == 0

    _linked(scene)


@pytest.mark.parametrize("kind", CLASSES)
def test_the_limits_of_a_simulated_link_are_those_of_the_product(kind: Kind) -> None:
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
        other = Kind.CALL if kind is not Kind.CALL else Kind.URGENT
        linked.link.send(other, 1, b"goes on")
        await asyncio.sleep(1)
        assert served.got[-1] == (other, b"goes on")
        assert linked.network.stats.too_long == 0 and linked.near.downs == 0

    _linked(scene)


def test_a_simulated_sender_without_manners_is_ended_as_a_real_one() -> None:
    """Bytes that are no frames end the conversation at both ends; the next one is made."""

    async def scene(linked: _Linked) -> None:
        linked.link._write(b"\xff" * 64)
        await asyncio.sleep(3)
        assert linked.near.downs == 1 == linked.served[0].downs
        assert len(linked.served) == 2 and linked.link.is_up
        linked.link.send(Kind.CALL, 1, b"again")
        await asyncio.sleep(1)
        assert linked.served[1].got == [(Kind.CALL, b"again")]

    _linked(scene)


def test_the_simulator_has_no_frame_class_or_limit_of_its_own() -> None:
    """No module of the simulator defines a name that the product's links define, nor packs bytes
    into structures: what it takes from `svc_cluster.link` is all there is."""
    package = importlib.import_module("svc_cluster.link")
    own: set[str] = set()
    for module in pkgutil.iter_modules(package.__path__):
        tree = ast.parse(Path(package.__path__[0], f"{module.name}.py").read_text())
        own |= _defined(tree)
    own = {name for name in own if not name.startswith("_") and name not in ("log", "T")}
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
