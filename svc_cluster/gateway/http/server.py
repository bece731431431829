"""The listening socket: every connection begins in the sniffer, which hands it to its protocol."""

from __future__ import annotations

import asyncio
import ssl
from typing import Final

from prometheus_client import Gauge

from svc_cluster.gateway.http.connection import App, HttpDate, TimeLimits
from svc_cluster.gateway.http.http1_connection import Http1
from svc_cluster.gateway.http.http2 import Http2
from svc_cluster.gateway.http.intake import UNREAD_BYTES_MAX, Intakes, begin_small
from svc_cluster.gateway.http.sniff import Sniffer

CONNECTIONS_MAX: Final = 10_000


class Server:
    """A listening gateway."""

    def __init__(self, http1: Http1, http2: Http2, connections_max: int) -> None:
        self._http1 = http1
        self._http2 = http2
        self._waiting: set[Sniffer] = set()
        self._connections_max = connections_max
        self._server: asyncio.Server

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
                lambda: self.connections < self._connections_max,
            )

        if tls is not None:
            tls.set_alpn_protocols(["h2", "http/1.1"])
        self._server = await loop.create_server(
            accept,
            host,
            port,
            reuse_port=reuse_port or None,
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else header_seconds,
            backlog=1024,
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
