"""HTTP/1.1 on a socket: aiohttp's parser and connection loop, with JSON errors, quiet logs, and
bounds on request heads.

With http1_exchange the only module that knows aiohttp.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from aiohttp import StreamReader, web
from aiohttp.http import RawRequestMessage
from aiohttp.web_protocol import RequestHandler, RequestPayloadError

from svc_cluster.base.errors import ErrorCode, InternalError, MalformedError, ServiceError
from svc_cluster.base.log import get_logger
from svc_cluster.gateway.http.connection import (
    HEADER_BYTES_MAX,
    App,
    HttpDate,
    TimeLimits,
    WriteGate,
    client_of,
)
from svc_cluster.gateway.http.dialect import Dialect
from svc_cluster.gateway.http.errors import RequestBodyTimeoutError, error_response
from svc_cluster.gateway.http.head import check_head
from svc_cluster.gateway.http.http1_exchange import STATUS_LINES, Exchange, Reply
from svc_cluster.gateway.http.intake import Intake, Intakes
from svc_cluster.gateway.http.message import ClientGoneError, Response
from svc_cluster.gateway.http.sniff import HeaderDeadline
from svc_cluster.gateway.rate_limit import NOWHERE

_LINE_BYTES_MAX: Final = 8190
_HEADERS_MAX: Final = 100
_UNREAD_BYTES: Final = 8 * 1024
"""Of a body that nobody reads; with twice as much nothing more is taken from the client."""

log = get_logger("gateway.http1")


class Http1:
    """All HTTP/1.1 connections of one listening socket."""

    def __init__(
        self,
        app: App,
        loop: asyncio.AbstractEventLoop,
        date: HttpDate,
        limits: TimeLimits,
        intakes: Intakes,
    ) -> None:
        self.intakes = intakes
        self._app = app
        self.loop = loop
        self.date = date
        self.connections = 0
        self.limits = limits
        self.manager = web.Server(
            self._handle,  # type: ignore[arg-type]
            request_factory=Exchange,  # type: ignore[arg-type]
            handler_cancellation=True,
            loop=loop,
        )

    def connection(self, deadline: HeaderDeadline) -> Connection:
        return Connection(self, deadline)

    def stop(self) -> None:
        """Every connection ends with the request it is serving."""
        self.manager.pre_shutdown()

    async def shutdown(self, grace_seconds: float) -> None:
        """Wait for requests in progress, then cut them off."""
        await self.manager.shutdown(grace_seconds)

    async def _handle(self, exchange: Exchange) -> Reply:
        request = exchange.request()
        try:
            if _head_bytes(exchange.message) > HEADER_BYTES_MAX:
                raise MalformedError(ErrorCode.BAD_HEADER, "the request's head is too large")
            check_head(request, exchange.message.version)
        except MalformedError as error:
            return Reply(exchange, refusal(error), linger=True)
        try:
            response = await self._app.handle(request)
        except ClientGoneError as cause:
            raise ConnectionResetError("the client has gone") from cause
        return Reply(exchange, response)


def refusal(error: ServiceError) -> Response:
    """The answer to what never became a request. It ends the connection."""
    response = error_response(error, Dialect.UNMARKED, is_write=True)
    response.close = True
    return response


def _head_bytes(message: RawRequestMessage) -> int:
    size = len(message.path)
    for name, value in message.raw_headers:
        size += len(name) + len(value) + 4
    return size


class Connection(RequestHandler):
    """One connection. Its exchanges see it as a `Wire`."""

    def __init__(self, owner: Http1, deadline: HeaderDeadline) -> None:
        super().__init__(
            owner.manager,
            loop=owner.loop,
            keepalive_timeout=owner.limits.keep_alive,
            access_log=None,  # type: ignore[arg-type]
            max_line_size=_LINE_BYTES_MAX,
            max_field_size=_LINE_BYTES_MAX,
            max_headers=_HEADERS_MAX,
            lingering_time=owner.limits.linger,
            read_bufsize=_UNREAD_BYTES,
            auto_decompress=False,
        )
        self._owner = owner
        self._deadline = deadline
        self._deadline.expired = self._head_is_late
        self._gate = WriteGate(owner.loop, owner.limits.write, self._abort)
        self._body: StreamReader | None = None
        self._head_bytes = 0
        self._dropping = False
        self._lost = asyncio.Event()
        self.client = NOWHERE
        self._intake: Intake | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.client = client_of(transport)
        self._intake = Intake(self._owner.intakes, transport)
        self._owner.connections += 1
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._intake is not None:
            self._intake.received(len(data))
        if self._dropping:
            return
        in_body = self._body is not None and not self._body.is_eof()
        requests_before = self._request_count
        super().data_received(data)
        if self._request_count != requests_before:
            self._deadline.cancel()
            self._head_bytes = 0
            message, payload = self._messages[-1]
            if not isinstance(message, RawRequestMessage):
                self._parser_failed(in_body=in_body)
            else:
                self._body = payload
        elif data and not in_body and not self._upgraded and self.transport is not None:
            # Part of a head, or the first bytes of one.
            self._deadline.start()
            self._head_bytes += len(data)
            if self._head_bytes > HEADER_BYTES_MAX:
                self._refuse_head(
                    MalformedError(ErrorCode.BAD_HEADER, "the request's head is too large")
                )

    def _parser_failed(self, *, in_body: bool) -> None:
        """The library queues its error behind the request whose body is broken, and would let that
        request's handler wait for the rest."""
        self._dropping = True
        if in_body:
            assert self._body is not None, "it was seen a moment ago"
            self._body.set_exception(RequestPayloadError("the body is not well-formed"))
            # A reader that was woken by the same bytes would otherwise wait again.
            self._body.feed_eof()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._deadline.cancel()
        self._gate.lose()
        self.client.close()
        if self._intake is not None:
            self._intake.close()
        self._owner.connections -= 1
        self._lost.set()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.transport is not None:
            self._gate.pause(self.transport)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._gate.resume()

    def _abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def _head_is_late(self) -> None:
        self._refuse_head(RequestBodyTimeoutError("the request's head did not arrive in time"))

    def _refuse_head(self, error: ServiceError) -> None:
        """Answer a request that never became one, unless another is being answered."""
        if self.transport is None or self._current_request is not None:
            self.force_close()
            return
        answer = refusal(error)
        assert isinstance(answer.body, bytes), "errors are not streamed"
        lines = [STATUS_LINES[answer.status]]
        lines += [f"{name}: {value}\r\n" for name, value in answer.headers]
        lines.append(f"content-length: {len(answer.body)}\r\nconnection: close\r\n")
        lines.append(f"date: {self.date()}\r\n\r\n")
        self.transport.write("".join(lines).encode("latin-1") + answer.body)
        self._dropping = True
        self.half_close()
        self._loop.call_later(self._owner.limits.linger, self.force_close)

    def is_closing(self) -> bool:
        return self._close or self._force_close or self.transport is None

    def send(self, data: bytes) -> None:
        if self.transport is None or self.transport.is_closing():
            raise ConnectionResetError("the client has gone")
        self.transport.write(data)

    async def drained(self) -> None:
        if not self._gate.is_open:
            await self._gate.wait()

    def half_close(self) -> None:
        if self.transport is not None and self.transport.can_write_eof():
            self.transport.write_eof()

    async def linger(self) -> None:
        self._dropping = True
        self.half_close()
        try:
            async with asyncio.timeout(self._owner.limits.linger):
                await self._lost.wait()
        except TimeoutError:
            pass

    def date(self) -> str:
        return self._owner.date.text()

    def handle_error(
        self,
        request: Any,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> Any:
        """aiohttp's hook for what it could not parse (400), and for what escaped the adapter."""
        if status == 400:
            malformed = "the request is not well-formed HTTP/1.1"
            error = MalformedError(ErrorCode.BAD_HEADER, malformed)
            return Reply(request, refusal(error), linger=True)
        log.error("adapter_failed", status=status, exc_info=exc)
        return Reply(request, refusal(InternalError("internal")))

    def log_exception(self, *args: Any, **kw: Any) -> None:
        failure = kw.get("exc_info")
        # Of the rest of a body that nobody wanted.
        if not isinstance(failure, RequestPayloadError):
            log.error("connection_failed", exc_info=failure)
