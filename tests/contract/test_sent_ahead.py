"""What all clients together send over HTTP/1.1 before its turn has one bound, whoever serves them,
and an answer holds no more of a page than its client reads."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable
from typing import Final

import pytest

from svc_cluster.base.metrics import Metrics
from svc_cluster.http import http1_plain, intake
from svc_cluster.http.connection import HEADER_BYTES_MAX, TimeLimits
from svc_cluster.http.http1_answer import SLICE_BYTES
from svc_cluster.http.http1_connection import Http1Connection
from svc_cluster.http.message import Request, Response
from svc_cluster.http.sniff import WRITE_BYTES_MAX
from tests.contract.plain_client import (
    ENTIRE,
    HEAD,
    all_of,
    answer,
    arrive,
    connected,
    post,
    reset,
)
from tests.contract.scripted_app import DEADLINE, Peer, ScriptedApp, run_client

CONNECTIONS: Final = 24
BOUND: Final = 64 * 1024
AHEAD: Final = post(b"/length", bytes(40_000))[:12_000]
"""A head and the beginning of its body."""
WAIT: Final = b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n"
ODD_WAIT: Final = b"GET /wait HTTP/1.1\r\nhost: x\r\nte: trailers\r\n\r\n"
ODD_ENDLESS: Final = b"GET /endless HTTP/1.1\r\nhost: x\r\nte: trailers\r\n\r\n"
HALF: Final = b"GET /half HTTP/1.1\r\nhost: x"
REFUSED: Final = post(b"/length", b"x" * 20).replace(b"host", b"expect: 1\r\nexpect: 2\r\nhost")
WHOLE: Final = post(b"/length", bytes(10_000))
NO_HEAD: Final = b"not a head\r\n\r\n"
PAGE: Final = bytes(range(256)) * 4096
"""1 MiB."""


def _until(holds: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < until, what
        time.sleep(0.01)


def _kept(peer: Peer) -> int:
    """What is really there of requests that are nobody's turn yet."""
    http1 = peer.server._http1
    kept = sum(len(each._unparsed) for each in list(http1._plain.open))
    for each in list(http1.manager.connections):
        assert isinstance(each, Http1Connection)
        kept += len(each._unparsed)
        kept += sum(getattr(payload, "_size", 0) for _, payload in list(each._messages))
    return kept


@pytest.mark.parametrize("first", [WAIT, ODD_WAIT], ids=["plain", "library"])
def test_what_is_sent_ahead_has_a_bound_on_all_connections_together(
    monkeypatch: pytest.MonkeyPatch, first: bytes
) -> None:
    """What finds no room is not kept: its connection ends with the answer under way, which says so
    and comes whole. Where there was room all is answered; and with the last nothing is held."""
    monkeypatch.setattr(intake, "AHEAD_BYTES_MAX", BOUND)
    gauge = Metrics().http_unread_body_bytes

    def script(peer: Peer) -> None:
        intakes = peer.server._http1._common.intakes
        with contextlib.ExitStack() as stack:
            socks = [stack.enter_context(connected(peer)) for _ in range(CONNECTIONS)]
            for sock in socks:
                sock.sendall(first)
            arrive(peer, CONNECTIONS)
            for sock in socks:
                sock.sendall(AHEAD)
            _until(lambda: intakes.ahead + len(AHEAD) > BOUND, "little is held")
            time.sleep(0.2)
            assert 0 < intakes.ahead <= BOUND
            assert gauge._value.get() == intakes.ahead
            assert _kept(peer) <= BOUND
            peer.go()
            answers = [answer(sock) for sock in socks]
            assert all(one.endswith(b"waited") for one in answers)
            last = [b"connection: close" in one for one in answers]
            assert last.count(False) == BOUND // len(AHEAD)
            for sock, is_last in zip(socks, last, strict=True):
                if is_last:
                    assert all_of(sock) == b""
                else:
                    sock.sendall(bytes(28_000 + len(post(b"/length", bytes(40_000))) - 40_000))
                    assert answer(sock).endswith(b"40000")
            _until(lambda: intakes.ahead == 0, "something stays counted")

    run_client(script, unread_gauge=gauge)


@pytest.mark.parametrize("behind", [WHOLE * 4, WHOLE * 4 + NO_HEAD])
@pytest.mark.parametrize("at_once", [True, False])
def test_what_is_ahead_stays_counted_behind_each_answer(
    monkeypatch: pytest.MonkeyPatch, behind: bytes, at_once: bool
) -> None:
    """The next answer is no end of what is behind it: all of that is still there, and it is counted
    as it came, together with the request in front of it or later."""
    monkeypatch.setattr(intake, "AHEAD_BYTES_MAX", BOUND)

    def script(peer: Peer) -> None:
        intakes = peer.server._http1._common.intakes
        with connected(peer) as sock:
            if at_once:
                sock.sendall(ENTIRE + ODD_ENDLESS + behind)
            else:
                sock.sendall(ODD_WAIT)
                arrive(peer, 1)
                sock.sendall(ODD_ENDLESS + behind)
                _until(lambda: intakes.ahead == len(ODD_ENDLESS + behind), "not all is held")
                peer.go()
            assert answer(sock).startswith(b"HTTP/1.1 200 OK\r\n")
            arrive(peer, 2)
            _until(lambda: intakes.ahead == len(behind), f"{intakes.ahead}, not {len(behind)}")
            time.sleep(0.1)
            assert intakes.ahead == len(behind)
            assert _kept(peer) >= 30_000
            reset(sock)
        _until(lambda: intakes.ahead == 0, "something stays counted")

    run_client(script)


def test_what_the_parser_was_not_given_is_counted() -> None:
    """Behind as many requests as the library takes at a time."""
    behind = 40 * ENTIRE + 3 * WHOLE

    def script(peer: Peer) -> None:
        intakes = peer.server._http1._common.intakes
        with connected(peer) as sock:
            sock.sendall(ENTIRE + ODD_ENDLESS + behind)
            assert answer(sock).startswith(b"HTTP/1.1 200 OK\r\n")
            arrive(peer, 2)
            _until(lambda: _kept(peer) > 5_000, "nothing waits")
            time.sleep(0.1)
            assert _kept(peer) < intakes.ahead <= len(behind)
            reset(sock)
        _until(lambda: intakes.ahead == 0, "something stays counted")

    run_client(script)


def test_what_comes_at_once_and_has_no_room_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of requests that come together the first is answered; what is behind it has its bound from
    the beginning."""
    monkeypatch.setattr(intake, "AHEAD_BYTES_MAX", 2000)

    def script(peer: Peer) -> None:
        with connected(peer) as sock:
            sock.sendall(ODD_WAIT + post(b"/length", bytes(1000)) * 5)
            arrive(peer, 1)
            _until(lambda: _kept(peer) == 0, "it is kept")
            assert peer.server._http1._common.intakes.ahead == 0
            peer.go()
            last = answer(sock)
            assert last.endswith(b"waited")
            assert b"connection: close" in last
            assert all_of(sock) == b""
            assert len(peer.app.requests) == 1

    run_client(script)


@pytest.mark.parametrize("first", [WAIT, ODD_WAIT], ids=["plain", "library"])
def test_a_client_that_still_sends_does_not_lose_the_last_answer(
    monkeypatch: pytest.MonkeyPatch, first: bytes
) -> None:
    """What comes behind an answer that ends its connection, because there was no room, is read and
    dropped, for a reset would take the answer along. With the client's end the connection has
    gone."""
    monkeypatch.setattr(intake, "AHEAD_BYTES_MAX", 2000)

    def script(peer: Peer) -> None:
        http1 = peer.server._http1
        with connected(peer) as sock:
            sock.sendall(first)
            arrive(peer, 1)
            sock.sendall(post(b"/length", bytes(1000)) * 5)
            time.sleep(0.3)
            peer.go()
            assert peer.next_end() == "done"
            for _ in range(5):
                time.sleep(0.05)
                sock.sendall(WHOLE)
            assert answer(sock).endswith(b"waited")
            assert all_of(sock) == b""
            sock.sendall(WHOLE)
            assert http1._common.connections == 1
        _until(lambda: http1._common.connections == 0, "the connection stays")

    run_client(script, limits=TimeLimits(linger=2 * DEADLINE))


def test_a_body_that_begins_behind_an_answer_has_a_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is not kept for as long as the answer takes. One that goes on in time is served, and a
    request that is whole has no deadline."""
    monkeypatch.setattr(http1_plain, "AHEAD_BODY_SECONDS", 0.3)
    whole = post(b"/length", bytes(500))

    def script(peer: Peer) -> None:
        intakes = peer.server._http1._common.intakes
        with connected(peer) as stops, connected(peer) as goes_on, connected(peer) as ends:
            for sock, ahead in ((stops, AHEAD), (goes_on, whole[:-1]), (ends, whole + HEAD)):
                sock.sendall(WAIT + ahead)
            arrive(peer, 3)
            goes_on.sendall(whole[-1:])
            _until(lambda: intakes.ahead == 2 * len(whole) + len(HEAD), "it is kept")
            time.sleep(0.5)
            assert intakes.ahead == 2 * len(whole) + len(HEAD)
            peer.go()
            assert b"connection: close" in answer(stops)
            assert all_of(stops) == b""
            for sock in (goes_on, ends):
                assert answer(sock).endswith(b"waited")
                assert answer(sock).endswith(b"500")
            assert answer(ends).endswith(b"GET /head")

    run_client(script)


def test_behind_a_refusal_that_lingers_no_head_has_a_deadline() -> None:
    """An answer to it could not be sent any more. It is counted as long as it is there."""

    def script(peer: Peer) -> None:
        http1 = peer.server._http1
        with connected(peer) as sock:
            sock.sendall(REFUSED + HALF)
            assert answer(sock).startswith(b"HTTP/1.1 4")
            assert all_of(sock) == b""
            assert peer.server.heads.bytes == len(HALF), "it is there as long as the connection"
            _until(lambda: http1._common.connections == 0, "it lingers for ever")
            assert peer.server.heads.bytes == 0
        assert peer.app.requests == []

    run_client(script, limits=TimeLimits(header=0.2, linger=1.0))


def test_heads_whose_refusal_lingers_have_their_bound() -> None:
    """They are kept until the connection is gone, and the oldest makes room as before."""
    fields = b"".join([b"z%02d: %b\r\n" % (n, b"z" * 400) for n in range(90)])
    large = b"GET /large HTTP/1.1\r\nhost: x\r\n" + fields
    assert len(large) > HEADER_BYTES_MAX

    def script(peer: Peer) -> None:
        heads = peer.server.heads
        heads._bytes_max = 5 * len(large) // 2
        with contextlib.ExitStack() as stack:
            socks = [stack.enter_context(connected(peer)) for _ in range(5)]
            for sock in socks:
                sock.sendall(large)
                assert answer(sock).startswith(b"HTTP/1.1 431")
            assert heads.bytes == 2 * len(large)
            _until(lambda: peer.server.connections == 2, "the oldest are kept")
            for sock in socks[:3]:
                assert all_of(sock) == b""

    run_client(script, limits=TimeLimits(linger=2 * DEADLINE))


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("is_counted", [True, False])
def test_a_page_that_nobody_reads_is_not_copied_for_each_that_asks(
    monkeypatch: pytest.MonkeyPatch, plain: bool, is_counted: bool
) -> None:
    """Of a large answer a transport has a slice more than it takes at most, and its client gets all
    of it. An answer that has a place gives it back once that is all that is left."""
    places: list[Response] = []

    async def told(self: ScriptedApp, request: Request) -> Response:
        response = Response(200, [], PAGE)
        if is_counted:
            response.place = object()
            places.append(response)
        return response

    monkeypatch.setattr(ScriptedApp, "_answer", told)

    def script(peer: Peer) -> None:
        with connected(peer) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.sendall(HEAD)
            arrive(peer, 1)
            http1 = peer.server._http1
            (transport,) = [
                each._socket if isinstance(each, Http1Connection) else each._transport
                for each in http1._connections()
            ]
            assert transport is not None
            _until(lambda: transport.get_write_buffer_size() > SLICE_BYTES, "nothing waits")
            time.sleep(0.2)
            unsent = transport.get_write_buffer_size()
            assert unsent <= WRITE_BYTES_MAX + 2 * SLICE_BYTES
            assert [each.place is not None for each in places] == [True] * is_counted
            reset(sock)
        with connected(peer) as sock:
            sock.sendall(HEAD)
            assert answer(sock).endswith(b"\r\n\r\n" + PAGE)
            _until(lambda: all(each.place is None for each in places), "it stays counted")

    run_client(script, plain=plain)
