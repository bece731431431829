"""A small HTTP/1.1 client for the load generator, the demonstration, `local` and the tests.

One request at a time on one kept-alive connection, parsed as cheaply as possible so that the load
generator leaves the processor to the servers. It is not a general client: no redirects, no
compression, no retries.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, cast
from urllib.parse import urlsplit

import msgspec

from svc_cluster.http.message import BODILESS

_HEAD_BYTES_MAX: Final = 64 * 1024
_READS_QUEUED_MAX: Final = 64
"""Reads of the socket, of at most 256 KiB each, that the reader of a stream may be behind."""
ANSWER_BYTES_MAX: Final = 256 * 1024 * 1024
"""A longer answer ends the connection: whoever asks for it in one piece holds all of it."""


class ConnectionLostError(Exception):
    """The connection failed. `sent`: the request had been handed over, so that a write may have
    taken effect. `response`: what was answered instead of a stream."""

    def __init__(self, message: str, *, sent: bool, response: HttpResponse | None = None) -> None:
        super().__init__(message)
        self.sent = sent
        self.response = response


@dataclass(slots=True)
class HttpResponse:
    """A complete answer. Header names are lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON. Raises msgspec.DecodeError when it is not."""
        return msgspec.json.decode(self.body)

    @property
    def may_have_taken_effect(self) -> bool:
        """Whether a failed write may have happened; a success did."""
        if self.status < 400:
            return True
        return self.headers.get("svc-side-effects", "none" if self.status < 500 else "") != "none"


class _Protocol(asyncio.Protocol):
    """Parses the answer to the one request in flight; a streamed body goes to a queue."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.closed = False
        self._buffer = bytearray()
        self._head: asyncio.Future[HttpResponse] | None = None
        self._response: HttpResponse | None = None
        self._body = bytearray()
        self._left = 0  # bytes still missing: of the body, or of the current chunk
        self._chunked = False
        self._until_close = False
        self._stream: asyncio.Queue[bytes | None] | None = None
        self._pieces: list[bytes] = []  # of the stream, in what has just been received

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not derive from asyncio's
        self.transport = cast(asyncio.Transport, transport)

    def send(
        self, request: bytes, stream: asyncio.Queue[bytes | None] | None
    ) -> asyncio.Future[HttpResponse]:
        """The future of the whole answer, or with `stream` of its head."""
        assert self._head is None, "one request at a time"
        assert self.transport is not None
        self._head = asyncio.get_running_loop().create_future()
        self._stream = stream
        self._response = None
        self._body = bytearray()
        self.transport.write(request)
        return self._head

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._response is None and not self._parse_head():
            return
        self._parse_body()
        self._hand_over()

    def _parse_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > _HEAD_BYTES_MAX:
                self._fail("the answer's head is too long")
            return False
        lines = self._buffer[:end].decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        headers: dict[str, str] = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        status = int(lines[0].split(" ", 2)[1])
        if status == 100:
            return self._parse_head()
        self._response = HttpResponse(status, headers, b"")
        self._chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        self._until_close = not self._chunked and "content-length" not in headers
        self._left = 0 if self._chunked else int(headers.get("content-length", "0"))
        if status in BODILESS:
            self._until_close, self._chunked, self._left = False, False, 0
        if self._stream is not None and self._head is not None and status == 200:
            self._head.set_result(self._response)
        return True

    def _parse_body(self) -> None:
        if self._chunked:
            while self._take_chunk():
                pass
            return
        if self._until_close:
            self._deliver(bytes(self._buffer))
            self._buffer.clear()
            return
        piece = bytes(self._buffer[: self._left])
        del self._buffer[: self._left]
        self._left -= len(piece)
        self._deliver(piece)
        if self._left == 0:
            self._finish()

    def _take_chunk(self) -> bool:
        """Take one step through chunked coding; False when more bytes are needed or it is over."""
        if self._left > 0:
            piece = bytes(self._buffer[: self._left])
            if not piece:
                return False
            del self._buffer[: len(piece)]
            self._left -= len(piece)
            if self._left >= 2:
                self._deliver(piece)
            else:  # the last two bytes of `_left` are the chunk's line end
                self._deliver(piece[: len(piece) - (2 - self._left)])
            return True
        end = self._buffer.find(b"\r\n")
        if end < 0:
            if len(self._buffer) > _HEAD_BYTES_MAX:
                self._fail("the line of a chunk's length is too long")
            return False
        size = int(self._buffer[:end].split(b";")[0], 16)
        if size == 0:
            if len(self._buffer) < end + 4:
                return False
            del self._buffer[: end + 4]
            self._finish()
            return False
        del self._buffer[: end + 2]
        self._left = size + 2
        return True

    def _deliver(self, piece: bytes) -> None:
        if not piece:
            return
        if self._stream is None or (self._response is not None and self._response.status != 200):
            if len(self._body) + len(piece) > ANSWER_BYTES_MAX:
                self._body.clear()
                self._fail("the answer is too long")
            else:
                self._body += piece
        else:
            self._pieces.append(piece)

    def _hand_over(self) -> None:
        """Give the reader of a stream all that one read of the socket has brought, as one piece.
        However small the chunks are, the queue is as long as the reader is behind in reads."""
        if not self._pieces or self._stream is None:
            return
        piece = b"".join(self._pieces)
        self._pieces.clear()
        if self._stream.qsize() >= _READS_QUEUED_MAX:
            self._fail("the reader of a stream is too slow")
        else:
            self._stream.put_nowait(piece)

    def _finish(self) -> None:
        response, head = self._response, self._head
        assert response is not None
        self._head = None
        self._response = None
        self._hand_over()
        if self._stream is not None:
            self._stream.put_nowait(None)
            self._stream = None
        response.body = bytes(self._body)
        if response.headers.get("connection", "").lower() == "close":
            self.close()
        if head is not None and not head.done():
            head.set_result(response)

    def _fail(self, message: str) -> None:
        head, self._head = self._head, None
        if head is not None and not head.done():
            head.set_exception(ConnectionLostError(message, sent=True))
        if self._stream is not None:
            self._stream.put_nowait(None)  # there is room: its bound is one above that of reads
            self._stream = None
        self._pieces.clear()
        self.close()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        if self._until_close and self._response is not None and exc is None:
            self._finish()
        else:
            self._fail(f"connection lost: {exc or 'closed by the server'}")

    def close(self) -> None:
        self.closed = True
        if self.transport is None:
            return
        if self.transport.get_extra_info("ssl_object") is not None:
            # TLS would wait for the other side's farewell, beyond the end of the event loop
            self.transport.abort()
        else:
            self.transport.close()


class HttpClient:
    """One connection to `url`, opened when needed. Not for use by two tasks at once."""

    def __init__(self, url: str, tls: ssl.SSLContext | None = None) -> None:
        """`tls`: what an https:// address is trusted by; None: the system's authorities. Raises
        ValueError for what is no address."""
        parts = urlsplit(url if "//" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or parts.hostname is None:
            raise ValueError(f"not an http:// or https:// address: {url}")
        secure = parts.scheme == "https"
        self._tls = (tls or ssl.create_default_context()) if secure else None
        self._host: str = parts.hostname
        self._port: int = parts.port or (443 if secure else 80)
        self._protocol: _Protocol | None = None

    async def __aenter__(self) -> HttpClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def encode(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> bytes:
        """The request's bytes, to be sent any number of times with `exchange`."""
        lines = [f"{method} {path} HTTP/1.1", f"host: {self._host}:{self._port}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body or method in {"POST", "PUT", "PATCH"}:
            lines.append(f"content-length: {len(body)}")
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body

    async def exchange(self, request: bytes, *, timeout_s: float = 10.0) -> HttpResponse:
        """Send an encoded request and wait for the whole answer.

        Raises ConnectionLostError, also when `timeout_s` is over (the connection is closed then,
        because its next answer would be to the wrong request).
        """
        protocol = await self._connected(timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                return await protocol.send(request, None)
        except TimeoutError as error:
            protocol.close()
            raise ConnectionLostError(f"no answer in {timeout_s} s", sent=True) from error
        except asyncio.CancelledError:
            protocol.close()
            raise

    async def request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout_s: float = 10.0,
    ) -> HttpResponse:
        return await self.exchange(
            self.encode(method, path, headers or {}, body), timeout_s=timeout_s
        )

    async def stream(
        self, path: str, headers: Mapping[str, str], *, idle_s: float = 30.0
    ) -> AsyncGenerator[bytes, None]:
        """The pieces of a streamed 200 answer as they come; ends with the stream.

        Raises ConnectionLostError for another status or `idle_s` without a byte. A connection that
        is lost ends the stream like its regular end: the caller knows what it waits for.
        """
        protocol = await self._connected(idle_s)
        pieces: asyncio.Queue[bytes | None] = asyncio.Queue(_READS_QUEUED_MAX + 1)
        try:
            async with asyncio.timeout(idle_s):
                response = await protocol.send(self.encode("GET", path, headers, b""), pieces)
            if response.status != 200:
                text = response.body.decode(errors="replace")
                raise ConnectionLostError(
                    f"{response.status}: {text}", sent=True, response=response
                )
            while True:
                async with asyncio.timeout(idle_s):
                    piece = await pieces.get()
                if piece is None:
                    return
                yield piece
        except TimeoutError as error:
            raise ConnectionLostError(f"nothing for {idle_s} s", sent=True) from error
        finally:
            self.close()

    async def _connected(self, timeout_s: float) -> _Protocol:
        if self._protocol is not None and not self._protocol.closed:
            return self._protocol
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_s):
                _, self._protocol = await loop.create_connection(
                    _Protocol, self._host, self._port, ssl=self._tls
                )
        except (OSError, TimeoutError) as error:
            raise ConnectionLostError(f"cannot connect: {error}", sent=False) from error
        return self._protocol

    def close(self) -> None:
        if self._protocol is not None:
            self._protocol.close()
            self._protocol = None
