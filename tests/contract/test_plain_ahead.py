"""What a client sends ahead, behind a plain request that is being answered, has its bounds, and
goes over to the library as it came."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import AsyncIterator
from typing import Final

import pytest

from svc_cluster.http import http1_plain, intake
from svc_cluster.http.connection import TimeLimits
from svc_cluster.http.http1_plain import BODY_BYTES_MAX, PlainConnection
from svc_cluster.http.message import Request, Response
from tests.contract.plain_client import (
    ENTIRE,
    HEAD,
    LAST,
    Reads,
    all_of,
    answer,
    arrive,
    connected,
    post,
    reset,
    some,
    wait_until,
)
from tests.contract.scripted_app import DEADLINE, Peer, ScriptedApp, run_client

READ_BYTES_MAX: Final = 256 * 1024
"""What one read of the event loop brings."""


def test_whoever_goes_on_sending_while_answers_come_is_held_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each answer makes room for what is there, not for more: the bound holds at all times."""
    largest = 0
    bound = http1_plain._AHEAD_BYTES_MAX + READ_BYTES_MAX
    received = PlainConnection.data_received

    def watched(self: PlainConnection, data: bytes) -> None:
        nonlocal largest
        received(self, data)
        largest = max(largest, len(self._unparsed))

    monkeypatch.setattr(PlainConnection, "data_received", watched)

    def script(peer: Peer) -> None:
        blob = HEAD * 20_000
        left = 40 * len(blob)
        ended = 0
        last = b""
        with connected(peer) as sock:
            sock.setblocking(False)
            while ended < 3000 and largest <= bound:
                readable, writable, _ = select.select([sock], [sock], [], DEADLINE)
                assert readable or writable, "nothing moves"
                if readable:
                    last = last[1 - len(b"GET /head") :] + some(sock, 1 << 20)
                    ended += last.count(b"GET /head")
                if writable and left:
                    sent = sock.send(blob[-left % len(blob) :])
                    left -= sent
            reset(sock)

    run_client(script)
    assert largest > http1_plain._AHEAD_BYTES_MAX, "it was put to the test"
    assert largest <= bound


def test_the_library_takes_over_a_connection_that_was_held_back() -> None:
    def script(peer: Peer) -> None:
        body = bytes(3 * BODY_BYTES_MAX)
        with connected(peer) as sock:
            sock.sendall(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n")
            arrive(peer, 1)
            sender = threading.Thread(target=sock.sendall, args=[post(b"/length", body) + LAST])
            sender.start()
            (connection,) = peer.server._http1._plain.open
            wait_until(lambda: connection._is_paused, "it is not held back")
            peer.go()
            assert answer(sock).endswith(b"waited")
            assert answer(sock).endswith(str(len(body)).encode())
            assert answer(sock).endswith(b"GET /last")
            sender.join()

    run_client(script)


def test_the_library_hears_what_comes_behind_a_connection_that_was_held_back() -> None:
    """Also where it has no reason of its own to take up reading: what was held back is within its
    bounds, and the next request comes when all of that is answered."""
    fields = b"".join(b"x-%d: %b\r\n" % (n, b"a" * 5000) for n in range(4))
    odd = ENTIRE.replace(b"\r\n\r\n", b"\r\n" + fields + b"\r\n")
    count = http1_plain._AHEAD_BYTES_MAX // len(odd) + 2

    def script(peer: Peer) -> None:
        with connected(peer) as sock:
            sock.sendall(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n")
            arrive(peer, 1)
            sock.sendall(odd * count)
            (connection,) = peer.server._http1._plain.open
            wait_until(lambda: connection._is_paused, "it is not held back")
            peer.go()
            assert answer(sock).endswith(b"waited")
            for _ in range(count):
                assert answer(sock).endswith(b"GET /entire")
            sock.sendall(LAST)
            assert answer(sock).endswith(b"GET /last")

    run_client(script)


def test_what_follows_a_stream_begins_with_nothing_kept_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A last chunk may be what fills the bound of what is unsent. Whoever takes the connection over
    would not know, and write for a client that reads nothing, with no deadline."""
    made = 0

    async def brim(connection: PlainConnection) -> AsyncIterator[bytes]:
        transport = connection._transport
        assert transport is not None
        high = transport.get_write_buffer_limits()[1]
        while (unsent := transport.get_write_buffer_size()) < high - 24_000:
            yield b"x" * 20_000
        left = high - 2 - unsent
        yield b"x" * (left - len(b"%x\r\n\r\n" % left))

    async def large() -> AsyncIterator[bytes]:
        nonlocal made
        for _ in range(1000):
            made += 1
            yield b"x" * 65_536

    async def told(self: ScriptedApp, request: Request) -> Response:
        if request.raw_path != "/brim":
            return Response(200, [], self._told(large()))
        (connection,) = peers[0].server._http1._plain.open
        return Response(200, [], brim(connection))

    monkeypatch.setattr(ScriptedApp, "_answer", told)
    peers: list[Peer] = []

    def script(peer: Peer) -> None:
        peers.append(peer)
        with connected(peer) as sock:
            sock.sendall(b"GET /brim HTTP/1.1\r\nhost: x\r\n\r\n" + ENTIRE)
            until = time.monotonic() + DEADLINE
            while not peer.server.connections:
                assert time.monotonic() < until, "it does not begin"
                time.sleep(0.01)
            while peer.server.connections:
                assert time.monotonic() < until, "nobody ends it"
                time.sleep(0.01)
        assert made <= 1

    run_client(script, limits=TimeLimits(write=0.3))


@pytest.mark.parametrize("together", [True, False])
def test_a_long_head_behind_an_answer_is_no_late_one(
    monkeypatch: pytest.MonkeyPatch, together: bool
) -> None:
    """It is whole, though not plain: the library has it once the answer has left. A head that is
    not, and began later, is late by then."""
    reads = Reads(monkeypatch)
    fields = b"".join(b"x-%d: %b\r\n" % (n, b"a" * 5000) for n in range(4))
    long = b"GET /long HTTP/1.1\r\nhost: x\r\n" + fields + b"\r\n"

    def script(peer: Peer) -> None:
        first = b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n"
        with connected(peer) as sock:
            sock.sendall(first + long if together else first)
            arrive(peer, 1)
            if not together:
                sock.sendall(long)
            reads.reach(len(first) + len(long))
            with connected(peer) as late:
                late.sendall(long[:20])
                all_of(late)
            wait_until(lambda: peer.server.heads.bytes == 0, "it is counted as begun")
            peer.go()
            assert answer(sock).endswith(b"waited")
            assert answer(sock).endswith(b"GET /long")

    run_client(script, limits=TimeLimits(header=0.2))


@pytest.mark.parametrize("together", [True, False])
def test_a_head_that_begins_behind_an_answer_has_its_deadline(together: bool) -> None:
    """And is counted, with those that others have begun; whether it came with the request before
    it or after."""

    def script(peer: Peer) -> None:
        begun = b"GET /next HTTP/1.1\r\nho"
        first = b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n"
        with connected(peer) as sock:
            sock.sendall(first + begun if together else first)
            arrive(peer, 1)
            if not together:
                sock.sendall(begun)
            until = time.monotonic() + DEADLINE
            while peer.server.heads.bytes != len(begun):
                assert time.monotonic() < until, "it is not counted"
                time.sleep(0.01)
            assert all_of(sock) == b""
            assert peer.next_end() == "cancelled"
            assert peer.server.heads.bytes == 0

    run_client(script, limits=TimeLimits(header=1.0))


def test_a_large_buffer_does_not_go_with_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the large ones there is a bound, which changing hands does not go around."""
    monkeypatch.setattr(intake, "FAST_MAX", 1)
    held: list[int] = []
    enlarge = intake.Intake._enlarge

    def watched(self: intake.Intake) -> None:
        enlarge(self)
        large.append(self._transport.get_extra_info("socket"))

    large: list[socket.socket] = []
    monkeypatch.setattr(intake.Intake, "_enlarge", watched)

    def script(peer: Peer) -> None:
        with contextlib.ExitStack() as stack:
            for _ in range(3):
                sock = stack.enter_context(connected(peer))
                for _ in range(4):
                    sock.sendall(post(b"/length", bytes(60_000)))
                    assert answer(sock).endswith(b"60000")
                sock.sendall(ENTIRE)
                assert answer(sock).endswith(b"GET /entire")
            held.extend(one.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) for one in large)

    run_client(script)
    assert len(held) == 3, "each was fast while it was plain"
    assert max(held) < intake.RECEIVE_BYTES_FAST
