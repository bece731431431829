"""One request and its answer, both going on at once, over HTTP/1.1 and over HTTP/2."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import urlsplit

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
)
from h2.exceptions import ProtocolError

from svc_cluster.codec.session_frame import FrameDecoder, SessionFrame

SILENCE_S: Final = 6.0
"""Longer than a gateway needs for any answer."""


T = TypeVar("T")


class LostError(ConnectionError):
    """The connection broke, or the other side was silent for too long."""


class NotConnectedError(LostError):
    """Nothing was sent."""


class Exchange(Protocol):
    """Everything raises LostError."""

    status: int
    headers: dict[str, str]
    """Of the answer, names in lower case."""

    async def send(self, data: bytes) -> None: ...

    async def end(self) -> None:
        """Nothing more is sent."""
        ...

    async def receive(self) -> bytes:
        """Empty at the end of the answer."""
        ...

    def close(self) -> None: ...


class Open(Protocol):
    """Connect to a URL and send a request; the answer's head has come when it returns. Without
    `body`, that of a POST goes on; other requests have none."""

    def __call__(
        self, url: str, method: str, path: str, headers: dict[str, str], body: bytes | None = None
    ) -> Coroutine[Any, Any, Exchange]: ...


async def _connect(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    parts = urlsplit(url)
    try:
        async with asyncio.timeout(SILENCE_S):
            return await asyncio.open_connection(parts.hostname, parts.port)
    except (OSError, TimeoutError) as cause:
        raise NotConnectedError(str(cause)) from cause


async def _heard(answer: Coroutine[Any, Any, T]) -> T:
    try:
        async with asyncio.timeout(SILENCE_S):
            return await answer
    except (OSError, EOFError, TimeoutError) as cause:
        raise LostError(repr(cause)) from cause


class _Http1:
    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self.status = 0
        self.headers: dict[str, str] = {}
        self._length: int | None = None

    async def begin(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None
    ) -> None:
        lines = [f"{method} {path} HTTP/1.1", "host: localhost"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None:
            lines.append(f"content-length: {len(body)}")
        elif method == "POST":
            lines.append("transfer-encoding: chunked")
        self._writer.write("\r\n".join([*lines, "\r\n"]).encode() + (body or b""))
        head = await _heard(self._reader.readuntil(b"\r\n\r\n"))
        self.status = int(head.split(b" ")[1])
        for line in head.decode("latin-1").split("\r\n")[1:]:
            if line:
                field, value = line.split(":", 1)
                self.headers[field.lower()] = value.strip()
        if (length := self.headers.get("content-length")) is not None:
            self._length = int(length)

    async def send(self, data: bytes) -> None:
        self._writer.write(b"%x\r\n%b\r\n" % (len(data), data))
        await self._drain()

    async def end(self) -> None:
        self._writer.write(b"0\r\n\r\n")
        await self._drain()

    async def _drain(self) -> None:
        try:
            await self._writer.drain()
        except OSError as cause:
            raise LostError(str(cause)) from cause

    async def receive(self) -> bytes:
        return await _heard(self._receive())

    async def _receive(self) -> bytes:
        if self._length is not None:
            length, self._length = self._length, 0
            return await self._reader.readexactly(length)
        size = int((await self._reader.readuntil(b"\r\n")).split(b";")[0], 16)
        return (await self._reader.readexactly(size + 2))[:-2]

    def close(self) -> None:
        self._writer.close()


class _Http2:
    """One stream on a connection of its own."""

    def __init__(
        self, authority: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._authority = authority
        self._reader = reader
        self._writer = writer
        self._h2 = H2Connection(H2Configuration(client_side=True, header_encoding="latin-1"))
        self._stream_id = 1
        self._data = bytearray()
        self._ended = False
        self._room = asyncio.Event()
        self.status = 0
        self.headers: dict[str, str] = {}

    async def begin(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None
    ) -> None:
        self._h2.initiate_connection()
        fields = [
            (":method", method),
            (":scheme", "http"),
            (":authority", self._authority),
            (":path", path),
            *headers.items(),
        ]
        ends = body == b"" or (body is None and method != "POST")
        self._h2.send_headers(self._stream_id, fields, end_stream=ends)
        self._flush()
        sending = asyncio.ensure_future(self._send_whole(body or b""))
        try:
            while not self.status:
                await self._pump()
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _send_whole(self, body: bytes) -> None:
        if body:
            await self.send(body)
            await self.end()

    async def send(self, data: bytes) -> None:
        """Whoever sends much must receive meanwhile, or the windows stay shut."""
        while data:
            room = min(
                self._h2.local_flow_control_window(self._stream_id),
                self._h2.max_outbound_frame_size,
            )
            if room == 0:
                self._room.clear()
                await self._room.wait()
                continue
            self._act(partial(self._h2.send_data, self._stream_id, data[:room]))
            data = data[room:]
            await self._drain()

    async def end(self) -> None:
        self._act(lambda: self._h2.end_stream(self._stream_id))
        await self._drain()

    def _act(self, action: Callable[[], None]) -> None:
        try:
            action()
        except ProtocolError as cause:  # the server has ended the stream
            raise LostError(str(cause)) from cause
        self._flush()

    async def _drain(self) -> None:
        try:
            await self._writer.drain()
        except OSError as cause:
            raise LostError(str(cause)) from cause

    async def receive(self) -> bytes:
        while not self._data and not self._ended:
            await self._pump()
        data = bytes(self._data)
        self._data.clear()
        return data

    async def _pump(self) -> None:
        data = await _heard(self._reader.read(65536))
        if not data:
            raise LostError("the connection was closed")
        for event in self._events(data):
            match event:
                case ResponseReceived():
                    self.headers = {str(name): str(value) for name, value in event.headers or ()}
                    self.status = int(self.headers[":status"])
                case DataReceived():
                    self._data += event.data or b""
                    self._h2.acknowledge_received_data(
                        event.flow_controlled_length or 0, self._stream_id
                    )
                case StreamEnded():
                    self._ended = True
                case StreamReset() if not self._ended:
                    raise LostError("the stream was reset")
                case ConnectionTerminated() if not self._ended:
                    raise LostError("the connection is going away")
                case _:
                    pass
        self._room.set()
        self._flush()

    def _events(self, data: bytes) -> list[Event]:
        """The library reads nothing behind a GOAWAY, not even what belongs to earlier streams."""
        try:
            return self._h2.receive_data(data)
        except ProtocolError as cause:
            if "in state ConnectionState.CLOSED" in str(cause):
                raise LostError("the connection is going away") from cause
            raise

    def _flush(self) -> None:
        if data := self._h2.data_to_send():
            self._writer.write(data)

    def close(self) -> None:
        self._writer.close()


async def open_http1(
    url: str, method: str, path: str, headers: dict[str, str], body: bytes | None = None
) -> Exchange:
    exchange = _Http1(*await _connect(url))
    return await _begun(exchange, method, path, headers, body)


async def open_http2(
    url: str, method: str, path: str, headers: dict[str, str], body: bytes | None = None
) -> Exchange:
    exchange = _Http2(urlsplit(url).netloc, *await _connect(url))
    return await _begun(exchange, method, path, headers, body)


async def _begun(
    exchange: _Http1 | _Http2,
    method: str,
    path: str,
    headers: dict[str, str],
    body: bytes | None,
) -> Exchange:
    try:
        await exchange.begin(method, path, headers, body)
    except BaseException:
        exchange.close()
        raise
    return exchange


async def frames_of(exchange: Exchange) -> AsyncIterator[SessionFrame]:
    """The frames of a session's answer, to its end."""
    decoder = FrameDecoder()
    while data := await exchange.receive():
        decoder.feed(data)
        while (frame := decoder.next_frame()) is not None:
            yield frame


async def body_of(exchange: Exchange) -> dict[str, Any]:
    """A plain answer."""
    parts = []
    while data := await exchange.receive():
        parts.append(data)
    found: dict[str, Any] = json.loads(b"".join(parts) or b"{}")
    return found
