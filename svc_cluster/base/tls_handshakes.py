"""Handshakes of TLS with callers who are asked for certificates, made beside the event loop.

What a stranger shows is taken apart before anybody can tell whether it is any good, and its size
does not bound what that costs: one certificate of 600 bytes keeps OpenSSL for 200 ms where its key
lies on a curve of the caller's own making, and nothing that can be set forbids it. So the bytes are
bounded here, and what they cost is paid by a thread of its own, in which OpenSSL holds nothing that
the loop needs. Strangers make each other wait, and those that connect anew; who is connected does
not notice.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

HANDSHAKE_BYTES_MAX: Final = 16 * 1024
"""What a caller may send until the handshake is complete. A chain of four certificates with keys of
4,096 bits takes some 8 KiB."""


class Handshakes:
    """The handshakes of one listener, one step after the other in a thread of their own."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = ThreadPoolExecutor(1, "tls-handshake")

    async def take(self, sock: socket.socket, context: ssl.SSLContext) -> ssl.SSLContext:
        """Make the handshake with a caller on a socket that does not block. Returns what
        `connect_accepted_socket` is given as `ssl` for that socket, once.

        Raises OSError (ssl.SSLError is one) for a caller that is refused, is gone, or has sent
        HANDSHAKE_BYTES_MAX and is not done. Closing the socket and bounding the time are left to
        whoever calls this.
        """
        inward, outward = ssl.MemoryBIO(), ssl.MemoryBIO()
        context.sslobject_class = _HandedOver
        connection = context.wrap_bio(inward, outward, server_side=True)
        assert isinstance(connection, _HandedOver)
        left = HANDSHAKE_BYTES_MAX
        while left:
            data = await self._loop.sock_recv(sock, left)
            if not data:
                raise ConnectionResetError("the caller has gone in the middle of the handshake")
            left -= inward.write(data)
            try:
                is_done = await self._apart(connection.do_handshake)
            except ssl.SSLError:
                with contextlib.suppress(OSError):  # the reason of a refusal, to who still hears it
                    await self._loop.sock_sendall(sock, outward.read())
                raise
            if outward.pending:
                await self._loop.sock_sendall(sock, outward.read())
            if is_done:
                return _Handover.of(connection, inward, outward)
        raise ssl.SSLError(
            f"the handshake takes more than {HANDSHAKE_BYTES_MAX} bytes of the caller's"
        )

    async def _apart(self, step: Callable[[], None]) -> bool:
        """Whether the handshake is complete. Raises SSLError."""
        try:
            await self._loop.run_in_executor(self._thread, step)
        except ssl.SSLWantReadError:
            return False
        return True

    def close(self) -> None:
        """What waits is never made, what runs comes to its end unheard."""
        self._thread.shutdown(wait=False, cancel_futures=True)


class _HandedOver(ssl.SSLObject):
    """A _HandedOver is a connection whose handshake was made before an event loop took it over. It
    moves bytes between the loop's buffers and those that it was made with."""

    _inward: ssl.MemoryBIO
    _outward: ssl.MemoryBIO
    _arriving: ssl.MemoryBIO
    _leaving: ssl.MemoryBIO
    _is_taken_over = False

    def take_over(
        self,
        inner: tuple[ssl.MemoryBIO, ssl.MemoryBIO],
        outer: tuple[ssl.MemoryBIO, ssl.MemoryBIO],
    ) -> None:
        """Each pair: what comes in, and what goes out."""
        assert not self._is_taken_over, "one loop reads a connection"
        self._inward, self._outward = inner
        self._arriving, self._leaving = outer
        self._is_taken_over = True

    def do_handshake(self) -> None:
        """For a loop nothing is left to do, which asks for it in any case."""
        if not self._is_taken_over:
            super().do_handshake()

    def read(self, len: int = 1024, buffer: Any = None) -> bytes:  # noqa: A002
        self._let_in()
        try:
            return super().read(len, buffer)
        finally:
            self._let_out()

    def pending(self) -> int:
        """More than nothing while there may be something to read, which is all that loops ask."""
        return super().pending() + self._inward.pending

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        finally:
            self._let_out()

    def unwrap(self) -> None:
        self._let_in()
        try:
            super().unwrap()
        finally:
            self._let_out()

    def _let_in(self) -> None:
        if self._arriving.pending:
            self._inward.write(self._arriving.read())
        elif self._arriving.eof and not self._inward.eof:
            self._inward.write_eof()

    def _let_out(self) -> None:
        if self._outward.pending:
            self._leaving.write(self._outward.read())


class _Handover(ssl.SSLContext):
    """The place of a context where an event loop wants one: it has this one connection to give."""

    _connection: _HandedOver
    _inner: tuple[ssl.MemoryBIO, ssl.MemoryBIO]

    @classmethod
    def of(
        cls, connection: _HandedOver, inward: ssl.MemoryBIO, outward: ssl.MemoryBIO
    ) -> ssl.SSLContext:
        made = cls(ssl.PROTOCOL_TLS_SERVER)
        made._connection = connection
        made._inner = inward, outward
        return made

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        self._connection.take_over(self._inner, (incoming, outgoing))
        return self._connection
