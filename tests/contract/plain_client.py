"""A blocking client over HTTP/1.1, for connections whose requests are plain or not, and what it can
tell of who has served them."""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import time
from collections.abc import Callable, Iterator

import pytest

from svc_cluster.http.intake import Intake
from svc_cluster.http.message import BytesBody
from tests.contract.scripted_app import DEADLINE, Peer

HEAD = b"GET /head HTTP/1.1\r\nhost: x\r\n\r\n"
ENTIRE = b"GET /entire HTTP/1.1\r\nhost: x\r\nte: trailers\r\n\r\n"
"""Of no plain shape, and it asks for nothing else."""
LAST = b"GET /last HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"


def post(path: bytes, body: bytes) -> bytes:
    return b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (path, len(body), body)


@contextlib.contextmanager
def connected(peer: Peer) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", peer.port), timeout=DEADLINE) as sock:
        yield sock


def answer(sock: socket.socket) -> bytes:
    """The next answer, of a known length."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += some(sock, 1)
    head, _, _ = received.partition(b"\r\n\r\n")
    size = re.search(rb"content-length: (\d+)", head)
    left = int(size[1]) if size else 0
    while left:
        piece = some(sock, left)
        received += piece
        left -= len(piece)
    return re.sub(rb"date: [^\r]*", b"date: -", received)


def some(sock: socket.socket, size: int) -> bytes:
    piece = sock.recv(size)
    assert piece, "the connection has ended"
    return piece


def all_of(sock: socket.socket) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := sock.recv(65536):
            received += piece
    return re.sub(rb"date: [^\r]*", b"date: -", received)


def reset(sock: socket.socket) -> None:
    """Its end is a reset, which says more than that nothing more is sent."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def plainly(peer: Peer) -> list[bool]:
    """Of each request that came, whether it was served as plain."""
    return [isinstance(request.body, BytesBody) for request in peer.app.requests]


class Reads:
    """What the server has read, of all connections, in bytes. What changes hands counts again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.total = 0
        received = Intake.received

        def counted(intake: Intake, size: int) -> None:
            received(intake, size)
            self.total += size

        monkeypatch.setattr(Intake, "received", counted)

    def reach(self, total: int) -> None:
        """Wait until so much has been read."""
        wait_until(lambda: self.total >= total, f"less than {total} bytes are read")


def wait_until(holds: Callable[[], bool], otherwise: str) -> None:
    """Raises AssertionError, with what is so `otherwise`."""
    until = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < until, otherwise
        time.sleep(0.01)


def incomplete(peer: Peer, size: int) -> None:
    """Wait until so many bytes wait for the rest of a body."""
    intakes = peer.server._http1._plain.common.intakes
    wait_until(lambda: intakes.ahead == size, f"{intakes.ahead} bytes wait, not {size}")


def arrive(peer: Peer, count: int) -> None:
    """Wait until so many requests have come to the application."""
    until = time.monotonic() + DEADLINE
    while len(peer.app.requests) < count:
        assert time.monotonic() < until, f"{len(peer.app.requests)} requests"
        time.sleep(0.01)


def comes_back(peer: Peer, sock: socket.socket) -> None:
    """Ask until it is served as plain: the library comes to rest a moment after its answer."""
    until = time.monotonic() + DEADLINE
    while True:
        sock.sendall(HEAD)
        assert answer(sock).startswith(b"HTTP/1.1 200 OK\r\n")
        if plainly(peer)[-1]:
            return
        assert time.monotonic() < until, "the library keeps the connection"
