"""Conversations over real sockets of the loopback interface, on both event loops."""

from __future__ import annotations

import asyncio
import gc
import socket
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from svc_cluster.base.ids import NodeId
from svc_cluster.cli.admin import authority as authority_module
from svc_cluster.cli.admin.authority import issue
from svc_cluster.link import acceptor as acceptor_module
from svc_cluster.link import outbox as outbox_module
from svc_cluster.link import wire as wire_module
from svc_cluster.link.acceptor import UNPROVEN_MAX, Acceptor
from svc_cluster.link.conversation import Terms
from svc_cluster.link.credit import CREDIT_BYTES, MESSAGE_BYTES_MAX
from svc_cluster.link.frame import HEADER, FrameKind, encode_frame
from svc_cluster.link.greeting import Speaker
from svc_cluster.link.handshake import HandshakeError, Identity
from svc_cluster.link.link_errors import LinkLostError
from svc_cluster.link.outbox import NoCreditError
from svc_cluster.link.tls import PeerTls, node_name
from svc_cluster.link.wire import PING_SECONDS
from tests.unit.link.wires import Called, Pki, Served, listening, listening_securely, secure, terms


def test_messages_arrive_whole_and_in_order_both_ways(run: Callable[..., None]) -> None:
    async def body() -> None:
        async with listening() as pair:
            called = Called()
            connector = pair.connector(called)
            connector.start()
            assert (await called.ups.get()).identity.node_id == 2
            served = await pair.served.get()
            assert served.speaker.identity.node_id == 1
            large = bytes(range(256)) * (MESSAGE_BYTES_MAX[FrameKind.BULK] // 256)
            connector.send(FrameKind.BULK, 1, large)
            for number in range(100):
                connector.send(FrameKind.CALL, 1, b"%d" % number)
            got = [await served.got.get() for _ in range(101)]
            assert [p for k, p in got if k is FrameKind.CALL] == [b"%d" % n for n in range(100)]
            assert [p for k, p in got if k is FrameKind.BULK] == [large]
            served.wire.send(FrameKind.CALL, 1, b"answer")
            assert await called.got.get() == (FrameKind.CALL, b"answer")
            await connector.close()
            await served.down.wait()
            assert called.downs == 1

    run(body())


def test_a_frame_that_cannot_be_made_ends_the_conversation_at_once(
    run: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ends hear of it long before they miss a sign of life, and the next conversation has
    nothing of it: what comes then arrives."""
    faults = [ZeroDivisionError("planted")]

    def broken(kind: FrameKind, payload: bytes, *, series: int = 0, more: bool = False) -> bytes:
        if faults:
            raise faults.pop()
        return encode_frame(kind, payload, series=series, more=more)

    async def body() -> None:
        told: list[object] = []
        handler = asyncio.get_running_loop().set_exception_handler
        async with listening() as pair:
            called = Called()
            connector = pair.connector(called)
            connector.start()
            await called.ups.get()
            first = await pair.served.get()
            handler(lambda _, context: told.append(context["exception"]))
            monkeypatch.setattr(outbox_module, "encode_frame", broken)
            connector.send(FrameKind.CALL, 1, b"lost")
            async with asyncio.timeout(PING_SECONDS / 2):
                await first.down.wait()
                await called.ups.get()
            handler(None)
            assert [repr(fault) for fault in told] == ["ZeroDivisionError('planted')"]
            connector.send(FrameKind.CALL, 1, b"after")
            assert await (await pair.served.get()).got.get() == (FrameKind.CALL, b"after")
            assert called.downs == 1
            await connector.close()

    run(body())


def test_a_wrong_secret_is_refused_at_both_ends_and_tried_again(run: Callable[..., None]) -> None:
    """Nobody is told of a conversation; the acceptor counts each attempt."""

    async def body() -> None:
        async with listening() as pair:
            called = Called()
            connector = pair.connector(called, secret=b"x" * 32)
            connector.start()
            while pair.acceptor.refusals < 2:
                await asyncio.sleep(0)
            with pytest.raises(LinkLostError):
                connector.send(FrameKind.CALL, 1, b"x")
            assert called.ups.empty() and called.downs == 0 and pair.served.empty()
            await connector.close()

    run(body())


def test_an_unwanted_caller_hears_the_reason(run: Callable[..., None]) -> None:
    """The acceptor's own check decides behind the proof, and what it says reaches the caller."""
    speaker = Speaker(Identity("c1", "node", NodeId(2), "i1"))

    def check(speaker: Speaker) -> None:
        raise HandshakeError(f"node {speaker.identity.node_id} is not wanted")

    async def body() -> None:
        async with listening(lambda: Terms(b"s" * 32, speaker, check)) as pair:
            reader, writer = await asyncio.open_connection("127.0.0.1", pair.port)
            writer.close()
            called = Called()
            connector = pair.connector(called)
            connector.start()
            while connector._last_reason != "node 1 is not wanted":
                await asyncio.sleep(0)
            assert called.ups.empty() and pair.served.empty()
            await connector.close()
            await writer.wait_closed()
            del reader

    run(body())


def test_a_peer_that_does_not_read_costs_its_credit_and_no_more(run: Callable[..., None]) -> None:
    """The other side's socket is not read at all: what the sender holds stays below the credit,
    each further message is refused, and what is urgent is still taken."""

    async def body() -> None:
        async with listening() as pair:
            called = Called()
            connector = pair.connector(called)
            connector.start()
            await called.ups.get()
            served = await pair.served.get()
            assert served.wire._transport is not None
            served.wire._transport.pause_reading()
            message = bytes(256 * 1024)
            refused = 0
            for turn in range(400):
                try:
                    connector.send(FrameKind.BULK, turn % 7, message)
                except NoCreditError:
                    refused += 1
                await asyncio.sleep(0)
                assert connector.held_bytes <= CREDIT_BYTES[FrameKind.BULK]
            assert refused == 400 - CREDIT_BYTES[FrameKind.BULK] // len(message)
            connector.send(FrameKind.URGENT, 1, b"heartbeat")
            served.wire._transport.resume_reading()
            got = [
                await served.got.get()
                for _ in range(CREDIT_BYTES[FrameKind.BULK] // len(message) + 1)
            ]
            assert (FrameKind.URGENT, b"heartbeat") in got
            connector.send(FrameKind.BULK, 1, message)
            await served.got.get()
            await connector.close()

    run(body())


def test_the_caller_comes_back_when_the_other_side_does(run: Callable[..., None]) -> None:
    """An ended conversation is told once, and made again by itself under the same address."""

    async def body() -> None:
        called = Called()
        async with listening() as pair:
            connector = pair.connector(called)
            connector.start()
            await called.ups.get()
            (await pair.served.get()).wire.close("restart")
            await called.ups.get()
            assert called.downs == 1
            served = await pair.served.get()
            connector.send(FrameKind.CALL, 1, b"again")
            assert await served.got.get() == (FrameKind.CALL, b"again")
        await connector.close()
        assert called.downs == 2

    run(body())


def test_a_fault_of_the_owner_does_not_end_the_link_for_ever(run: Callable[..., None]) -> None:
    """An exception while a message is taken costs this conversation; the next one is made."""

    async def body() -> None:
        async with listening() as pair:

            class Faulty(Called):
                def message(self, kind: FrameKind, payload: bytes) -> None:
                    super().message(kind, payload)
                    if payload == b"poison":
                        raise ValueError(payload)

            called = Faulty()
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(lambda *_: None)
            connector = pair.connector(called)
            connector.start()
            await called.ups.get()
            (await pair.served.get()).wire.send(FrameKind.CALL, 1, b"poison")
            await called.ups.get()
            (await pair.served.get()).wire.send(FrameKind.CALL, 1, b"food")
            assert [(await called.got.get())[1] for _ in range(2)] == [b"poison", b"food"]
            assert called.downs == 1
            await connector.close()

    run(body())


def test_a_link_is_made_again_whatever_its_owner_does(
    run: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    """A bug of the owner's while a connection is begun, and one while it is told of its end: each
    is logged, and the next connection is made; so is the end itself, at warning."""

    async def body() -> None:
        async with listening() as pair:

            class Faulty(Called):
                def link_down(self) -> None:
                    super().link_down()
                    if self.downs == 1:
                        raise ValueError("told of the end")

            loop = asyncio.get_running_loop()
            faults: list[object] = []
            loop.set_exception_handler(lambda _, context: faults.append(context))
            called = Faulty()
            connector = pair.connector(called)
            own, begun = connector._terms, [0]

            def faulty_terms() -> Terms:
                begun[0] += 1
                if begun[0] == 1:
                    raise ValueError("while it is begun")
                return own()

            connector._terms = faulty_terms
            connector.start()
            for turn in range(4):
                while called.ups.empty() and connector._tasks:
                    await asyncio.sleep(0)
                assert connector._tasks, "it is never made again"
                await called.ups.get()
                if turn < 3:
                    (await pair.served.get()).wire.close("restart")
            assert called.downs == 3 and begun[0] == 5
            assert not faults, "the link has told of it"
            await connector.close()

    caplog.set_level("WARNING")
    run(body())
    logged = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert [level for level, text in logged if text == "link_failed"] == ["ERROR"] * 2
    assert ("WARNING", "link_ended") in logged


def test_callers_that_prove_nothing_are_few_and_short(run: Callable[..., None]) -> None:
    """Beyond UNPROVEN_MAX a connection is refused at once, 15 MiB from each of them are not kept,
    they are ended when their time is over, and a proven caller gets in behind them."""

    async def body() -> None:
        async with listening() as pair:
            strangers = [
                await asyncio.open_connection("127.0.0.1", pair.port) for _ in range(UNPROVEN_MAX)
            ]
            while pair.acceptor.unproven < UNPROVEN_MAX:
                await asyncio.sleep(0)
            reader, writer = await asyncio.open_connection("127.0.0.1", pair.port)
            said = await reader.read()
            assert b"too many callers have not proved themselves" in said
            writer.close()
            for _, stranger in strangers:
                stranger.write(bytes(64 * 1024))
            for connection in list(pair.acceptor._unproven):
                assert connection.wire.talk.held_bytes <= 4096 + HEADER.size
                connection.wire._greeting_is_over()
            while pair.acceptor.unproven:
                await asyncio.sleep(0)
            assert not pair.acceptor._connections
            called = Called()
            connector = pair.connector(called)
            connector.start()
            await called.ups.get()
            await connector.close()
            for _, stranger in strangers:
                stranger.close()

    run(body())


def test_a_silent_side_is_given_up(
    run: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is frozen keeps its connections and says nothing: it is asked, and after
    SILENCE_SECONDS_MAX the conversation is over and everything that waited for it is let go."""
    monkeypatch.setattr(wire_module, "GREETING_SECONDS", 0.05)
    monkeypatch.setattr(wire_module, "PING_SECONDS", 0.05)
    monkeypatch.setattr(wire_module, "SILENCE_SECONDS_MAX", 0.4)

    async def body() -> None:
        async with listening() as pair:
            called = Called()
            connector = pair.connector(called)
            connector.start()
            await called.ups.get()
            served = await pair.served.get()
            wire = connector._wire
            assert wire is not None and served.wire._transport is not None
            served.wire._transport.pause_reading()
            served.wire.give_up = lambda reason: None  # type: ignore[method-assign]
            connector.send(FrameKind.BULK, 1, bytes(MESSAGE_BYTES_MAX[FrameKind.BULK]))
            while called.downs == 0:
                await asyncio.sleep(0)
            assert wire.talk.end is not None and "no sign of life" in wire.talk.end
            assert wire.talk.held_bytes == 0
            served.wire._transport.abort()
            await connector.close()

    run(body())


def test_idle_sides_that_answer_stay_connected(
    run: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pings are answered by the wire itself: silence of the owners is no reason to end."""
    monkeypatch.setattr(wire_module, "GREETING_SECONDS", 0.02)
    monkeypatch.setattr(wire_module, "PING_SECONDS", 0.02)
    monkeypatch.setattr(wire_module, "SILENCE_SECONDS_MAX", 0.5)

    async def body() -> None:
        async with listening() as pair:
            called = Called()
            connector = pair.connector(called)
            connector.start()
            await called.ups.get()
            served = await pair.served.get()
            loop = asyncio.get_running_loop()
            until = loop.time() + 1.5
            while loop.time() < until:
                await asyncio.sleep(0.05)
            assert called.downs == 0 and not served.down.is_set()
            await connector.close()

    run(body())


def test_callers_that_are_turned_away_are_told_in_few_lines(
    run: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    """Ten strangers from one address are one line, with the reason; each is counted."""

    async def body() -> None:
        async with listening() as pair:
            for _ in range(10):
                reader, writer = await asyncio.open_connection("127.0.0.1", pair.port)
                writer.write(bytes(HEADER.size) + b"no greeting")
                await reader.read()
                writer.close()
            while pair.acceptor.refusals < 10:
                await asyncio.sleep(0)

    caplog.set_level("WARNING")
    run(body())
    assert [record.getMessage() for record in caplog.records] == ["caller_refused"]


def test_an_address_that_is_taken_is_an_error_at_the_start(run: Callable[..., None]) -> None:
    async def body() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            acceptor = Acceptor(
                asyncio.get_running_loop(),
                terms("node", 2),
                lambda speaker, wire: Served(speaker, wire),
            )
            with pytest.raises(OSError, match="in use"):
                await acceptor.start("127.0.0.1", taken.getsockname()[1])

    run(body())


def test_a_certificate_says_who_may_claim_what(run: Callable[..., None], tmp_path: Path) -> None:
    """Under TLS a node's certificate carries a node's claim and a gateway's a gateway's; a
    gateway's does not pass as a node's although its holder knows the secret."""
    pki = Pki(tmp_path)
    own = pki.tls("node2", node=2)
    gateway, node = pki.tls("gateway", gateway=True), pki.tls("node1", node=1)

    async def body() -> None:
        async with listening_securely(own) as pair:
            for tls, role, number in ((node, "node", 1), (gateway, "gateway", 0)):
                called = Called()
                connector = secure(pair, called, tls, role, number)
                connector.start()
                await called.ups.get()
                served = await pair.served.get()
                connector.send(FrameKind.BULK, 1, bytes(3_000_000))
                assert len((await served.got.get())[1]) == 3_000_000
                await connector.close()
            called = Called()
            connector = secure(pair, called, gateway, "node", 1)
            connector.start()
            wanted = "the caller's certificate is not one for node-1.svc-cluster.internal"
            while not connector._last_reason and called.ups.empty():
                await asyncio.sleep(0)
            assert called.ups.empty() and pair.served.empty()
            assert connector._last_reason == wanted
            await connector.close()

    run(body())


def test_a_node_is_who_the_alternative_names_say(
    run: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other authorities write what they like into a subject: its common name makes nobody a node,
    in a certificate that is for an address alone."""
    pki = Pki(tmp_path)
    own = pki.tls("node1", node=1)
    make_name = authority_module._name
    with monkeypatch.context() as patched:
        patched.setattr(authority_module, "_name", lambda _: make_name(node_name(NodeId(2))))
        issue(pki.authority, ["127.0.0.1"], tmp_path / "odd")
    odd = PeerTls(*(tmp_path / "odd" / name for name in ("tls.crt", "tls.key", "ca.crt")))

    async def body() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        async with listening_securely(odd) as pair:
            called = Called()
            connector = secure(pair, called, own, "node", 1)
            connector.start()
            while not connector._last_reason and called.ups.empty():
                await asyncio.sleep(0)
            assert called.ups.empty() and pair.served.empty()
            assert "certificate" in connector._last_reason
            await connector.close()

    run(body())


def test_strangers_do_not_get_through_the_handshake_of_tls(
    run: Callable[..., None], tmp_path: Path
) -> None:
    """A certificate of another CA, and plain text: nothing of ours is read from them."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    own = Pki(tmp_path / "a").tls("node2", node=2)
    foreign = Pki(tmp_path / "b").tls("node1", node=1)

    async def body() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda *_: None)
        async with listening_securely(own) as pair:
            called = Called()
            connector = secure(pair, called, foreign, "node", 1)
            connector.start()
            while not connector._last_reason:
                await asyncio.sleep(0)
            plain = Called()
            clear = pair.connector(plain)
            clear.start()
            while not clear._last_reason:
                await asyncio.sleep(0)
            assert called.ups.empty() and plain.ups.empty() and pair.served.empty()
            await connector.close()
            await clear.close()

    run(body())


def test_an_acceptor_that_stops_amid_handshakes_leaves_no_socket(
    run: Callable[..., None], tmp_path: Path
) -> None:
    """Neither of a caller that is in the middle of one, nor of one whose turn has not begun."""
    own = Pki(tmp_path).tls("node2", node=2)

    async def body() -> None:
        loop = asyncio.get_running_loop()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            async with listening_securely(own) as pair:
                callers = [socket.create_connection(("127.0.0.1", pair.port)) for _ in range(9)]
                while pair.acceptor.unproven < len(callers):
                    await asyncio.sleep(0)
                taken = [socket.socketpair() for _ in range(3)]
                for sock, _ in taken:
                    sock.setblocking(False)
                    pair.acceptor._begin(sock, "here")  # and not one turn for it
            await asyncio.sleep(0)
            assert all(sock.fileno() == -1 for sock, _ in taken)
            for one in [*callers, *(other for _, other in taken)]:
                one.setblocking(False)
                assert await loop.sock_recv(one, 1) == b"", "it is told"
                one.close()
            del taken
            gc.collect()
        assert [str(one.message) for one in told if one.category is ResourceWarning] == []

    run(body())


def test_handshakes_of_tls_are_few_and_short(
    run: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections that are accepted and begin no handshake are unproven callers like any other:
    beyond UNPROVEN_MAX the next is closed at once, none stays beyond its time, each is counted as
    turned away, and a proven caller gets in behind them."""
    monkeypatch.setattr(acceptor_module, "GREETING_SECONDS", 2.0)
    pki = Pki(tmp_path)
    own, caller = pki.tls("node2", node=2), pki.tls("node1", node=1)

    async def body() -> None:
        async with listening_securely(own) as pair:
            strangers = [
                await asyncio.open_connection("127.0.0.1", pair.port) for _ in range(UNPROVEN_MAX)
            ]
            while pair.acceptor._shaking_hands < UNPROVEN_MAX:
                await asyncio.sleep(0)
            assert pair.acceptor.unproven == UNPROVEN_MAX
            reader, writer = await asyncio.open_connection("127.0.0.1", pair.port)
            assert await reader.read() == b"", "closed without a word of TLS"
            writer.close()
            assert pair.acceptor.refusals == 1
            assert pair.acceptor.unproven == UNPROVEN_MAX
            for silent, _ in strangers:
                assert await silent.read() == b"", "its time is over"
            while pair.acceptor.unproven:
                await asyncio.sleep(0)
            assert pair.acceptor.refusals == 1 + UNPROVEN_MAX
            called = Called()
            connector = secure(pair, called, caller, "node", 1)
            connector.start()
            await called.ups.get()
            assert pair.acceptor.unproven == 0
            await connector.close()
            for _, stranger in strangers:
                stranger.close()

    run(body())
