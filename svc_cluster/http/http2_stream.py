"""One request and its response over HTTP/2: the body in, the answer out, each at its own pace."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final, Protocol

from svc_cluster.base.errors import InternalError, MalformedError
from svc_cluster.base.log import get_logger
from svc_cluster.http.body import StreamedBody
from svc_cluster.http.connection import App, TimeLimits
from svc_cluster.http.head_errors import (
    HeadersTooLargeError,
    TargetTooLongError,
)
from svc_cluster.http.http2_head import RawHeaders, make_request
from svc_cluster.http.message import BODILESS, ClientGoneError, Connection, Response

_PIECE_BYTES_MAX: Final = 64 * 1024
"""How much of a request's body is given to its reader at once, and then owed to nobody."""
_SLICE_BYTES: Final = 16 * 1024
"""What is sent of a body before others have their turn; each has a write deadline of its own."""

log = get_logger("gateway.http2")


class StalledError(Exception):
    """The client takes nothing of its answer."""


class Frames(Protocol):
    """The connection, as a stream sees it. All but `reads` and `consumed` raise
    ConnectionResetError when the stream or the connection has ended."""

    async def writable(self) -> None:
        """Until the connection has room for more."""
        ...

    def window(self, stream_id: int) -> int:
        """Bytes of data that the client is ready for, in one frame."""
        ...

    def send_head(
        self, stream_id: int, headers: list[tuple[bytes, bytes]], *, end: bool, flush: bool
    ) -> None: ...

    def send_data(self, stream_id: int, data: bytes, *, end: bool) -> None: ...

    def reads(self, stream_id: int) -> None:
        """Somebody reads the stream's body: the client may send more of it at a time."""
        ...

    def consumed(self, stream_id: int, size: int, late: int) -> None:
        """The client may send that much more of the stream's body. All streams together may get
        `late` more, which they were not told when it arrived."""
        ...

    def reset(self, stream_id: int, *, refused: bool) -> None:
        """No more of the request is wanted (not `refused`), or the answer stays incomplete."""
        ...

    def date(self) -> str: ...

    @property
    def client(self) -> Connection: ...


class StreamBody(StreamedBody):
    """What has arrived of a body and is not yet read. The client may send no more than the
    stream's window beyond what was read: a body that waits is paused by not being read, and no
    other with it."""

    __slots__ = (
        "_arrived",
        "_data",
        "_frames",
        "_gone",
        "_id",
        "_is_read",
        "_late",
        "_padding",
        "_wanted",
        "ended",
    )

    def __init__(self, frames: Frames, stream_id: int, *, wanted: bool) -> None:
        """With `wanted` the client waits to be invited (the header `expect`, `100-continue`)."""
        self._frames = frames
        self._id = stream_id
        # One buffer: a body of one-byte frames takes no more memory than any other.
        self._data = bytearray()
        self._padding = 0
        self._late = 0
        """How much data and padding there is for which the connection's window was not opened
        again."""
        self._arrived = asyncio.Event()
        self._gone = False
        self._is_read = False
        self._wanted = wanted
        self.ended = False

    def feed(self, data: bytes, size: int, *, late: int) -> None:
        """`size` counts padding too. `late`: of it, what is given back to the connection's window
        only once it is read."""
        self._data += data
        self._padding += size - len(data)
        self._late += late
        self._arrived.set()

    def end(self) -> None:
        self.ended = True
        self._arrived.set()

    def lose(self) -> None:
        self._gone = True
        self._arrived.set()
        self.discard()

    def discard(self) -> None:
        """Nobody reads on: give the connection's window back."""
        self._take(len(self._data))

    async def drain(self, seconds: float) -> bool:
        """Drop the rest as it comes. Some clients lose an answer whose stream is reset while they
        send, so they have a moment to end. Returns whether they have."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self.ended and not self._gone:
                    self.discard()
                    self._arrived.clear()
                    await self._arrived.wait()
        return self.ended

    def _take(self, size: int) -> bytes:
        data = bytes(self._data[:size])
        del self._data[:size]
        taken = len(data) + self._padding
        self._padding = 0
        if taken:
            late = min(self._late, taken)
            self._late -= late
            self._frames.consumed(self._id, taken, late)
        return data

    def complete(self) -> bytes | None:
        if not self.ended or self._gone:
            return None
        return self._take(len(self._data))

    def abandon(self) -> None:
        """Nothing to do: other requests have streams of their own."""

    def invite(self) -> None:
        if self._wanted and not self.ended:
            self._wanted = False
            self._frames.send_head(self._id, [(b":status", b"100")], end=False, flush=True)

    async def receive(self) -> bytes:
        try:
            if not (self._is_read or self.ended):
                self._is_read = True
                self._frames.reads(self._id)
            self.invite()
        except ConnectionResetError as cause:
            raise ClientGoneError from cause
        while True:
            if self._gone:
                raise ClientGoneError
            data = self._take(_PIECE_BYTES_MAX)
            if data or self.ended:
                return data
            self._arrived.clear()
            await self._arrived.wait()


class BodyLength:
    """How long a body is to be, and has come to be. A length that is no number is refused with the
    rest of the head."""

    __slots__ = ("_declared", "_received")

    def __init__(self, raw: RawHeaders) -> None:
        lengths = [value for name, value in raw if name == b"content-length"]
        is_number = len(lengths) == 1 and lengths[0].isdigit() and len(lengths[0]) < 20
        self._declared = int(lengths[0]) if is_number else None
        self._received = 0

    def takes(self, size: int) -> bool:
        """Whether there may be so much more."""
        self._received += size
        return self._declared is None or self._received <= self._declared

    @property
    def is_met(self) -> bool:
        """Whether a body that ends here is as long as it was to be."""
        return self._declared is None or self._received == self._declared


class Stream:
    """One request being answered. `run` is its task."""

    __slots__ = (
        "_app",
        "_begun",
        "_frames",
        "_limits",
        "_raw",
        "body",
        "counted",
        "id",
        "length",
        "room",
        "task",
    )

    def __init__(
        self, app: App, frames: Frames, stream_id: int, raw: RawHeaders, limits: TimeLimits
    ) -> None:
        self._app = app
        self._frames = frames
        self._raw = raw
        self._limits = limits
        self._begun = False
        self.id = stream_id
        expects = any(n == b"expect" and v.lower() == b"100-continue" for n, v in raw)
        self.body = StreamBody(frames, stream_id, wanted=expects)
        self.length = BodyLength(raw)
        self.counted = True
        """Among those that the client may have at once."""
        self.room = asyncio.Event()
        """Set when the client has opened a window."""
        self.task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Raises nothing but cancellation."""
        try:
            await self._answer()
        except (ClientGoneError, ConnectionResetError):
            pass
        except StalledError:
            self._give_up()
        except Exception as failure:  # what escaped the application or the adapter
            log.error("adapter_failed", exc_info=failure)
            await self._fail()
        finally:
            self.body.discard()

    async def _answer(self) -> None:
        try:
            request = make_request(self._raw, self.body, self._frames.client)
        except (MalformedError, TargetTooLongError, HeadersTooLargeError) as error:
            response = self._app.refuse(error)
            await self._respond(response, with_body=True)
            return
        response = await self._app.handle(request)
        try:
            await self._respond(response, with_body=request.method != "HEAD")
        finally:
            response.place = None

    async def _respond(self, response: Response, *, with_body: bool) -> None:
        body = response.body
        frames = self._frames
        await frames.writable()
        if isinstance(body, bytes):
            sends = with_body and bool(body)
            length = len(body) if response.status not in BODILESS else None
            self._begun = True
            frames.send_head(self.id, self._head(response, length), end=not sends, flush=not sends)
            if sends:
                await self._send(body, end=True)
        else:
            try:
                await self._stream(response, body, with_body=with_body)
            finally:
                close = getattr(body, "aclose", None)
                if close is not None:
                    await close()
        if not await self.body.drain(self._limits.linger):
            frames.reset(self.id, refused=False)

    async def _stream(
        self, response: Response, body: AsyncIterator[bytes], *, with_body: bool
    ) -> None:
        if response.status < 400:
            # The stream may want the client's body, and once its head is out it is too late to
            # ask for it.
            self.body.invite()
        self._begun = True
        head = self._head(response, None)
        self._frames.send_head(self.id, head, end=not with_body, flush=True)
        if not with_body:
            return
        async for piece in body:
            if piece:
                await self._send(piece, end=False)
                piece = b""  # an idle stream holds nothing
        await self._frames.writable()
        self._frames.send_data(self.id, b"", end=True)

    def _head(self, response: Response, length: int | None) -> list[tuple[bytes, bytes]]:
        headers = [(b":status", b"%d" % response.status)]
        headers += [
            (name.encode("latin-1"), value.encode("latin-1", "replace"))
            for name, value in response.headers
        ]
        if length is not None:
            headers.append((b"content-length", b"%d" % length))
        headers.append((b"date", self._frames.date().encode()))
        return headers

    async def _send(self, data: bytes, *, end: bool) -> None:
        """Raises StalledError when the client does not take a slice within the write deadline."""
        size = len(data)
        sent = 0
        while sent < size:
            until = min(sent + _SLICE_BYTES, size)
            if self._frames.window(self.id) < until - sent:
                try:
                    async with asyncio.timeout(self._limits.write):
                        sent = await self._send_slice(data, sent, until, end=end)
                except TimeoutError:
                    raise StalledError from None
            else:
                sent = await self._send_slice(data, sent, until, end=end)
            if sent < size:
                await asyncio.sleep(0)

    async def _send_slice(self, data: bytes, sent: int, until: int, *, end: bool) -> int:
        frames = self._frames
        while sent < until:
            await frames.writable()
            room = min(frames.window(self.id), until - sent)
            if room > 0:
                last = sent + room == len(data)
                frames.send_data(self.id, data[sent : sent + room], end=end and last)
                sent += room
            else:
                self.room.clear()
                await self.room.wait()
        return sent

    def _give_up(self) -> None:
        """The client does not take its answer."""
        with contextlib.suppress(ConnectionResetError):
            self._frames.reset(self.id, refused=True)

    async def _fail(self) -> None:
        if self._begun:
            self._give_up()
            return
        try:
            error = InternalError("internal")
            response = self._app.refuse(error)
            await self._respond(response, with_body=True)
        except (ConnectionResetError, StalledError):
            self._give_up()
