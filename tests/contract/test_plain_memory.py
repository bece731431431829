"""What a connection may make its gateway hold, in every state in which plain requests leave it, has
a bound, and nothing is left of it once the connection has gone."""

from __future__ import annotations

import collections
import contextlib
import gc
import socket
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from svc_cluster.http import http1_plain
from svc_cluster.http.connection import TimeLimits
from svc_cluster.http.http1_plain import BODY_BYTES_MAX
from svc_cluster.http.intake import AHEAD_BYTES_MAX
from tests.contract.plain_client import ENTIRE, HEAD, answer, connected, post, reset, some
from tests.contract.scripted_app import DEADLINE, Peer, run_client

CONNECTIONS: Final = 3
PLAIN_BYTES_MAX: Final = 1024 * 1024
"""What is sent ahead (72 KiB) with one read of the loop (256 KiB), what is unsent (64 KiB, of which
uvloop keeps seven times as much where it is answers of 120 bytes), and the objects of a request."""
LIBRARY_BYTES_MAX: Final = 1536 * 1024
"""A connection that was handed over: the library's own bound is 1 MiB and one read."""
GONE_BYTES_MAX: Final = 384 * 1024
"""What all of them leave when they have gone: what uvloop keeps of what it has used."""
SENT_MAX: Final = 8 * 1024 * 1024
SOME_BYTES: Final = AHEAD_BYTES_MAX // CONNECTIONS - 32 * 1024
"""For which all connections together would have room, and one has not."""
QUIET_SECONDS: Final = 0.2
"""A server that takes nothing for so long takes nothing."""

WAIT: Final = b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n"
MANY: Final = HEAD * 2000
FIELDS: Final = b"".join(b"x-%d: y\r\n" % number for number in range(60))
HALF_A_HEAD: Final = b"GET /half HTTP/1.1\r\nhost: x\r\n" + b"x-a: %b\r\n" % (b"a" * 7000) * 4
UPGRADE: Final = b"GET /up HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
LARGE: Final = post(b"/stall", bytes(8 * 1024 * 1024))
SLOW: Final = post(b"/stall", bytes(BODY_BYTES_MAX))[:-1]
CHUNKED: Final = b"POST /stall HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
CHUNKS: Final = (b"1\r\nx\r\n") * 20_000


def _push(sock: socket.socket, data: bytes, *, at_most: int = SENT_MAX) -> None:
    """Send it again and again, until nothing more is taken for a while or the connection ends."""
    view = memoryview(data)
    sent = 0
    sock.settimeout(QUIET_SECONDS)
    with contextlib.suppress(TimeoutError, ConnectionError):
        while sent < at_most:
            sent += sock.send(view[sent % len(data) :][: at_most - sent])
    sock.settimeout(DEADLINE)


def _sends(
    data: bytes, again: bytes = b"", *, at_most: int = SENT_MAX
) -> Callable[[socket.socket], None]:
    def put(sock: socket.socket) -> None:
        sock.settimeout(QUIET_SECONDS)
        with contextlib.suppress(TimeoutError, ConnectionError):
            sock.sendall(data)
        if again:
            _push(sock, again, at_most=at_most)

    return put


def _goes_back_and_forth(sock: socket.socket) -> None:
    for _ in range(10):
        for sent in (HEAD, ENTIRE, post(b"/length", bytes(30_000))):
            sock.sendall(sent)
            answer(sock)


def _reads_a_little(sock: socket.socket) -> None:
    """Each answer that it reads makes room for more requests than were answered."""
    for _ in range(10):
        _push(sock, MANY, at_most=256 * 1024)
        some(sock, 1)


STATES: Final[dict[str, tuple[Callable[[socket.socket], None], int]]] = {
    "at rest": (_sends(HEAD.replace(b"\r\n\r\n", b"\r\n" + FIELDS + b"\r\n")), PLAIN_BYTES_MAX),
    "pipelined behind an answer": (_sends(WAIT, MANY), PLAIN_BYTES_MAX),
    "pipelined and never read": (_sends(HEAD, MANY), PLAIN_BYTES_MAX),
    "pipelined and read a little": (_reads_a_little, PLAIN_BYTES_MAX),
    "endless and never read": (
        _sends(b"GET /endless HTTP/1.1\r\nhost: x\r\n\r\n"),
        PLAIN_BYTES_MAX,
    ),
    "endless with requests behind": (
        _sends(b"GET /endless HTTP/1.1\r\nhost: x\r\n\r\n", MANY),
        PLAIN_BYTES_MAX,
    ),
    "slow body": (_sends(SLOW), PLAIN_BYTES_MAX),
    "slow body behind an answer": (_sends(WAIT + SLOW), PLAIN_BYTES_MAX),
    "half a head behind an answer": (_sends(WAIT + HALF_A_HEAD), PLAIN_BYTES_MAX),
    "half a head": (_sends(HALF_A_HEAD), LIBRARY_BYTES_MAX),
    "half a head behind the library's": (_sends(ENTIRE + HALF_A_HEAD), LIBRARY_BYTES_MAX),
    "large body handed over": (_sends(HEAD, LARGE), LIBRARY_BYTES_MAX),
    "large body behind an answer": (_sends(WAIT, LARGE), PLAIN_BYTES_MAX),
    "some of it behind an answer": (_sends(WAIT, LARGE, at_most=SOME_BYTES), PLAIN_BYTES_MAX),
    "chunks handed over": (_sends(HEAD + CHUNKED, CHUNKS), LIBRARY_BYTES_MAX),
    "upgrade": (_sends(HEAD + UPGRADE, MANY), LIBRARY_BYTES_MAX),
    "upgrade behind an answer": (_sends(WAIT + UPGRADE, MANY), PLAIN_BYTES_MAX),
    "not plain, never read": (_sends(HEAD, ENTIRE * 2000), LIBRARY_BYTES_MAX),
    "back and forth": (_goes_back_and_forth, PLAIN_BYTES_MAX),
}


def _held() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def _settled() -> int:
    """What is held, once that no longer changes. Raises AssertionError where it always does."""
    until = time.monotonic() + DEADLINE
    quiet, before = 0, -1
    while quiet < 5:
        assert time.monotonic() < until, f"it goes on changing: {before} bytes"
        time.sleep(0.05)
        now = _held()
        quiet = quiet + 1 if abs(now - before) < 4096 else 0
        before = now
    return before


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("state", STATES)
def test_what_a_connection_holds_has_a_bound_in_every_state(
    monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """And comes back when the connection is reset in the middle of it."""
    monkeypatch.setattr(http1_plain, "BODY_SECONDS", DEADLINE)
    put, bytes_max = STATES[state]

    def script(peer: Peer) -> None:
        # or the application itself would keep each request, and how it ended
        peer.app.requests = collections.deque(maxlen=4)  # type: ignore[assignment]
        vars(peer.app.ended)["_queue"] = collections.deque(maxlen=4)
        with connected(peer) as first:  # so that what is made once is there
            put(first)
            reset(first)
        _nobody(peer)
        before = _settled()
        with contextlib.ExitStack() as stack:
            socks = [stack.enter_context(connected(peer)) for _ in range(CONNECTIONS)]
            for sock in socks:
                put(sock)
            each = (_settled() - before) / CONNECTIONS
            print(f"{state}: {each / 1024:.0f} KiB")
            for sock in socks:
                reset(sock)
        assert each <= bytes_max
        _nobody(peer)
        left = _settled() - before
        print(f"{state}, gone: {left / 1024:.1f} KiB")
        assert left <= GONE_BYTES_MAX
        (http1,) = [peer.server._http1]
        assert (http1._common.intakes.ahead, dict(http1._plain.open)) == (0, {})
        assert peer.server.heads.bytes == 0

    run_client(script, limits=TimeLimits(header=2 * DEADLINE, write=2 * DEADLINE))


def _nobody(peer: Peer) -> None:
    """Wait until no connection is left. Of one that is held back nobody sees that its client has
    gone before it is answered."""
    peer.go()
    until = time.monotonic() + DEADLINE
    while peer.server.connections:
        assert time.monotonic() < until, "a connection stays"
        time.sleep(0.01)
    peer.app.go.clear()
    peer.app.requests.clear()
