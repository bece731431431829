"""What the adapters of both protocols share: what is served, time limits, and the write gate."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate
from typing import Final, Protocol

from svc_cluster.base.clock import Clock
from svc_cluster.base.errors import ServiceError
from svc_cluster.http.client_certificate import certificate_of
from svc_cluster.http.message import Connection as Client
from svc_cluster.http.message import Request, Response

HEADER_SECONDS: Final = 10.0
HEADER_BYTES_MAX: Final = 32 * 1024
TARGET_BYTES_MAX: Final = 8190


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimits:
    """In seconds; all above 0."""

    header: float = HEADER_SECONDS
    """For a request's head, from its first byte."""
    keep_alive: float = 75.0
    """For a connection without a request."""
    write: float = 30.0
    """For a client that reads nothing of what was sent."""
    linger: float = 2.0
    """For a client that still sends what nobody wants: it is read and dropped, so that the answer
    is not lost to the reset which follows."""


class App(Protocol):
    """An App is what is served, which is GatewayApp, or anything of its shape."""

    clock: Clock

    async def handle(self, request: Request) -> Response: ...

    def refuse(self, error: ServiceError) -> Response:
        """The answer to what never became a request, or to a fault of the adapter."""
        ...


def client_of(transport: asyncio.BaseTransport) -> Client:
    """Who is at the other end, by address, and by the certificate if one was shown."""
    peer = transport.get_extra_info("peername")
    address = str(peer[0]) if isinstance(peer, tuple) and peer else ""
    return Client(address, certificate_of(transport))


class HttpDate:
    """The Date header's value, made once a second."""

    __slots__ = ("_clock", "_second", "_text")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._second = -1
        self._text = ""

    def text(self) -> str:
        second = self._clock.wall_ms() // 1000
        if second != self._second:
            self._second = second
            self._text = formatdate(second, usegmt=True)
        return self._text


class WriteGate:
    """Holds writers back while the peer does not read, and ends a connection that never will.

    The owner forwards the transport's `pause_writing`, `resume_writing` and `connection_lost`.
    """

    __slots__ = ("_loop", "_lost", "_open", "_seconds", "_size", "_stalled", "_timer", "_transport")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, seconds: float, stalled: Callable[[], None]
    ) -> None:
        """`stalled` is called when the peer has read nothing for `seconds`."""
        self._loop = loop
        self._seconds = seconds
        self._stalled = stalled
        self._open = asyncio.Event()
        self._open.set()
        self._lost = False
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.WriteTransport | None = None

    @property
    def is_open(self) -> bool:
        return self._open.is_set()

    def pause(self, transport: asyncio.WriteTransport) -> None:
        self._open.clear()
        self._transport = transport
        self._size = transport.get_write_buffer_size()
        self._timer = self._loop.call_later(self._seconds, self._check)

    def resume(self) -> None:
        self._open.set()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def lose(self) -> None:
        """The connection has ended: whoever waits is told so."""
        self._lost = True
        self._transport = None
        self.resume()

    async def wait(self) -> None:
        """Until writing is welcome. Raises ConnectionResetError when it never will be."""
        while not self._open.is_set():
            await self._open.wait()
        if self._lost:
            raise ConnectionResetError("the client has gone")

    def _check(self) -> None:
        transport = self._transport
        assert transport is not None, "the timer runs only while the gate is shut"
        size = transport.get_write_buffer_size()
        if size >= self._size:
            self._timer = None
            self._stalled()
            return
        self._size = size
        self._timer = self._loop.call_later(self._seconds, self._check)
