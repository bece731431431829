"""Cleartext HTTP/2 with prior knowledge on a socket: the h2 library between bytes and events.

With http2_stream it stands between the library and the neutral message; with http2_library it is
the only importer of h2.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import cast

from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import H2Error, StreamClosedError

from svc_cluster.base.log import get_logger
from svc_cluster.base.tasks import start_task
from svc_cluster.http.connection import (
    App,
    HttpDate,
    TimeLimits,
    WriteGate,
    client_of,
)
from svc_cluster.http.http2_library import (
    CONNECTION_WINDOW_BYTES,
    CONNECTION_WINDOW_BYTES_FAST,
    bound_encoder,
    farewell,
    open_library,
)
from svc_cluster.http.http2_limits import (
    STREAMS_MAX,
    FrameMeter,
    FrameTooLongError,
    TooMuchError,
)
from svc_cluster.http.http2_stream import Stream
from svc_cluster.http.intake import Intake, Intakes
from svc_cluster.http.message import NOWHERE
from svc_cluster.http.sniff import HeaderDeadline

log = get_logger("gateway.http2")


class Http2:
    """All HTTP/2 connections of one listening socket."""

    def __init__(
        self,
        app: App,
        loop: asyncio.AbstractEventLoop,
        date: HttpDate,
        limits: TimeLimits,
        intakes: Intakes,
    ) -> None:
        self.intakes = intakes
        self.app = app
        self.loop = loop
        self.date = date
        self.limits = limits
        self._open: dict[Http2Connection, None] = {}
        self._serving: dict[Http2Connection, None] = {}
        self._stopping = False
        self._none_serving = asyncio.Event()

    def connection(self, deadline: HeaderDeadline) -> Http2Connection:
        return Http2Connection(self, deadline)

    @property
    def connections(self) -> int:
        return len(self._open)

    def stop(self) -> None:
        """Every connection ends with the requests it is serving."""
        self._stopping = True
        for connection in list(self._serving):
            connection.retire()

    def retire_certified(self) -> list[asyncio.BaseTransport]:
        """Let those connections end with the requests they are serving whose client has shown a
        certificate. Returns them."""
        found = [each for each in self._open if each.client.certificate is not None]
        return [transport for each in found if (transport := each.retire()) is not None]

    async def shutdown(self, grace_seconds: float) -> None:
        """Wait for requests in progress, then cut them off."""
        if self._serving:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_seconds):
                    await self._none_serving.wait()
        tasks = [task for connection in list(self._open) for task in connection.cut_off()]
        await asyncio.gather(*tasks, return_exceptions=True)

    def opened(self, connection: Http2Connection) -> None:
        self._open[connection] = None
        self._serving[connection] = None
        if self._stopping:
            connection.retire()

    def served(self, connection: Http2Connection) -> None:
        """Nothing more will be answered on it."""
        self._serving.pop(connection, None)
        if self._stopping and not self._serving:
            self._none_serving.set()

    def lost(self, connection: Http2Connection) -> None:
        self.served(connection)
        self._open.pop(connection, None)


class Http2Connection(asyncio.Protocol):
    """One connection. Its streams see it as `Frames`."""

    def __init__(self, owner: Http2, deadline: HeaderDeadline) -> None:
        self._owner = owner
        self._deadline = deadline
        self._deadline.expired = self._client_is_late
        self._deadline.drop = self._abort
        self._gate = WriteGate(owner.loop, owner.limits.write, self._abort)
        self._meter = FrameMeter(owner.loop.time)
        self._h2, self._greeting = open_library()
        self._transport: asyncio.Transport | None = None
        self._streams: dict[int, Stream] = {}
        self._unfed: list[bytes] = []
        """What has come and was not looked at yet; meanwhile nothing more is read."""
        self._counted = 0
        self._closing = False
        self._retiring = False
        self._idle: asyncio.TimerHandle | None = None
        self.client = NOWHERE
        self._intake: Intake | None = None
        self._is_wide = False
        """Its window is that of a fast connection."""

    # The transport's calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.client = client_of(transport)
        self._intake = Intake(self._owner.intakes, transport)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._write(self._greeting)
        self._owner.opened(self)
        self._start_idle()

    def data_received(self, data: bytes) -> None:
        if self._intake is not None:
            self._intake.received(len(data))
        if self._unfed:
            self._unfed.append(data)  # a last piece, from before reading was paused
            return
        self._feed(data)

    def _go_on(self) -> None:
        """Another turn of the loop: look at what the one before has left."""
        data = b"".join(self._unfed)
        self._unfed.clear()
        if self._transport is not None and not self._closing:
            self._transport.resume_reading()
            self._feed(data)

    def _feed(self, data: bytes) -> None:
        if self._closing:
            return
        try:
            data = self._meter.feed(data)
            for event in self._h2.receive_data(data):
                self._take(event)
        except TooMuchError as cause:
            self._end(ErrorCodes.ENHANCE_YOUR_CALM, f"too many {cause}")
            return
        except FrameTooLongError:
            self._end(ErrorCodes.FRAME_SIZE_ERROR)
            return
        except H2Error:
            # The library has its GOAWAY ready, with the reason.
            self._end(None)
            return
        except Exception as failure:  # the library met what it does not know how to refuse
            log.error("adapter_failed", exc_info=failure)
            self._end(ErrorCodes.INTERNAL_ERROR)
            return
        self._flush()
        if self._meter.rest and self._transport is not None:
            self._unfed.append(self._meter.rest)
            self._transport.pause_reading()
            self._owner.loop.call_soon(self._go_on)
            return
        if self._meter.head_open or not self._meter.settings_seen:
            self._deadline.start()
            self._deadline.took(self._meter.head_bytes)
        else:
            self._deadline.cancel()
        self._end_if_done()

    def eof_received(self) -> None:
        """The library wants both directions: the transport closes."""

    def connection_lost(self, exc: BaseException | None) -> None:
        self._closing = True
        self._deadline.cancel()
        self._stop_idle()
        self._gate.lose()
        if self._intake is not None:
            self._intake.close()
        for stream in list(self._streams.values()):
            self._cancel(stream)
        self._transport = None
        self._owner.lost(self)

    def pause_writing(self) -> None:
        if self._transport is not None:
            self._gate.pause(self._transport)

    def resume_writing(self) -> None:
        self._gate.resume()

    # What a stream asks for.

    async def writable(self) -> None:
        if not self._gate.is_open:
            await self._gate.wait()

    def window(self, stream_id: int) -> int:
        stream = self._open(stream_id)
        return min(self._h2.local_flow_control_window(stream.id), self._h2.max_outbound_frame_size)

    def send_head(
        self, stream_id: int, headers: list[tuple[bytes, bytes]], *, end: bool, flush: bool
    ) -> None:
        stream = self._open(stream_id)
        self._h2.send_headers(stream_id, headers, end_stream=end)
        if end:
            self._uncount(stream)
        if flush:
            self._flush()

    def send_data(self, stream_id: int, data: bytes, *, end: bool) -> None:
        assert data or end, "an empty frame says nothing"
        stream = self._open(stream_id)
        self._meter.count_sent()
        if data:
            self._h2.send_data(stream_id, data, end_stream=end)
        else:
            # An end needs no window, not even one that is not negative.
            self._h2.end_stream(stream_id)
        if end:
            self._uncount(stream)
        self._flush()

    def reads(self, stream_id: int) -> None:
        if not self._closing:
            self._h2.widen_stream(stream_id)
            self._flush()

    def consumed(self, stream_id: int, size: int, late: int) -> None:
        self._owner.intakes.taken(size)
        if not self._closing:
            self._h2.open_stream(stream_id, size)
            if late:
                self._h2.open_connection(late)
            if not self._is_wide and self._intake is not None and self._intake.is_fast:
                self._is_wide = True  # not for what nobody reads
                more = CONNECTION_WINDOW_BYTES_FAST - CONNECTION_WINDOW_BYTES
                self._h2.increment_flow_control_window(more)
            self._flush()

    def reset(self, stream_id: int, *, refused: bool) -> None:
        self._open(stream_id)
        self._reset(stream_id, ErrorCodes.CANCEL if refused else ErrorCodes.NO_ERROR)
        self._flush()

    def date(self) -> str:
        return self._owner.date.text()

    # Stopping.

    def retire(self) -> asyncio.BaseTransport | None:
        """Take no more requests; end with the last of those under way. Returns what is left to
        end."""
        transport = self._transport
        if not self._retiring and not self._closing:
            self._retiring = True
            self._write(farewell(self._h2, ErrorCodes.NO_ERROR))
            self._end_if_done()
        return transport

    def cut_off(self) -> list[asyncio.Task[None]]:
        """Cancel what is under way and end. Returns the tasks that are ending."""
        tasks = [stream.task for stream in self._streams.values() if stream.task is not None]
        self._end(None)
        if self._transport is not None:
            self._transport.close()
        return tasks

    # The library's events.

    def _take(self, event: Event) -> None:
        match event:
            case RequestReceived():
                self._request(event)
            case DataReceived():
                self._data(event)
            case StreamEnded():
                stream = self._streams.get(event.stream_id or 0)
                if stream is not None and not stream.length.is_met:
                    self._break(stream)
                elif stream is not None:
                    stream.body.end()
            case StreamReset():
                if not event.remote_reset:
                    self._meter.count_reset()
                stream = self._streams.get(event.stream_id or 0)
                if stream is not None:
                    self._cancel(stream)
            case WindowUpdated():
                self._window_opened(event.stream_id or 0)
            case RemoteSettingsChanged():
                bound_encoder(self._h2)
                self._window_opened(0)
            case _:
                # Trailers, priorities, acknowledgements: of no consequence here.
                pass

    def _request(self, event: RequestReceived) -> None:
        stream_id, headers = event.stream_id, event.headers
        assert stream_id is not None, "the library fills its events"
        assert headers is not None, "the library fills its events"
        full = self._counted >= STREAMS_MAX or len(self._streams) >= 2 * STREAMS_MAX
        if full or self._retiring:
            self._meter.count_reset()
            self._reset(stream_id, ErrorCodes.REFUSED_STREAM)
            return
        self._stop_idle()
        owner = self._owner
        raw = [(bytes(name), bytes(value)) for name, value in headers]
        stream = Stream(owner.app, self, stream_id, raw, owner.limits)
        self._streams[stream_id] = stream
        self._counted += 1
        task = start_task(stream.run(), f"http2-stream-{stream_id}")
        stream.task = task
        task.add_done_callback(lambda done: self._answered(stream))

    def _data(self, event: DataReceived) -> None:
        size = event.flow_controlled_length or 0
        data = event.data or b""
        stream = self._streams.get(event.stream_id or 0)
        if size and not data:
            self._meter.count_empty_data()
        if stream is not None and stream.length.takes(len(data)):
            has_room = self._owner.intakes.arrived(size)
            if has_room:
                self._h2.open_connection(size)
            stream.body.feed(data, size, late=0 if has_room else size)
            return
        if stream is not None:
            self._break(stream)
        self._h2.open_connection(size)

    def _break(self, stream: Stream) -> None:
        """Its body is not as long as it says: that ends the stream, and no other."""
        self._meter.count_reset()
        self._reset(stream.id, ErrorCodes.PROTOCOL_ERROR)
        self._cancel(stream)

    def _window_opened(self, stream_id: int) -> None:
        if stream_id == 0:
            for stream in self._streams.values():
                stream.room.set()
        elif stream_id in self._streams:
            self._streams[stream_id].room.set()

    def _answered(self, stream: Stream) -> None:
        """The stream's task has ended, by itself or cancelled."""
        stream.task = None  # it may keep what ended it, with all that this had to do
        stream.body.discard()  # what came behind its end
        if self._streams.pop(stream.id, None) is not None:
            self._meter.count_completed()
            if stream.counted and not self._closing:
                # Without an end of its answer the client would wait for it.
                self._uncount(stream)
                self._reset(stream.id, ErrorCodes.INTERNAL_ERROR)
                self._flush()
        if not self._streams and not self._closing:
            self._start_idle()
            self._end_if_done()

    def _cancel(self, stream: Stream) -> None:
        self._streams.pop(stream.id, None)
        self._uncount(stream)
        stream.body.lose()
        if stream.task is not None:
            stream.task.cancel()
        if not self._streams and not self._closing:
            self._start_idle()

    def _uncount(self, stream: Stream) -> None:
        """The client may open another from the moment its answer is complete."""
        if stream.counted:
            stream.counted = False
            self._counted -= 1

    # Bytes and timers.

    def _open(self, stream_id: int) -> Stream:
        stream = self._streams.get(stream_id)
        if stream is None or self._closing:
            raise ConnectionResetError("the client has gone")
        return stream

    def _reset(self, stream_id: int, code: ErrorCodes) -> None:
        with contextlib.suppress(StreamClosedError):
            self._h2.reset_stream(stream_id, code)

    def _flush(self) -> None:
        self._write(self._h2.data_to_send())

    def _write(self, data: bytes) -> None:
        if data and self._transport is not None:
            self._transport.write(data)

    def _end(self, code: ErrorCodes | None, why: str = "") -> None:
        """Say why (None: the library has it ready), stop every request, and close."""
        if self._closing:
            return
        self._flush()
        if code is not None:
            self._write(farewell(self._h2, code, why))
        self._closing = True
        self._deadline.cancel()
        self._stop_idle()
        for stream in list(self._streams.values()):
            self._cancel(stream)
        self._owner.served(self)
        transport = self._transport
        if transport is not None and not transport.is_closing():
            # What still comes is read and dropped, so that the reason is not lost to a reset.
            if transport.can_write_eof():
                transport.write_eof()
            self._linger(transport.get_write_buffer_size() + 1)

    def _linger(self, left_before: int) -> None:
        """Close when the client has, or reads no more of what was sent."""
        left = 0 if self._transport is None else self._transport.get_write_buffer_size()
        if 0 < left < left_before or left_before == left + 1:
            self._owner.loop.call_later(self._owner.limits.linger, self._linger, left)
        else:
            self._abort()

    def _end_if_done(self) -> None:
        if (self._retiring or self._meter.leaving) and not self._streams:
            self._end(None if self._retiring else ErrorCodes.NO_ERROR)

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _client_is_late(self) -> None:
        self._end(ErrorCodes.ENHANCE_YOUR_CALM, "headers did not arrive in time")

    def _start_idle(self) -> None:
        if self._idle is None:
            self._idle = self._owner.loop.call_later(self._owner.limits.keep_alive, self.retire)

    def _stop_idle(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
