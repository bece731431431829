"""One request and its response over HTTP/1.1, between aiohttp's parser and the neutral message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final, Protocol

from aiohttp import StreamReader
from aiohttp.http import HttpVersion10, HttpVersion11, RawRequestMessage
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import PayloadAccessError, RequestPayloadError

from svc_cluster.base.errors import ErrorCode, MalformedError
from svc_cluster.http.body import StreamedBody
from svc_cluster.http.http1_answer import (
    CHUNKED,
    LAST,
    answer_head,
    end_of,
    length_line,
    send_pieces,
    send_whole,
)
from svc_cluster.http.message import (
    BodyBrokenError,
    ClientGoneError,
    Connection,
    Request,
    Response,
)


class Http1Wire(Protocol):
    """The connection, as an exchange sees it."""

    @property
    def client(self) -> Connection: ...

    def send(self, data: bytes | memoryview) -> None:
        """Raises ConnectionResetError when the client has gone."""
        ...

    async def drained(self) -> None:
        """Until the client has read enough. Raises ConnectionResetError."""
        ...

    def is_overfull(self) -> bool:
        """Whether what was sent ahead is dropped, of which more may come."""
        ...

    async def linger(self) -> None:
        """Say so, drop what still comes, and wait a moment for the client to end."""
        ...

    def half_close(self) -> None:
        """Say that nothing more will be sent."""
        ...

    @property
    def connected(self) -> bool: ...

    def replied(self) -> None:
        """All of the answer is sent, or nothing more of it will be."""
        ...

    def has_odd_line(self, message: RawRequestMessage) -> bool:
        """Whether the request's first line was written in another way than the one there is."""
        ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def is_closing(self) -> bool:
        """Whether the next answer is the last."""
        ...

    def is_deaf(self) -> bool:
        """Whether nothing more is taken from the client."""
        ...

    def date(self) -> str: ...


class _Body(StreamedBody):
    """A request's body out of aiohttp's stream reader."""

    __slots__ = ("_exchange", "_is_paused", "_payload")

    def __init__(self, exchange: Exchange, payload: StreamReader) -> None:
        self._exchange = exchange
        self._is_paused = False
        self._payload = payload

    def complete(self) -> bytes | None:
        payload = self._payload
        if not payload.is_eof() or payload.exception() is not None:
            return None
        return payload.read_nowait(-1)

    def pause(self) -> None:
        wire = self._exchange.wire
        if not self._is_paused and wire.connected and not self._payload.is_eof():
            self._is_paused = True
            wire.pause_reading()

    def abandon(self) -> None:
        self._resume()
        self._exchange.must_close = True

    def _resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            if self._exchange.wire.connected:
                self._exchange.wire.resume_reading()

    async def receive(self) -> bytes:
        self._exchange.send_continue()
        self._resume()
        try:
            piece = await self._payload.readany()
            failure = self._payload.exception()
            if not piece and failure is not None:
                raise failure
        except (RequestPayloadError, HttpProcessingError, PayloadAccessError) as cause:
            self.abandon()
            raise BodyBrokenError from cause
        except (ConnectionError, RuntimeError) as cause:
            # RuntimeError: the library's word for reading from a closed connection.
            raise ClientGoneError from cause
        return piece


class Exchange:
    """What aiohttp's connection loop takes for a request object."""

    __slots__ = ("_invited", "_task", "message", "must_close", "payload", "wire", "writer")

    def __init__(
        self,
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: Http1Wire,
        writer: Any,
        task: asyncio.Task[None],
    ) -> None:
        self.message = message
        self.payload = payload
        self.wire = protocol
        self.writer = writer
        # An upgrade is declined by answering as if nobody had asked, but the library's parser
        # does not find its way back to HTTP/1.1 from every protocol.
        self.must_close = message.method == "CONNECT" or message.upgrade
        self._invited = False
        self._task = task

    # The names that the connection loop uses.
    remote = None

    def _finish(self) -> None:
        pass

    def _cancel(self, exc: BaseException) -> None:
        self.payload.set_exception(exc)

    def send_continue(self) -> None:
        """A client that asked first is told to go on, once its body is really wanted."""
        if self.is_waiting() and not self.wire.is_deaf():
            self._invited = True
            self.wire.send(b"HTTP/1.1 100 Continue\r\n\r\n")

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
        """Raises MalformedError for a first line with more than one meaning, or none."""
        message = self.message
        if message.version not in (HttpVersion10, HttpVersion11):
            raise MalformedError(ErrorCode.BAD_HEADER, "the version is not HTTP/1.1 or HTTP/1.0")
        if message.method == "CONNECT":
            raise MalformedError(ErrorCode.BAD_HEADER, "there are no tunnels here")
        if not message.path or self.wire.has_odd_line(message):
            malformed = "the first line is not a method, a target and a version, one blank between"
            raise MalformedError(ErrorCode.BAD_HEADER, malformed)
        headers = [
            (name.decode("latin-1").lower(), value.decode("latin-1"))
            for name, value in message.raw_headers
        ]
        path, _, query = message.path.partition("?")
        if not path.startswith("/"):
            path, headers = _origin_form(path, headers)
        body = _Body(self, self.payload)
        return Request(message.method, path, query, headers, body, self.wire.client)


def _origin_form(target: str, headers: list[tuple[str, str]]) -> tuple[str, list[tuple[str, str]]]:
    """Return the path of an absolute-form target (`http://host/path`), and other targets as they
    are. The host of an absolute-form target then stands in for the header's (RFC 9112 section
    3.2.2)."""
    scheme, separator, rest = target.partition("://")
    if not separator or scheme.lower() not in ("http", "https"):
        return target, headers
    host, _, path = rest.partition("/")
    return "/" + path, [(n, host if n == "host" else value) for n, value in headers]


def last_head(answer: Response, body_bytes: int, date: str) -> bytes:
    """Return the head of an answer to what never became a request."""
    return answer_head(answer, f"content-length: {body_bytes}\r\n", LAST, date)


_SENT: Final = Response(200)


class Reply:
    """What aiohttp's connection loop takes for a response object."""

    __slots__ = ("_exchange", "_linger", "_response", "keep_alive")

    def __init__(self, exchange: Exchange, response: Response, *, linger: bool = False) -> None:
        """With `linger` more may come of what is refused here, and nobody knows how much."""
        self._exchange = exchange
        self._response = response
        self._linger = linger
        self.keep_alive = False

    async def prepare(self, request: Any) -> None:
        pass

    async def write_eof(self) -> None:
        try:
            await self._write()
        finally:
            # The loop keeps this until the connection's next request is answered.
            self._response.place = None
            self._response = _SENT
            self._exchange.wire.replied()
        if self._linger or self._exchange.wire.is_overfull():
            await self._exchange.wire.linger()

    async def _write(self) -> None:
        response = self._response
        exchange = self._exchange
        body = response.body
        if not isinstance(body, bytes) and response.status < 400:
            # The stream may want the client's body, and once its head is out it is too late to
            # ask for it.
            exchange.send_continue()
        self.keep_alive = not (
            exchange.message.should_close
            or response.close
            or exchange.must_close
            or exchange.is_waiting()
            or exchange.wire.is_closing()
        )
        if isinstance(body, bytes):
            head = self._head(length_line(response.status, body))
            wire = exchange.wire
            sent = b"" if exchange.message.method == "HEAD" else body
            is_shared = response.place is None
            await send_whole(head, sent, wire.send, wire.drained, is_shared=is_shared)
        else:
            try:
                await self._stream(body)
            finally:
                await end_of(body)
        if not self._linger and not self.keep_alive and not exchange.payload.is_eof():
            exchange.wire.half_close()

    async def _stream(self, body: AsyncIterator[bytes]) -> None:
        wire = self._exchange.wire
        chunked = self._exchange.message.version >= HttpVersion11
        if not chunked:
            self.keep_alive = False
        wire.send(self._head(CHUNKED if chunked else ""))
        if self._exchange.message.method == "HEAD":
            return
        await send_pieces(body, wire.send, wire.drained, chunked=chunked)

    def _head(self, framing: str) -> bytes:
        connection = ""
        if not self.keep_alive:
            connection = LAST
        elif self._exchange.message.version == HttpVersion10:
            connection = "connection: keep-alive\r\n"
        return answer_head(self._response, framing, connection, self._exchange.wire.date())
