"""HTTP/1.1 on sockets: aiohttp's parser under a thin adapter to the neutral message.

The only module that knows aiohttp. Responses are written by hand, head and body in one write: the
library's own response objects cost more than everything else the gateway does for an append.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, Final, Protocol

from aiohttp import StreamReader, web
from aiohttp.http import HttpVersion10, HttpVersion11, RawRequestMessage
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler, RequestPayloadError

from svc_cluster.base.clock import Clock
from svc_cluster.base.errors import ErrorCode, InternalError, MalformedError, ServiceError
from svc_cluster.base.log import get_logger
from svc_cluster.gateway.http.dialect import Dialect
from svc_cluster.gateway.http.errors import RequestBodyTimeoutError, error_response
from svc_cluster.gateway.http.message import (
    BodyBrokenError,
    BodyTimeoutError,
    BodyTooLargeError,
    ClientGoneError,
    Request,
    Response,
)
from svc_cluster.gateway.http.sniff import HeaderDeadline, Sniffer

HEADER_SECONDS: Final = 10.0
HEADER_BYTES_MAX: Final = 32 * 1024
KEEP_ALIVE_SECONDS: Final = 75.0
BODY_IDLE_SECONDS: Final = 30.0
"""Longest pause of a client in the middle of a body."""

_LINGER_SECONDS: Final = 2.0
_LINE_BYTES_MAX: Final = 8190
_HEADERS_MAX: Final = 100
_STATUS_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus
}

log = get_logger("gateway.http1")


class App(Protocol):
    """What is served: GatewayApp, or anything of its shape."""

    clock: Clock

    async def handle(self, request: Request) -> Response: ...


class _Body:
    """A request's body out of aiohttp's stream reader."""

    __slots__ = ("_exchange", "_payload")

    def __init__(self, exchange: _Exchange, payload: StreamReader) -> None:
        self._exchange = exchange
        self._payload = payload

    async def read(self, limit_bytes: int) -> bytes:
        payload = self._payload
        if payload.is_eof() and payload.exception() is None:
            data = payload.read_nowait(-1)
            if len(data) > limit_bytes:
                raise BodyTooLargeError
            return data
        declared = self._exchange.content_length()
        if declared is not None and declared > limit_bytes:
            self._exchange.must_close = True
            raise BodyTooLargeError
        pieces: list[bytes] = []
        size = 0
        async for piece in self.chunks():
            size += len(piece)
            if size > limit_bytes:
                self._exchange.must_close = True
                raise BodyTooLargeError
            pieces.append(piece)
        return b"".join(pieces)

    async def chunks(self) -> AsyncIterator[bytes]:
        payload = self._payload
        self._exchange.send_continue()
        while True:
            try:
                async with asyncio.timeout(BODY_IDLE_SECONDS):
                    piece = await payload.readany()
            except TimeoutError:
                self._exchange.must_close = True
                raise BodyTimeoutError from None
            except (RequestPayloadError, HttpProcessingError) as cause:
                self._exchange.must_close = True
                raise BodyBrokenError from cause
            except (ConnectionError, RuntimeError) as cause:
                # RuntimeError: the library's word for reading from a closed connection.
                raise ClientGoneError from cause
            if not piece:
                return
            yield piece


class _Exchange:
    """One request and its response: what aiohttp's connection loop takes for a request object."""

    __slots__ = ("_invited", "_protocol", "_task", "message", "must_close", "payload", "writer")

    def __init__(
        self,
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: Connection,
        writer: Any,
        task: asyncio.Task[None],
    ) -> None:
        self.message = message
        self.payload = payload
        self.writer = writer
        self.must_close = False
        self._invited = False
        self._protocol = protocol
        self._task = task

    # The four names that the connection loop uses.
    remote = None

    def _finish(self) -> None:
        pass

    def _cancel(self, exc: BaseException) -> None:
        self.payload.set_exception(exc)

    def content_length(self) -> int | None:
        text = self.message.headers.get("content-length")
        return int(text) if text is not None and text.isascii() and text.isdigit() else None

    def send_continue(self) -> None:
        """A client that asked first is told to go on, once its body is really wanted."""
        transport = self._protocol.transport
        if self.is_waiting() and transport is not None:
            self._invited = True
            transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def is_waiting(self) -> bool:
        """Whether the client keeps its body back until it is told to go on. A refusal then ends
        the connection: nobody knows whether the next bytes are that body."""
        message = self.message
        return (
            not self._invited
            and not self.payload.is_eof()
            and message.headers.get("expect", "").lower() == "100-continue"
            and message.version >= HttpVersion11
        )

    def request(self) -> Request:
        message = self.message
        path, _, query = message.path.partition("#")[0].partition("?")
        if not path.startswith("/"):
            path = _origin_form(path)
        headers = [
            (name.decode("latin-1").lower(), value.decode("latin-1"))
            for name, value in message.raw_headers
        ]
        return Request(message.method, path, query, headers, _Body(self, self.payload))


def _origin_form(target: str) -> str:
    """Path of an absolute-form target (`http://host/path`); others as they are."""
    scheme, separator, rest = target.partition("://")
    if separator and scheme.lower() in ("http", "https"):
        return "/" + rest.partition("/")[2]
    return target


class _Reply:
    """What aiohttp's connection loop takes for a response object."""

    __slots__ = ("_connection", "_exchange", "_response", "keep_alive")

    def __init__(self, connection: Connection, exchange: _Exchange, response: Response) -> None:
        self._connection = connection
        self._exchange = exchange
        self._response = response
        self.keep_alive = False

    async def prepare(self, request: Any) -> None:
        pass

    async def write_eof(self) -> None:
        response = self._response
        message = self._exchange.message
        connection = self._connection
        self.keep_alive = not (
            message.should_close
            or response.close
            or self._exchange.must_close
            or self._exchange.is_waiting()
            or connection.is_closing()
        )
        body = response.body
        if isinstance(body, bytes):
            head = self._head(f"content-length: {len(body)}\r\n" if response.status != 204 else "")
            connection.send(head if message.method == "HEAD" else head + body)
            await connection.drained()
            return
        try:
            await self._stream(body)
        finally:
            close = getattr(body, "aclose", None)
            if close is not None:
                await close()

    async def _stream(self, body: AsyncIterator[bytes]) -> None:
        connection = self._connection
        chunked = self._exchange.message.version >= HttpVersion11
        if not chunked:
            self.keep_alive = False
        connection.send(self._head("transfer-encoding: chunked\r\n" if chunked else ""))
        if self._exchange.message.method == "HEAD":
            return
        async for piece in body:
            if piece:
                connection.send(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
                await connection.drained()
        if chunked:
            connection.send(b"0\r\n\r\n")

    def _head(self, framing: str) -> bytes:
        response = self._response
        lines = [_STATUS_LINES[response.status]]
        lines += [f"{name}: {value}\r\n" for name, value in response.headers]
        lines.append(framing)
        if not self.keep_alive:
            lines.append("connection: close\r\n")
        elif self._exchange.message.version == HttpVersion10:
            lines.append("connection: keep-alive\r\n")
        lines.append(self._connection.date_line())
        return "".join(lines).encode("latin-1", "replace")


class Connection(RequestHandler):
    """aiohttp's connection loop with JSON errors, quiet logs, and bounds on request heads."""

    def __init__(self, listener: Listener, deadline: HeaderDeadline) -> None:
        super().__init__(
            listener.manager,
            loop=listener.loop,
            keepalive_timeout=KEEP_ALIVE_SECONDS,
            access_log=None,  # type: ignore[arg-type]
            max_line_size=_LINE_BYTES_MAX,
            max_field_size=_LINE_BYTES_MAX,
            max_headers=_HEADERS_MAX,
            lingering_time=_LINGER_SECONDS,
            auto_decompress=False,
        )
        self._listener = listener
        self._deadline = deadline
        self._deadline.expired = self._head_is_late
        self._body: StreamReader | None = None
        self._head_bytes = 0

    def data_received(self, data: bytes) -> None:
        in_body = self._body is not None and not self._body.is_eof()
        requests_before = self._request_count
        super().data_received(data)
        if self._request_count != requests_before:
            self._deadline.cancel()
            self._head_bytes = 0
            self._body = self._messages[-1][1]
        elif data and not in_body and self.transport is not None:
            # Part of a head, or the first bytes of one.
            self._deadline.start()
            self._head_bytes += len(data)
            if self._head_bytes > HEADER_BYTES_MAX:
                self._refuse_head(
                    MalformedError(ErrorCode.BAD_HEADER, "the request's head is too large")
                )

    def connection_lost(self, exc: BaseException | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)

    def _head_is_late(self) -> None:
        self._refuse_head(RequestBodyTimeoutError("the request's head did not arrive in time"))

    def _refuse_head(self, error: ServiceError) -> None:
        """Answer a request that never became one, unless another is being answered."""
        if self.transport is not None and self._current_request is None:
            answer = error_response(error, Dialect.UNMARKED, is_write=True)
            assert isinstance(answer.body, bytes), "errors are not streamed"
            lines = [_STATUS_LINES[answer.status]]
            lines += [f"{name}: {value}\r\n" for name, value in answer.headers]
            lines.append(f"content-length: {len(answer.body)}\r\nconnection: close\r\n")
            lines.append(self.date_line())
            self.transport.write("".join(lines).encode("latin-1") + answer.body)
        self.force_close()

    def is_closing(self) -> bool:
        return self._close or self._force_close or self.transport is None

    def send(self, data: bytes) -> None:
        if self.transport is None or self.transport.is_closing():
            raise ConnectionResetError("the client has gone")
        self.transport.write(data)

    async def drained(self) -> None:
        if self._paused:
            await self._drain_helper()

    def date_line(self) -> str:
        return self._listener.date_line()

    def handle_error(
        self,
        request: Any,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> Any:
        """aiohttp's hook for what it could not parse (400), and for what escaped the adapter."""
        error: ServiceError
        if status == 400:
            error = MalformedError(ErrorCode.BAD_HEADER, "the request is not well-formed HTTP/1.1")
        else:
            log.error("adapter_failed", status=status, exc_info=exc)
            error = InternalError("internal")
        response = error_response(error, Dialect.UNMARKED, is_write=True)
        response.close = True
        return _Reply(self, request, response)

    def log_exception(self, *args: Any, **kw: Any) -> None:
        log.error("connection_failed", exc_info=kw.get("exc_info"))


class Listener:
    """Shared by all connections of one listening socket."""

    def __init__(self, app: App, loop: asyncio.AbstractEventLoop, header_seconds: float) -> None:
        self.app = app
        self.loop = loop
        self.manager = web.Server(
            self._handle,  # type: ignore[arg-type]
            request_factory=_Exchange,  # type: ignore[arg-type]
            handler_cancellation=True,
            loop=loop,
        )
        self.waiting: set[Sniffer] = set()
        self._header_seconds = header_seconds
        self._date_second = -1
        self._date_line = ""

    def protocol(self) -> Sniffer:
        return Sniffer(
            self.loop,
            self._header_seconds,
            lambda deadline: Connection(self, deadline),
            self.waiting,
        )

    async def _handle(self, exchange: _Exchange) -> _Reply:
        connection = exchange._protocol
        if _head_bytes(exchange.message) > HEADER_BYTES_MAX:
            error = MalformedError(ErrorCode.BAD_HEADER, "the request's head is too large")
            response = error_response(error, Dialect.UNMARKED, is_write=True)
            response.close = True
            return _Reply(connection, exchange, response)
        try:
            response = await self.app.handle(exchange.request())
        except ClientGoneError as cause:
            raise ConnectionResetError("the client has gone") from cause
        return _Reply(connection, exchange, response)

    def date_line(self) -> str:
        """Made once a second."""
        second = self.app.clock.wall_ms() // 1000
        if second != self._date_second:
            self._date_second = second
            self._date_line = f"date: {formatdate(second, usegmt=True)}\r\n\r\n"
        return self._date_line


def _head_bytes(message: RawRequestMessage) -> int:
    size = len(message.path)
    for name, value in message.raw_headers:
        size += len(name) + len(value) + 4
    return size


class Server:
    """A listening gateway."""

    def __init__(self, listener: Listener, server: asyncio.Server) -> None:
        self._listener = listener
        self._server = server

    @property
    def port(self) -> int:
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def close(self, grace_seconds: float = 10.0) -> None:
        """Stop listening, let requests in progress end for `grace_seconds`, then cut them off."""
        self._server.close()
        for sniffer in list(self._listener.waiting):
            sniffer.abort()
        self._listener.manager.pre_shutdown()
        await self._listener.manager.shutdown(grace_seconds)
        await self._server.wait_closed()


async def serve(
    app: App,
    host: str,
    port: int,
    *,
    reuse_port: bool = False,
    tls: ssl.SSLContext | None = None,
    header_seconds: float = HEADER_SECONDS,
) -> Server:
    """Listen on `host` and `port` (0: any free one) and serve `app` until `Server.close`."""
    loop = asyncio.get_running_loop()
    listener = Listener(app, loop, header_seconds)
    server = await loop.create_server(
        listener.protocol, host, port, reuse_port=reuse_port or None, ssl=tls, backlog=1024
    )
    return Server(listener, server)
