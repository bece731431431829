"""The listening socket: every connection begins in the sniffer, which hands it to its protocol."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import socket
import ssl
from collections.abc import Callable
from typing import Final

from prometheus_client import Gauge

from svc_cluster.base.tasks import Tasks
from svc_cluster.http.connection import App, HttpDate, TimeLimits
from svc_cluster.http.http1_connection import Http1
from svc_cluster.http.http2_connection import Http2
from svc_cluster.http.intake import UNREAD_BYTES_MAX, Intakes, begin_small
from svc_cluster.http.sniff import Sniffer
from svc_cluster.http.unfinished_heads import UnfinishedHeads

CONNECTIONS_MAX: Final = 10_000
BACKLOG: Final = 1024
"""Connections that wait to be accepted."""
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
        self._server = await loop.create_server(
            accept,
            host,
            port,
            reuse_port=reuse_port or None,
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else header_seconds,
            backlog=BACKLOG,
            start_serving=False,
        )
        for sock in self._server.sockets:
            begin_small(sock)
        await self._server.start_serving()

    @property
    def connections(self) -> int:
        """All that are open."""
        return len(self._waiting) + self._http1.connections + self._http2.connections

    @property
    def port(self) -> int:
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def leave(self, seconds: float) -> None:
        """Take no more connections, and let those that are open end with their next answer. Returns
        once there are none, at the latest after so many seconds. Those that have made no TLS by
        then are cut off."""
        self._http1.leave()
        self._http2.stop()
        handshakes = Tasks()
        for sock in self._stop_listening():
            handshakes.spawn(self._take_over(sock), "connection that waited when leaving")
        try:
            for _ in range(math.ceil(seconds / _LEFT_SECONDS)):
                await asyncio.sleep(_LEFT_SECONDS)
                if not handshakes and not self.connections:
                    return
        finally:
            await handshakes.cancel_all()

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
        seconds = None if self._tls is None else self._http1.limits.header
        try:
            with contextlib.suppress(OSError):  # it has gone, or made no TLS
                await self._http1.loop.connect_accepted_socket(
                    self._accept, sock, ssl=self._tls, ssl_handshake_timeout=seconds
                )
        except asyncio.CancelledError:
            # not every event loop closes at once what is in the middle of a handshake
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            raise

    async def close(self, grace_seconds: float = 10.0) -> None:
        """Stop listening, let requests in progress end for `grace_seconds`, then cut them off."""
        self._server.close()
        for sniffer in list(self._waiting):
            sniffer.abort()
        self._http1.stop()
        self._http2.stop()
        await asyncio.gather(
            self._http1.shutdown(grace_seconds), self._http2.shutdown(grace_seconds)
        )
        await self._server.wait_closed()


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
) -> Server:
    """Listen on `host` and `port` (0: any free one) and serve `app` until `Server.close`. A
    connection beyond `connections_max` is closed at once.

    `unread_bytes_max`: what is taken in over HTTP/2 of bodies that nobody reads on, in all, beside
    the windows of their connections; `unread_gauge` shows it. `header_seconds` is `limits.header`
    for callers that care for nothing else.
    """
    if limits is None:
        limits = TimeLimits() if header_seconds is None else TimeLimits(header=header_seconds)
    loop = asyncio.get_running_loop()
    date = HttpDate(app.clock)
    intakes = Intakes(loop, unread_bytes_max, unread_gauge)
    server = Server(
        Http1(app, loop, date, limits, intakes),
        Http2(app, loop, date, limits, intakes),
        connections_max,
    )
    await server.listen(host, port, reuse_port=reuse_port, tls=tls)
    return server
