"""Plain requests over HTTP/1.1 are served by the gateway's own code and all others by the library,
on one connection in any order, and nobody can tell which it was."""

from __future__ import annotations

import contextlib
import itertools
import socket
import time

import pytest

from svc_cluster.http import http1_plain, intake
from svc_cluster.http.connection import TimeLimits
from svc_cluster.http.http1_plain import BODY_BYTES_MAX
from tests.contract.plain_client import (
    ENTIRE,
    HEAD,
    LAST,
    Reads,
    all_of,
    answer,
    arrive,
    comes_back,
    connected,
    incomplete,
    plainly,
    post,
    reset,
)
from tests.contract.scripted_app import DEADLINE, Peer, run_client


def test_a_connection_goes_to_the_library_and_back() -> None:
    def script(peer: Peer) -> None:
        with connected(peer) as sock:
            for _ in range(3):
                comes_back(peer, sock)
                for sent, is_plain in (
                    (HEAD, True),
                    (post(b"/length", b"abc"), True),
                    (ENTIRE, False),
                    (ENTIRE, False),
                ):
                    sock.sendall(sent)
                    assert answer(sock).startswith(b"HTTP/1.1 200 OK\r\n")
                    assert plainly(peer)[-1] is is_plain
            assert peer.server.connections == 1
        # whoever serves it: what is known of a client, and counted for it, goes by its connection
        assert len({id(request.connection) for request in peer.app.requests}) == 1
        until = time.monotonic() + DEADLINE
        while peer.server.connections:
            assert time.monotonic() < until, "it is still counted"
            time.sleep(0.01)

    run_client(script)


def test_with_the_setting_off_the_library_serves_all() -> None:
    def script(peer: Peer) -> None:
        with connected(peer) as sock:
            for sent in (HEAD, HEAD, post(b"/length", b"abc")):
                sock.sendall(sent)
                answer(sock)
        assert plainly(peer) == [False] * 3

    run_client(script, plain=False)


def test_both_answer_alike() -> None:
    """Byte by byte but for the date, with all that may be asked of the application."""
    told: dict[bool, list[bytes]] = {}
    paths = [b"/length", b"/refuse", b"/empty", b"/echo", b"/first", b"/x?y=%41", b"/hold"]

    def script(peer: Peer) -> None:
        peer.go()
        found = told.setdefault(len(told) == 0, [])
        for path in paths:
            end = b"" if path == b"/refuse" else LAST
            for sent in (post(path, b"abc"), post(path, b"") + post(path, b"abc")):
                with connected(peer) as sock:
                    sock.sendall(sent + end)
                    found.append(all_of(sock))

    run_client(script, plain=True)
    run_client(script, plain=False)
    assert told[True] == told[False]
    assert len(told[True]) == 2 * len(paths)
    assert all(told[True])


@pytest.mark.parametrize("pieces", [2, 5])
def test_a_body_may_come_shortly_after_its_head(
    monkeypatch: pytest.MonkeyPatch, pieces: int
) -> None:
    monkeypatch.setattr(http1_plain, "BODY_SECONDS", DEADLINE)
    reads = Reads(monkeypatch)

    def script(peer: Peer) -> None:
        body = bytes(BODY_BYTES_MAX)
        with connected(peer) as sock:
            for _ in range(2):
                sent = post(b"/length", body)
                head = len(sent) - len(body)
                step = -(-len(body) // pieces)
                before = reads.total
                sock.sendall(sent[:head])
                for begin in range(head, len(sent), step):
                    reads.reach(before + begin)
                    sock.sendall(sent[begin : begin + step])
                assert answer(sock).endswith(str(len(body)).encode())
        assert plainly(peer) == [True, True]

    run_client(script)


def test_a_body_that_keeps_others_waiting_is_the_librarys() -> None:
    """It is then read with the deadlines of slow bodies, and the handler sees it begin."""

    def script(peer: Peer) -> None:
        with connected(peer) as sock:
            sent = post(b"/length", b"abcdef")
            sock.sendall(sent[:-3])
            until = time.monotonic() + DEADLINE
            while not peer.app.requests:
                assert time.monotonic() < until, "the handler waits for the body's end"
                time.sleep(0.01)
            sock.sendall(sent[-3:])
            assert answer(sock).endswith(b"\r\n\r\n6")
            assert plainly(peer) == [False]
            comes_back(peer, sock)

    run_client(script)


def test_a_large_body_is_the_librarys() -> None:
    def script(peer: Peer) -> None:
        with connected(peer) as sock:
            sock.sendall(post(b"/length", bytes(BODY_BYTES_MAX + 1)))
            assert answer(sock).endswith(str(BODY_BYTES_MAX + 1).encode())
            assert plainly(peer) == [False]
            comes_back(peer, sock)

    run_client(script)


def test_bodies_that_wait_have_a_bound_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """What finds no room goes to the library at once, and room comes back with each that ends."""
    monkeypatch.setattr(http1_plain, "BODY_SECONDS", DEADLINE)
    monkeypatch.setattr(intake, "AHEAD_BYTES_MAX", 3000)
    sent = post(b"/stall", bytes(2000))

    def script(peer: Peer) -> None:
        peer.go()
        with connected(peer) as one, connected(peer) as other:
            one.sendall(sent[:-1])
            incomplete(peer, len(sent) - 1)
            other.sendall(sent[:-1])
            arrive(peer, 1)
            assert plainly(peer) == [False], "the second finds no room"
            one.sendall(sent[-1:])
            assert answer(one).endswith(b"2000")
            other.sendall(sent[-1:])
            assert answer(other).endswith(b"2000")
            assert plainly(peer) == [False, True]
        with connected(peer) as gone:
            gone.sendall(sent[:-1])
            incomplete(peer, len(sent) - 1)
            reset(gone)
        incomplete(peer, 0)
        with connected(peer) as one:
            one.sendall(sent[:-1])
            incomplete(peer, len(sent) - 1)
            one.sendall(sent[-1:])
            assert answer(one).endswith(b"2000")
        assert plainly(peer) == [False, True, True]

    run_client(script)


def test_pipelined_requests_are_answered_in_their_order() -> None:
    def script(peer: Peer) -> None:
        kinds = itertools.cycle([HEAD, post(b"/length", b"abc"), ENTIRE])
        sent = [next(kinds) for _ in range(60)]
        with connected(peer) as sock:
            sock.sendall(b"".join(sent))
            bodies = [answer(sock).partition(b"\r\n\r\n")[2] for _ in sent]
        assert bodies == [b"GET /head", b"3", b"GET /entire"] * 20

    run_client(script)


def test_what_comes_while_the_library_answers_waits_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What comes later on another connection is answered first."""
    reads = Reads(monkeypatch)

    def script(peer: Peer) -> None:
        with connected(peer) as sock, connected(peer) as other:
            sock.sendall(ENTIRE.replace(b"/entire", b"/wait"))
            until = time.monotonic() + DEADLINE
            while not peer.app.requests:
                assert time.monotonic() < until
                time.sleep(0.01)
            before = reads.total
            sock.sendall(HEAD)
            reads.reach(before + len(HEAD))
            other.sendall(HEAD.replace(b"/head", b"/other"))
            assert answer(other).endswith(b"GET /other")
            assert [request.raw_path for request in peer.app.requests] == ["/wait", "/other"]
            peer.go()
            assert answer(sock).endswith(b"waited")
            assert answer(sock).endswith(b"GET /head")

    run_client(script)


def test_whoever_sends_ahead_is_held_back() -> None:
    """Behind a request that is being answered no more is taken than its bound and one read."""

    def script(peer: Peer) -> None:
        with connected(peer) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * 1024)
            sock.sendall(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n")
            until = time.monotonic() + DEADLINE
            while not peer.app.requests:
                assert time.monotonic() < until
                time.sleep(0.01)
            many = HEAD * 1000
            sock.settimeout(0.5)
            taken = 0
            with contextlib.suppress(TimeoutError):
                while taken < 16 * 2**20:
                    taken += sock.send(many[taken % len(HEAD) :])
            assert taken < 4 * 2**20, "it goes on taking"
            sock.settimeout(DEADLINE)
            peer.go()
            assert answer(sock).endswith(b"waited")
            for _ in range(taken // len(HEAD)):
                assert answer(sock).endswith(b"GET /head")

    run_client(script)


def test_an_idle_connection_ends_and_one_that_waits_for_an_answer_does_not() -> None:
    def script(peer: Peer) -> None:
        with connected(peer) as waiting:
            waiting.sendall(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n")
            arrive(peer, 1)
            for _ in range(2):
                with connected(peer) as idle:  # which is idle for as long as the other has waited
                    idle.sendall(HEAD)
                    answer(idle)
                    assert all_of(idle) == b""
            peer.go()
            assert answer(waiting).endswith(b"waited")
            assert all_of(waiting) == b""

    run_client(script, limits=TimeLimits(keep_alive=0.2))


def test_a_client_that_goes_ends_its_request() -> None:
    def script(peer: Peer) -> None:
        with connected(peer) as sock:
            sock.sendall(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n")
            until = time.monotonic() + DEADLINE
            while not peer.app.requests:
                assert time.monotonic() < until
                time.sleep(0.01)
            reset(sock)
        assert peer.next_end() == "cancelled"
        assert plainly(peer) == [True]

    run_client(script)
