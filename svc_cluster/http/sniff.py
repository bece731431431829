"""The first protocol of every connection: waits for the first bytes and chooses who speaks.

It also owns the header deadline: a client that sends nothing, or half of a request's head, is
closed after it. The chosen protocol is handed the running deadline and ends it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final, cast

from svc_cluster.http.connection import client_of
from svc_cluster.http.message import Connection as Client
from svc_cluster.http.unfinished_heads import UnfinishedHeads

H2_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

UNSENT_BYTES_MAX: Final = 128 * 1024
WRITE_BYTES_MAX: Final = 64 * 1024
"""What a transport keeps until writing is no longer welcome. With TLS it would be eight times as
much."""


class HeaderDeadline:
    """Closes a connection whose next request head does not arrive in time, or takes room that the
    heads of others need. It is what goes with a connection from one protocol to the next, and so
    does what is known of its client."""

    __slots__ = ("_client", "_handle", "_heads", "_loop", "_seconds", "drop", "expired")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        seconds: float,
        heads: UnfinishedHeads,
        expired: Callable[[], None],
        drop: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._seconds = seconds
        self._heads = heads
        self.expired = expired
        """Called when time is up; whoever takes the connection over sets its own."""
        self.drop = drop
        """Called when there is no more room for the head; likewise."""
        self._handle: asyncio.TimerHandle | None = None
        self._client: Client | None = None

    def client_of(self, transport: asyncio.BaseTransport) -> Client:
        """Return who is at the other end of the connection: one and the same, whoever asks."""
        if self._client is None:
            self._client = client_of(transport)
        return self._client

    def start(self) -> None:
        """Does nothing while the deadline is already running."""
        if self._handle is None:
            self._handle = self._loop.call_later(self._seconds, self._expire)

    def took(self, head_bytes: int) -> None:
        """So much of the head has come, in all, and is kept. May end the connection."""
        self._heads.hold(self, head_bytes)

    def cancel(self) -> None:
        self._heads.release(self)
        self.stop()

    def stop(self) -> None:
        """Wait no longer for the rest of the head. What is there of it is kept, and counted, until
        `cancel`."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _expire(self) -> None:
        self._handle = None
        self._heads.release(self)
        self.expired()


ProtocolFactory = Callable[[HeaderDeadline], asyncio.Protocol]


class Sniffer(asyncio.Protocol):
    """Holds a connection until its first bytes say which protocol it is."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        header_seconds: float,
        http1: ProtocolFactory,
        http2: ProtocolFactory,
        waiting: set[Sniffer],
        heads: UnfinishedHeads,
        has_room: Callable[[], bool] = lambda: True,
    ) -> None:
        """`waiting` holds the connections that have sent nothing yet; its owner closes them. A
        connection for which there is no room is closed at once."""
        self._has_room = has_room
        self._deadline = HeaderDeadline(loop, header_seconds, heads, self._expired, self.abort)
        self._http1 = http1
        self._http2 = http2
        self._waiting = waiting
        self._transport: asyncio.Transport | None = None
        self._seen = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if not self._has_room():
            self._transport.abort()
            return
        _bound_unsent(self._transport)
        self._waiting.add(self)
        self._deadline.start()

    def data_received(self, data: bytes) -> None:
        self._seen += data
        if self._seen.startswith(H2_PREFACE):
            self._hand_over(self._http2(self._deadline))
        elif not H2_PREFACE.startswith(self._seen):
            self._hand_over(self._http1(self._deadline))

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        self._waiting.discard(self)

    @property
    def transport(self) -> asyncio.Transport | None:
        """None once somebody else speaks."""
        return self._transport

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _hand_over(self, protocol: asyncio.Protocol) -> None:
        transport = self._transport
        assert transport is not None, "bytes come after the connection is made"
        self._waiting.discard(self)
        self._transport = None
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        protocol.data_received(self._seen)

    def _expired(self) -> None:
        if self._transport is not None:
            self._transport.close()


def _bound_unsent(transport: asyncio.Transport) -> None:
    """Keep little, and let the kernel take no more than it can send soon. What waits for a slow
    client would be this machine's memory too, up to several MiB a connection."""
    transport.set_write_buffer_limits(high=WRITE_BYTES_MAX)
    sock = transport.get_extra_info("socket")
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if sock is not None and option is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.IPPROTO_TCP, option, UNSENT_BYTES_MAX)
