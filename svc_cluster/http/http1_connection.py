"""HTTP/1.1 on a socket: aiohttp's parser and connection loop, with JSON errors, quiet logs, and
bounds on request heads.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from itertools import islice
from typing import Any, Final, cast

from aiohttp import StreamReader, web
from aiohttp.http import RawRequestMessage
from aiohttp.http_exceptions import LineTooLong
from aiohttp.web_protocol import RequestHandler, RequestPayloadError

from svc_cluster.base.errors import ErrorCode, InternalError, MalformedError, ServiceError
from svc_cluster.base.log import get_logger
from svc_cluster.http import http1_head as heads
from svc_cluster.http.connection import HEADER_BYTES_MAX, WriteGate
from svc_cluster.http.head_errors import RequestBodyTimeoutError
from svc_cluster.http.http1_common import Http1Common
from svc_cluster.http.http1_exchange import Reply, last_head
from svc_cluster.http.http1_framing import Framing
from svc_cluster.http.http1_plain_head import plain_head
from svc_cluster.http.intake import Ahead, Intake
from svc_cluster.http.message import NOWHERE
from svc_cluster.http.sniff import HeaderDeadline

_UNPARSED_BYTES_MAX: Final = 1024 * 1024
"""The bound for one connection; a read of the socket brings a quarter of it, and then reading is
paused."""
CUT_SECONDS: Final = 0.1
"""For a handler to end once it is cut off."""

log = get_logger("gateway.http1")


class Http1Connection(RequestHandler):
    """One connection. Its exchanges see it as an `Http1Wire`."""

    def __init__(self, owner: Http1Common, manager: web.Server, deadline: HeaderDeadline) -> None:
        super().__init__(
            manager,
            loop=owner.loop,
            keepalive_timeout=owner.limits.keep_alive,
            access_log=None,  # type: ignore[arg-type]
            lingering_time=owner.limits.linger,
            read_bufsize=heads.UNREAD_BYTES,
        )
        self._owner = owner
        self._parser = heads.new_parser(self, owner.loop, self._max_msg_queue_size)
        self._deadline = deadline
        self._deadline.expired = self._head_is_late
        self._deadline.drop = self._abort
        self._gate = WriteGate(owner.loop, owner.limits.write, self._abort)
        self._body: StreamReader | None = None
        self._framing = Framing()
        self._unparsed = b""
        """What the parser was not given yet: it has enough of requests, or of an unread body."""
        self._line_bytes = 0
        """How long the first line of the head that came last is, or is at least."""
        self._odd_lines: list[object] = []
        self._half_closed = False
        self._replies = 0
        """How many there were to all that has been asked for, what cannot be parsed included."""
        self._dropping = False
        self._retiring = False
        self._lost = asyncio.Event()
        self._socket: asyncio.Transport | None = None
        """Until the connection is lost; the library forgets its own when it begins to close."""
        self._cutting: asyncio.TimerHandle | None = None
        self.client = NOWHERE
        self._intake: Intake | None = None
        self._ahead = Ahead(owner.intakes)
        self._queued: deque[int] = deque()
        """The bytes of each request that the library has not begun with, head and body."""
        self._head_bytes = 0
        """What the parser has of a head that is not whole."""
        self._is_overfull = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.client = self._deadline.client_of(transport)
        self._intake = Intake(self._owner.intakes, transport)
        self._owner.connections += 1
        self._socket = cast(asyncio.Transport, transport)
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Nothing new (b"") is how the library goes on with what it had to leave."""
        if self._intake is not None:
            self._intake.received(len(data))
        if self._dropping or (data and self._is_plain_now(data)):
            return
        self._forget_begun()
        self._unparsed += data
        if len(self._unparsed) > _UNPARSED_BYTES_MAX:
            self.force_close()  # it goes on sending although nothing is read from it
            return
        if not data:
            self._parse(b"")
        self._framing.arrived()
        unparsed, start = self._unparsed, 0
        self._unparsed = b""
        while start < len(unparsed) and self._may_parse():
            end = self._framing.cut(unparsed, start)
            self._parse(unparsed[start:end])
            start = end
        if self._upgraded and start < len(unparsed):
            super().data_received(unparsed[start:])
        elif not self._has_ended() and (self._framing.in_body or not self._retiring):
            self._unparsed = unparsed[start:]
        if not self._ahead.hold(self._ahead_bytes()):
            self._drop_ahead()

    def _forget_begun(self) -> None:
        while len(self._queued) > len(self._messages):
            self._queued.popleft()

    def _in_turn(self) -> int:
        """How many in the queue are not ahead: the first, where no request is being answered."""
        return int(0 < len(self._messages) == self._request_count - self._replies)

    def _ahead_bytes(self) -> int:
        """How much is there of requests whose turn has not come."""
        self._forget_begun()
        in_turn = self._in_turn()
        is_of_turn = self._framing.in_body and len(self._messages) == in_turn
        if is_of_turn or self._request_count == self._replies:
            return 0
        behind = self._head_bytes + len(self._unparsed)
        return behind + sum(islice(self._queued, in_turn, None))

    def _drop_ahead(self) -> None:
        """Nothing is kept of what has no room: the connection ends with the answer in turn."""
        self._ahead.release()
        self._dropping = self._is_overfull = True
        self._unparsed = b""
        for _ in range(len(self._messages) - self._in_turn()):
            _, payload = self._messages.pop()
            self._request_count -= 1
            if payload.exception() is None:
                payload.read_nowait(-1)  # the parser holds on to it
        self._deadline.cancel()
        self._pause_reading_for_buffer()
        self.close()

    def _is_plain_now(self, data: bytes) -> bool:
        """Hand the connection back, with a whole plain request that comes when it is at rest.
        Returns whether that was so."""
        make, socket = self._owner.plain, self._socket
        if make is None or socket is None or not self._is_at_rest():
            return False
        head = plain_head(data)
        if head is None or len(head.raw) + head.body_bytes > len(data):
            return False
        self.transport = None  # the library would close it
        self.connection_lost(None)
        plain = make(self._deadline)
        socket.set_protocol(plain)
        plain.connection_made(socket)
        plain.data_received(data)
        return True

    def _is_at_rest(self) -> bool:
        """Whether all that has come is answered, and more may be."""
        waiter = self._waiter
        is_waiting = waiter is not None and not waiter.done() and self._framing.is_at_start
        is_paused = self._reading_paused or not self._gate.is_open
        is_ending = self._retiring or self._half_closed or self._has_ended() or self._upgraded
        return is_waiting and not self._unparsed and not is_paused and not is_ending

    def _has_ended(self) -> bool:
        return self._dropping or self._close or self._force_close or self.transport is None

    def _may_parse(self) -> bool:
        """Not while the parser itself keeps something back: it could then make one request of
        several pieces."""
        if self._has_ended() or self._upgraded or self._reading_paused:
            return False
        if self._framing.in_body:
            return not self._framing.is_at_end
        return not self._retiring and len(self._messages) < self._max_msg_queue_size

    def _parse(self, piece: bytes) -> None:
        """At most one head is in a piece, and none together with a body."""
        framing = self._framing
        in_body = framing.in_body
        requests_before = self._request_count
        if not in_body:
            self._head_bytes += len(piece)
        elif self._queued:
            self._queued[-1] += len(piece)
        if piece and not in_body:
            self._line_bytes = len(framing.first_line())
        super().data_received(piece)
        if self._request_count != requests_before:
            self._deadline.cancel()
            self._queued.append(self._head_bytes)
            self._head_bytes = 0
            messages = list(islice(reversed(self._messages), self._request_count - requests_before))
            if in_body or len(messages) > 1:
                self._odd_lines += [one for one, _ in messages]
            message, payload = messages[0]
            if not isinstance(message, RawRequestMessage):
                self._parser_failed(in_body=in_body)
                return
            self._body = payload
            framing.took_a_head(heads.body_bytes(message, payload))
            if framing.first_line() != heads.line_of(message):
                self._odd_lines.append(message)
        elif in_body:
            if self._body is not None and self._body.is_eof():
                self._body_ended()
        elif piece and self.transport is not None:
            self._deadline.start()
            taken_bytes = framing.took_part_of_a_head()
            self._deadline.took(taken_bytes)
            if taken_bytes > HEADER_BYTES_MAX:
                self._refuse_head(heads.too_large(self._line_bytes))

    def _body_ended(self) -> None:
        """The parser keeps the last trailer of a chunked body, and makes it the first header of the
        request behind it. So each such body is the last of its parser, or of its connection."""
        framing = self._framing
        framing.body_ended()
        if framing.is_chunked and framing.is_exact:
            self._parser = heads.new_parser(self, self._owner.loop, self._max_msg_queue_size)
        elif framing.is_chunked:
            self.retire()  # the parser may have the begin of a head by now

    def _parser_failed(self, *, in_body: bool) -> None:
        """The library queues its error behind the request whose body is broken. It would let that
        request's handler wait for the rest."""
        self._dropping = True
        if in_body:
            assert self._body is not None, "it was seen a moment ago"
            self._body.set_exception(RequestPayloadError("the body is not well-formed"))
            # A reader that was woken by the same bytes would otherwise wait again.
            self._body.feed_eof()

    def has_odd_line(self, message: RawRequestMessage) -> bool:
        return any(odd is message for odd in self._odd_lines)

    def eof_received(self) -> bool:  # type: ignore[override]  # as asyncio has it
        """The client says no more. What it has asked for is answered, where all of it is there."""
        in_body = self._body is not None and not self._body.is_eof()
        transport = self.transport
        if self._request_count == self._replies or in_body or transport is None:
            self._cut_off_soon()
            return False
        self._half_closed = True
        # With TLS there is no half of a connection.
        return transport.get_extra_info("sslcontext") is None

    def connection_lost(self, exc: BaseException | None) -> None:
        self._socket = None
        if self._cutting is not None:
            self._cutting.cancel()
        self._deadline.cancel()
        self._gate.lose()
        self._ahead.release()
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

    async def start(self) -> None:
        """The library's loop over requests; with its end the connection is being closed."""
        try:
            await super().start()
        finally:
            self._cut_off_soon()

    def force_close(self) -> None:
        """Close what is not being closed yet: asyncio's TLS cannot be aborted after a second
        close."""
        if self.transport is not None and self.transport.is_closing():
            self.transport = None
        super().force_close()
        self._cut_off_soon()

    def _cut_off_soon(self) -> None:
        """A connection that is being closed has the time limit of writing for what is unsent."""
        if self._socket is not None and self._cutting is None:
            self._cutting = self._loop.call_later(self._owner.limits.write, self._abort)

    def _abort(self) -> None:
        if self._socket is not None:
            self._socket.abort()

    def retire(self) -> asyncio.BaseTransport | None:
        """Take no more heads. The connection ends with the answer to the request that it has, whose
        body still comes. None: it has ended."""
        self._retiring = True
        self._deadline.cancel()
        if self._request_count == self._replies:
            is_idle = self._waiter is not None or not self._request_count
            self.force_close() if is_idle else self.close()  # an answer may be lingering
        return self._socket

    async def shutdown(self, timeout: float | None = 15.0) -> None:
        """Wait for the request in progress before the library does, which takes no more of it."""
        end = self._loop.time() + (timeout or 0)
        task = self._task_handler
        if task is not None and self._request_count != self._replies:
            await asyncio.wait({task}, timeout=timeout or 0)
        await super().shutdown(max(end - self._loop.time(), CUT_SECONDS))

    def _head_is_late(self) -> None:
        self._refuse_head(RequestBodyTimeoutError("the request's head did not arrive in time"))

    def _refuse_head(self, error: ServiceError) -> None:
        """Answer a request that never became one, unless another is being answered."""
        # The library has no current request while an answer is being sent.
        if self.transport is None or self._request_count != self._replies:
            self._abort()
            return
        answer = self._owner.refuse(error)
        assert isinstance(answer.body, bytes), "errors are not streamed"
        self.transport.write(last_head(answer, len(answer.body), self.date()) + answer.body)
        self._dropping = True
        self.half_close()
        self._loop.call_later(self._owner.limits.linger, self.force_close)

    def is_closing(self) -> bool:
        is_last = self._half_closed and self._request_count <= self._replies + 1
        is_last = is_last or self._retiring or self._close
        return is_last or self._force_close or self.transport is None

    def is_deaf(self) -> bool:
        return self._half_closed or self._has_ended()

    def replied(self) -> None:
        self._replies += 1
        self._ahead.hold(min(self._ahead.bytes, self._ahead_bytes()))
        if self._retiring:
            self.close()  # the head of this answer may have left before

    def send(self, data: bytes | memoryview) -> None:
        if self.transport is None or self.transport.is_closing():
            raise ConnectionResetError("the client has gone")
        self.transport.write(data)

    async def drained(self) -> None:
        if not self._gate.is_open:
            await self._gate.wait()

    def half_close(self) -> None:
        self._deadline.stop()  # of a head behind: it could not be answered any more
        if self.transport is not None and self.transport.can_write_eof():
            self.transport.write_eof()

    def is_overfull(self) -> bool:
        return self._is_overfull

    async def linger(self) -> None:
        self._dropping = True
        self.half_close()
        self._resume_reading_for_buffer()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._owner.limits.linger):
                await self._lost.wait()

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
        if status == 400 and (isinstance(exc, LineTooLong) or heads.TOO_MANY in str(exc)):
            too_large = heads.too_large(self._line_bytes)
            return Reply(request, self._owner.refuse(too_large), linger=True)
        if status == 400:
            error = MalformedError(ErrorCode.BAD_HEADER, "the request is not well-formed HTTP/1.1")
            return Reply(request, self._owner.refuse(error), linger=True)
        log.error("adapter_failed", status=status, exc_info=exc)
        return Reply(request, self._owner.refuse(InternalError("internal")))

    def log_exception(self, *args: Any, **kw: Any) -> None:
        failure = kw.get("exc_info")
        # Of the rest of a body that nobody wanted.
        if not isinstance(failure, RequestPayloadError):
            log.error("connection_failed", exc_info=failure)
