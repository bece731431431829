"""This is an HTTP/1.1 answer as it leaves, whoever has read its request. A body without an end
leaves in chunks.

Answers are written by hand, head and body in one write where they are small: the library's own
response objects cost more than everything else the gateway does for an append.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from typing import Final

from svc_cluster.http.connection import WriteGate
from svc_cluster.http.message import BODILESS, Attachable, Response

STATUS_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus
}
CHUNKED: Final = "transfer-encoding: chunked\r\n"
SLICE_BYTES: Final = 16 * 1024
"""What is sent of a body at a time; a smaller one leaves with its head."""
LAST: Final = "connection: close\r\n"
"""The connection ends behind this answer."""


def length_line(status: int, body: bytes) -> str:
    """Return the line that says how long the body is, where the status has one."""
    return "" if status in BODILESS else f"content-length: {len(body)}\r\n"


def answer_head(response: Response, framing: str, connection: str, date: str) -> bytes:
    """Return the head. `framing` and `connection` are whole lines, or empty."""
    lines = [STATUS_LINES[response.status]]
    lines += [f"{name}: {value}\r\n" for name, value in response.headers]
    lines.append(f"{framing}{connection}date: {date}\r\n\r\n")
    return "".join(lines).encode("latin-1", "replace")


async def send_whole(
    head: bytes,
    body: bytes,
    send: Callable[[bytes | memoryview], None],
    drained: Callable[[], Awaitable[None]],
    *,
    is_shared: bool,
) -> None:
    """Send an answer of a known length, and no more of it at a time than the client reads.

    With `is_shared` others hold the body too, and what waits for the client is not a copy of it.
    Whoever holds a place for the body gives that back behind the last slice: then that is a copy,
    or it would hold on to all of the body.
    """
    if len(body) <= SLICE_BYTES:
        send(head + body)
        await drained()
        return
    send(head)
    view = memoryview(body)
    for at in range(0, len(body), SLICE_BYTES):
        part = view[at : at + SLICE_BYTES]
        send(part if is_shared else bytes(part))
        await drained()


class ChunkSink:
    """A `PieceSink` of a body in chunks."""

    __slots__ = ("_gate", "_has_gone", "_send")

    def __init__(self, send: Callable[[bytes | memoryview], None], gate: WriteGate) -> None:
        self._send = send
        self._gate = gate
        self._has_gone = False

    @property
    def is_open(self) -> bool:
        return self._gate.is_open and not self._has_gone

    def send(self, piece: bytes) -> None:
        try:
            self._send(b"%x\r\n%b\r\n" % (len(piece), piece))
        except ConnectionResetError:
            self._has_gone = True


async def send_pieces(
    body: AsyncIterator[bytes],
    send: Callable[[bytes | memoryview], None],
    drained: Callable[[], Awaitable[None]],
    gate: WriteGate | None = None,
    *,
    chunked: bool,
) -> None:
    """Send each piece as it comes, and the next one once the client has read enough. With `gate`,
    which says whether it has, a body in chunks that is `Attachable` may send by itself."""
    if gate is not None and chunked and isinstance(body, Attachable):
        body.attach(ChunkSink(send, gate))
    async for piece in body:
        if piece:
            send(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            piece = b""  # neither a slow client nor an idle stream holds it here
            await drained()
    if chunked:
        send(b"0\r\n\r\n")
        await drained()  # what comes next on the connection begins with nothing kept back


async def end_of(body: AsyncIterator[bytes]) -> None:
    """Close a body, be it in the middle."""
    close = getattr(body, "aclose", None)
    if close is not None:
        await close()
