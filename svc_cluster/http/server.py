"""The listening socket: every connection begins in the sniffer, which hands it to its protocol."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import socket
import ssl
from collections.abc import Callable
from typing import Final, cast

from prometheus_client import Gauge

from svc_cluster.base.log import get_logger
from svc_cluster.base.tasks import Tasks
from svc_cluster.base.tls_handshakes import Handshakes
from svc_cluster.http.client_certificate import has_certificate
from svc_cluster.http.connection import App, HttpDate, TimeLimits
from svc_cluster.http.http1 import Http1
from svc_cluster.http.http2_connection import Http2
from svc_cluster.http.intake import UNREAD_BYTES_MAX, Intakes, begin_small
from svc_cluster.http.sniff import Sniffer
from svc_cluster.http.unfinished_heads import UnfinishedHeads

log = get_logger("http")

CONNECTIONS_MAX: Final = 10_000
BACKLOG: Final = 1024
"""Connections that wait to be accepted."""
ACCEPT_PAUSE_SECONDS: Final = 1.0
"""Before the next attempt when a connection could not be accepted, as for want of descriptors."""
DISTRUST_SECONDS: Final = 10.0
"""What requests under way have to end in, once the CA of their client's certificate may be one that
is no longer trusted."""
_LEFT_SECONDS: Final = 0.02
"""How often a server that leaves looks whether connections are left."""


class Server:
    """A listening gateway."""

    def __init__(self, http1: Http1, http2: Http2, connections_max: int) -> None:
        self._http1 = http1
        self._http2 = http2
        self._waiting: set[Sniffer] = set()
        self._connections_max = connections_max
        self.heads = UnfinishedHeads()
        self._server: asyncio.Server
        self._tls: ssl.SSLContext | None = None
        self._handshakes: Handshakes | None = None
        """With callers that are asked for certificates; others are left to the event loop."""
        self._accepting = Tasks()
        self._arriving = Tasks()
        """Connections that were accepted here and are not the sniffer's yet."""
        self._distrusted = 0
        """How often CAs were taken out of those that clients' certificates come from."""
        self._accept: Callable[[], Sniffer]

    async def listen(
        self, host: str, port: int, *, reuse_port: bool, tls: ssl.SSLContext | None
    ) -> None:
        """Raises OSError for an address that cannot be listened on."""
        http1, http2 = self._http1, self._http2
        loop, header_seconds = http1.loop, http1.limits.header

        def accept() -> Sniffer:
            return Sniffer(
                loop,
                header_seconds,
                http1.connection,
                http2.connection,
                self._waiting,
                self.heads,
                lambda: self.connections < self._connections_max,
            )

        self._tls, self._accept = tls, accept
        if tls is not None:
            tls.set_alpn_protocols(["h2", "http/1.1"])
        asks = tls is not None and tls.verify_mode != ssl.CERT_NONE
        self._server = await loop.create_server(
            accept,
            host,
            port,
            reuse_port=reuse_port or None,
            ssl=None if asks else tls,
            ssl_handshake_timeout=None if asks or tls is None else header_seconds,
            backlog=BACKLOG,
            start_serving=False,
        )
        for sock in self._server.sockets:
            begin_small(sock)
        if not asks:
            await self._server.start_serving()
            return
        self._handshakes = Handshakes(loop)
        for listening in self._server.sockets:
            sock = socket.socket(fileno=os.dup(listening.fileno()))
            sock.setblocking(False)
            sock.listen(BACKLOG)
            self._accepting.spawn(self._accept_on(sock), "accept clients")

    async def _accept_on(self, listening: socket.socket) -> None:
        with listening:
            while True:
                try:
                    sock, _ = await self._http1.loop.sock_accept(listening)
                except ConnectionError:
                    continue  # gone before it was accepted
                except OSError as cause:
                    log.warning("accept_failed", reason=str(cause))
                    await asyncio.sleep(ACCEPT_PAUSE_SECONDS)
                    continue
                if self.connections + len(self._arriving) < self._connections_max:
                    self._arriving.spawn(self._take_over(sock), "connection that makes its TLS")
                else:
                    sock.close()

    @property
    def connections(self) -> int:
        """All that are open."""
        return len(self._waiting) + self._http1.connections + self._http2.connections

    @property
    def port(self) -> int:
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def distrust(self, seconds: float = DISTRUST_SECONDS) -> int:
        """End every connection with a certificate, because a CA of clients was taken out. Nobody
        keeps which of them stands behind which connection. It takes no more requests; those under
        way have so many seconds, and then it is cut off. Clients connect anew under the CAs that
        are left. Returns how many connections that concerns.

        Connections without a certificate go on, unless they are in the middle of their handshake.
        """
        self._distrusted += 1
        silent = [each for each in self._waiting if has_certificate(each.transport)]
        for sniffer in silent:
            sniffer.abort()
        ending = [*self._http1.retire_certified(), *self._http2.retire_certified()]
        self._http1.loop.call_later(seconds, _cut_off, ending)
        return len(silent) + len(ending)

    async def leave(self, seconds: float) -> None:
        """Take no more connections, and let those that are open end with their next answer. Returns
        once there are none, at the latest after so many seconds. Those that have made no TLS by
        then are cut off."""
        self._http1.leave()
        self._http2.stop()
        await self._accepting.cancel_all()
        for sock in self._stop_listening():
            self._arriving.spawn(self._take_over(sock), "connection that waited when leaving")
        try:
            for _ in range(math.ceil(seconds / _LEFT_SECONDS)):
                await asyncio.sleep(_LEFT_SECONDS)
                if not self._arriving and not self.connections:
                    return
        finally:
            await self._arriving.cancel_all()

    def _stop_listening(self) -> list[socket.socket]:
        """Return whoever is connected as far as the kernel goes, at most BACKLOG for each address.
        They may have sent a request already, which closing would reset."""
        waiting: list[socket.socket] = []
        for listening in self._server.sockets:
            with socket.socket(fileno=os.dup(listening.fileno())) as sock:
                sock.setblocking(False)
                for _ in range(BACKLOG):
                    try:
                        waiting.append(sock.accept()[0])
                    except OSError:
                        break
        self._server.close()
        return waiting

    async def _take_over(self, sock: socket.socket) -> None:
        """Serve a connection that was accepted here."""
        sock.setblocking(False)
        seconds, tls, distrusted = self._http1.limits.header, self._tls, self._distrusted
        try:
            if self._handshakes is not None and tls is not None:
                async with asyncio.timeout(seconds):
                    tls = await self._handshakes.take(sock, tls)
            transport, _ = await self._http1.loop.connect_accepted_socket(
                self._accept,
                sock,
                ssl=tls,
                ssl_handshake_timeout=None if tls is None else seconds,
            )
            if distrusted != self._distrusted:
                transport.abort()  # its handshake has begun under CAs of before
        except OSError:
            sock.close()  # it has gone, or made no TLS
        except asyncio.CancelledError:
            # not every event loop closes at once what is in the middle of a handshake
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            raise

    async def close(self, grace_seconds: float = 10.0) -> None:
        """Stop listening, let requests in progress end for `grace_seconds`, then cut them off."""
        await self._accepting.cancel_all()
        await self._arriving.cancel_all()
        self._server.close()
        if self._handshakes is not None:
            self._handshakes.close()
        for sniffer in list(self._waiting):
            sniffer.abort()
        self._http1.stop()
        self._http2.stop()
        await asyncio.gather(
            self._http1.shutdown(grace_seconds), self._http2.shutdown(grace_seconds)
        )
        await self._server.wait_closed()


def _cut_off(transports: list[asyncio.BaseTransport]) -> None:
    for transport in transports:
        cast(asyncio.Transport, transport).abort()  # does nothing to one that has ended


async def serve(
    app: App,
    host: str,
    port: int,
    *,
    reuse_port: bool = False,
    tls: ssl.SSLContext | None = None,
    header_seconds: float | None = None,
    limits: TimeLimits | None = None,
    connections_max: int = CONNECTIONS_MAX,
    unread_bytes_max: int = UNREAD_BYTES_MAX,
    unread_gauge: Gauge | None = None,
    plain: bool = True,
) -> Server:
    """Listen on `host` and `port` (0: any free one) and serve `app` until `Server.close`. A
    connection beyond `connections_max` is closed at once.

    `unread_bytes_max`: what is taken in over HTTP/2 of bodies that nobody reads on, in all, beside
    the windows of their connections; `unread_gauge` shows it. `header_seconds` is `limits.header`
    for callers that care for nothing else. `plain`: HTTP/1.1 requests of the plain shape are served
    without the library.
    """
    if limits is None:
        limits = TimeLimits() if header_seconds is None else TimeLimits(header=header_seconds)
    loop = asyncio.get_running_loop()
    date = HttpDate(app.clock)
    intakes = Intakes(loop, unread_bytes_max, unread_gauge)
    server = Server(
        Http1(app, loop, date, limits, intakes, plain=plain),
        Http2(app, loop, date, limits, intakes),
        connections_max,
    )
    await server.listen(host, port, reuse_port=reuse_port, tls=tls)
    return server
