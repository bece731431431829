"""This module holds the HTTP/1.1 connections of one listening socket, whoever serves them.

Only it and modules whose names begin like its own know aiohttp.
"""

from __future__ import annotations

import asyncio
from typing import TypeAlias

from aiohttp import web

from svc_cluster.base.errors import MalformedError
from svc_cluster.http import http1_head as heads
from svc_cluster.http.connection import HEADER_BYTES_MAX, App, HttpDate, TimeLimits
from svc_cluster.http.head import check_head
from svc_cluster.http.head_errors import HeadersTooLargeError
from svc_cluster.http.http1_common import Http1Common
from svc_cluster.http.http1_connection import CUT_SECONDS, Http1Connection
from svc_cluster.http.http1_exchange import Exchange, Reply
from svc_cluster.http.http1_plain import PlainConnection, PlainConnections
from svc_cluster.http.intake import Intakes
from svc_cluster.http.message import ClientGoneError
from svc_cluster.http.sniff import HeaderDeadline

_Either: TypeAlias = Http1Connection | PlainConnection


class Http1:
    """All HTTP/1.1 connections of one listening socket."""

    def __init__(
        self,
        app: App,
        loop: asyncio.AbstractEventLoop,
        date: HttpDate,
        limits: TimeLimits,
        intakes: Intakes,
        *,
        plain: bool = True,
    ) -> None:
        """`plain`: plain requests are served without the library."""
        self._common = common = Http1Common(app, loop, date, limits, intakes)
        self.loop = loop
        self.limits = limits
        self._plain = PlainConnections(common, self._entire)
        if plain:
            common.plain = self._plain.connection
        self.manager = web.Server(
            self._handle,  # type: ignore[arg-type]
            request_factory=Exchange,  # type: ignore[arg-type]
            handler_cancellation=True,
            loop=loop,
        )

    @property
    def connections(self) -> int:
        return self._common.connections

    def connection(self, deadline: HeaderDeadline) -> asyncio.Protocol:
        """Take over a connection that has begun to speak HTTP/1.1."""
        return (self._common.plain or self._entire)(deadline)

    def _entire(self, deadline: HeaderDeadline) -> Http1Connection:
        return Http1Connection(self._common, self.manager, deadline)

    def leave(self) -> None:
        """Every connection ends with the next answer on it; idle ones stay for that."""
        self._common.leaving = True

    def stop(self) -> None:
        """Every connection ends with the request it is serving."""
        for each in self._connections():
            each.retire()

    def retire_certified(self) -> list[asyncio.BaseTransport]:
        """Let those connections end with the request they are serving whose client has shown a
        certificate. Returns them."""
        found = [each for each in self._connections() if each.client.certificate is not None]
        return [transport for each in found if (transport := each.retire()) is not None]

    def _connections(self) -> list[_Either]:
        entire = [each for each in self.manager.connections if isinstance(each, Http1Connection)]
        return [*entire, *self._plain.open]

    async def shutdown(self, grace_seconds: float) -> None:
        """Wait for requests in progress, then cut them off."""
        await asyncio.gather(
            self.manager.shutdown(grace_seconds), self._plain.end(grace_seconds, CUT_SECONDS)
        )

    async def _handle(self, exchange: Exchange) -> Reply:
        try:
            request = exchange.request()
            if heads.head_bytes(exchange.message) > HEADER_BYTES_MAX:
                raise HeadersTooLargeError(heads.TOO_LARGE)
            check_head(request, exchange.message.version)
        except (MalformedError, HeadersTooLargeError) as error:
            return Reply(exchange, self._common.refuse(error), linger=True)
        try:
            response = await self._common.app.handle(request)
        except ClientGoneError as cause:
            raise ConnectionResetError("the client has gone") from cause
        response.close = response.close or self._common.leaving
        return Reply(exchange, response)
