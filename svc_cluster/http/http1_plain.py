"""This serves HTTP/1.1 connections as long as their requests are plain. Each is read at once, head
and body, and answered by one task, without the library in between.

What is not plain (`http1_plain_head`), what comes in pieces for longer than a moment and what is
large is handed over as it came, with its connection, to `http1_connection`, which hands the
connection back when it is at rest and a plain request comes. Nothing is refused here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol, cast

from svc_cluster.base.errors import InternalError
from svc_cluster.base.log import get_logger
from svc_cluster.base.tasks import start_task
from svc_cluster.http.connection import HEADER_BYTES_MAX, WriteGate
from svc_cluster.http.http1_answer import (
    CHUNKED,
    LAST,
    SLICE_BYTES,
    answer_head,
    end_of,
    length_line,
    send_pieces,
    send_whole,
)
from svc_cluster.http.http1_common import Http1Common
from svc_cluster.http.http1_framing import HEAD_END
from svc_cluster.http.http1_plain_head import PLAIN_HEAD_BYTES_MAX, PlainHead, plain_head
from svc_cluster.http.intake import Ahead, Intake, keep_alive_probes
from svc_cluster.http.message import NOWHERE, BytesBody, ClientGoneError, Request, Response
from svc_cluster.http.sniff import HeaderDeadline

BODY_BYTES_MAX: Final = 64 * 1024
"""A larger body is read piece by piece, by others."""
BODY_SECONDS: Final = 0.05
"""For what is lacking of a body whose head is there."""
AHEAD_BODY_SECONDS: Final = 30.0
"""For a body that has begun behind a request that is being answered, and is not held back."""
_AHEAD_BYTES_MAX: Final = PLAIN_HEAD_BYTES_MAX + BODY_BYTES_MAX
"""Behind a request that is being answered; with more nothing is taken from the client. What all of
them have sent ahead has a bound too (`intake`)."""
_KEPT_HEAD_BYTES_MAX: Final = 2 * 1024
"""A head is kept for the next request, which mostly begins with the same bytes."""

log = get_logger("gateway.http1")


class Successor(Protocol):
    """A protocol that takes a connection over, and can do all that is lacking here."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...

    def data_received(self, data: bytes) -> None: ...

    def eof_received(self) -> bool | None: ...

    def retire(self) -> asyncio.BaseTransport | None: ...


class PlainConnections:
    """The PlainConnections are those of one listening socket that have had plain requests only."""

    def __init__(
        self, common: Http1Common, successor: Callable[[HeaderDeadline], Successor]
    ) -> None:
        self.common = common
        self.successor = successor
        self.open: dict[PlainConnection, None] = {}

    def connection(self, deadline: HeaderDeadline) -> PlainConnection:
        return PlainConnection(self, deadline)

    async def end(self, grace_seconds: float, cut_seconds: float) -> None:
        """Let requests in progress end for a while, then cut them off."""
        tasks = {each.task for each in self.open if each.task is not None}
        if tasks:
            _, left = await asyncio.wait(tasks, timeout=grace_seconds)
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left, timeout=cut_seconds)
        for each in list(self.open):
            each.close()


class PlainConnection(asyncio.Protocol):
    """One connection."""

    def __init__(self, owner: PlainConnections, deadline: HeaderDeadline) -> None:
        self._owner = owner
        self._common = owner.common
        self._deadline = deadline
        self._transport: asyncio.Transport | None = None
        """None once the connection is lost or another's."""
        self.client = NOWHERE
        self.task: asyncio.Task[None] | None = None
        """Answers the request that came last."""
        self._unparsed = b""
        self._head: PlainHead | None = None
        """The head of the request whose body is not whole."""
        self._known: PlainHead | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._ahead = Ahead(self._common.intakes)
        self._ahead_late: asyncio.TimerHandle | None = None
        self._is_dropping = False
        """What was sent ahead is not kept; the connection ends with the answer under way."""
        self._is_paused = False
        self._half_closed = False
        self._retiring = False
        self._idle_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        common = self._common
        self._transport = cast(asyncio.Transport, transport)
        self._deadline.expired = self._deadline.drop = self._abort
        self.client = self._deadline.client_of(transport)
        self._intake = Intake(common.intakes, transport)
        self._gate = WriteGate(common.loop, common.limits.write, self._abort)
        self._idle_since = common.loop.time()
        self._idle = common.loop.call_later(common.limits.keep_alive, self._look_for_idleness)
        self._cutting: asyncio.TimerHandle | None = None
        common.connections += 1
        self._owner.open[self] = None
        keep_alive_probes(transport)

    def data_received(self, data: bytes) -> None:
        self._intake.received(len(data))
        if self._transport is None or self._transport.is_closing() or self._is_dropping:
            return
        self._unparsed += data
        if self.task is None:
            self._go_on()
        else:
            self._look_ahead()
        self._hold_back()

    def _look_ahead(self) -> None:
        """See whether there is room for what is behind the request that is being answered. Then
        whether the head there is whole, and its body."""
        if not self._ahead.hold(len(self._unparsed)):
            self._end_with_this_answer()
        elif self._unparsed.find(HEAD_END, 0, HEADER_BYTES_MAX) < 0:
            self._deadline.start()  # an answer that takes long does not extend it
            self._deadline.took(len(self._unparsed))
        else:
            self._deadline.cancel()
            if self._ahead_late is None and self._lacks_body():
                call_later = self._common.loop.call_later
                self._ahead_late = call_later(AHEAD_BODY_SECONDS, self._look_whether_late)

    def _lacks_body(self) -> bool:
        head = plain_head(self._unparsed)
        return head is not None and len(head.raw) + head.body_bytes > len(self._unparsed)

    def _look_whether_late(self) -> None:
        self._ahead_late = None
        if self.task is not None and not self._is_paused and self._lacks_body():
            self._end_with_this_answer()
            self._hold_back()

    def _end_with_this_answer(self) -> None:
        """Keep nothing of what was sent ahead: its client finds the connection ended, and sends it
        again."""
        self._is_dropping = self._retiring = True
        self._unparsed = b""
        self._wait_no_more()
        self._deadline.cancel()

    def _hold_back(self) -> None:
        """Take nothing more from a client that has sent much ahead, until that is served."""
        transport = self._transport
        is_much = len(self._unparsed) > _AHEAD_BYTES_MAX or self._is_dropping
        is_much = is_much and self.task is not None
        if transport is None or transport.is_closing() or is_much == self._is_paused:
            return
        self._is_paused = is_much
        if is_much:
            transport.pause_reading()
        else:
            transport.resume_reading()

    def _go_on(self) -> None:
        """Begin with the next request, if all of it is there."""
        data = self._unparsed
        head = self._head
        if head is None:
            head = self._known
            if head is None or not data.startswith(head.raw):
                head = plain_head(data)
        if head is None:
            self._hand_over()
            return
        begin = len(head.raw)
        end = begin + head.body_bytes
        if len(data) < end:
            self._wait_for_body(head)
            return
        self._wait_no_more()
        self._deadline.cancel()
        if begin <= _KEPT_HEAD_BYTES_MAX:
            self._known = head
        self._unparsed = data[end:]
        body = BytesBody(data[begin:end])
        request = Request(
            head.method,
            head.path,
            head.query,
            head.headers,
            body,
            self.client,
            head_note=head.note,
            _by_name=head.by_name,
        )
        self.task = start_task(self._serve(request), "plain request")
        if self._unparsed:
            self._look_ahead()

    def _wait_for_body(self, head: PlainHead) -> None:
        is_large = head.body_bytes > BODY_BYTES_MAX
        if is_large or self._half_closed or not self._ahead.hold(len(self._unparsed)):
            self._hand_over()
            return
        self._head = head
        if self._patience is None:
            self._patience = self._common.loop.call_later(BODY_SECONDS, self._hand_over)

    def _wait_no_more(self) -> None:
        self._head = None
        self._ahead.release()
        for timer in (self._patience, self._ahead_late):
            if timer is not None:
                timer.cancel()
        self._patience = self._ahead_late = None

    def _hand_over(self) -> Successor:
        transport, data = self._transport, self._unparsed
        assert transport is not None, "timers end with the connection"
        self._let_go()
        if self._is_paused:
            transport.resume_reading()  # whoever comes next begins without a pause
        successor = self._owner.successor(self._deadline)
        transport.set_protocol(cast(asyncio.Protocol, successor))
        successor.connection_made(transport)
        successor.data_received(data)
        if self._half_closed and not successor.eof_received():
            transport.close()
        return successor

    def _let_go(self) -> None:
        """The connection is nobody's, or another's."""
        self._transport = None
        self._unparsed = b""
        self._wait_no_more()
        self._idle.cancel()
        if self._cutting is not None:
            self._cutting.cancel()
        self._intake.close()
        self._common.connections -= 1
        del self._owner.open[self]

    # -- answers

    async def _serve(self, request: Request) -> None:
        keeps_on = False
        try:
            keeps_on = await self._answer(await self._response(request))
        except (ConnectionError, ClientGoneError):
            pass  # there is nobody to answer
        except Exception as failure:  # of a body in the middle of its answer
            log.error("connection_failed", exc_info=failure)
        finally:
            self.task = None
            if self._transport is not None:
                self._answered(keeps_on)

    async def _response(self, request: Request) -> Response:
        try:
            return await self._common.app.handle(request)
        except (ConnectionError, ClientGoneError):
            raise
        except Exception as failure:  # as the library's adapter does
            log.error("adapter_failed", status=500, exc_info=failure)
            return self._common.refuse(InternalError("internal"))

    async def _answer(self, response: Response) -> bool:
        """Send it. Returns whether the connection goes on."""
        try:
            body, common = response.body, self._common
            is_last = response.close or common.leaving or self._retiring or self._has_said_all()
            framing = length_line(response.status, body) if isinstance(body, bytes) else CHUNKED
            head = answer_head(response, framing, LAST if is_last else "", common.date.text())
            if isinstance(body, bytes) and len(body) <= SLICE_BYTES:
                self._send(head + body)
                if not self._gate.is_open:
                    await self._gate.wait()
            elif isinstance(body, bytes):
                is_shared = response.place is None
                await send_whole(head, body, self._send, self._drained, is_shared=is_shared)
            else:
                try:
                    self._send(head)
                    await send_pieces(body, self._send, self._drained, self._gate, chunked=True)
                finally:
                    await end_of(body)
            return not is_last
        finally:
            response.place = None

    def _has_said_all(self) -> bool:
        return self._half_closed and not self._unparsed

    def _send(self, data: bytes | memoryview) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client has gone")
        transport.write(data)

    async def _drained(self) -> None:
        if not self._gate.is_open:
            await self._gate.wait()

    def _answered(self, keeps_on: bool) -> None:
        assert self._transport is not None, "whoever calls has looked"
        if not keeps_on or self._retiring or self._has_said_all():
            self.close()
            return
        self._idle_since = self._common.loop.time()
        if self._unparsed:
            self._go_on()
        self._hold_back()

    # -- the end

    def eof_received(self) -> bool:
        """The client says no more. What it has asked for is answered, where all of it is there."""
        transport = self._transport
        if self.task is None or transport is None:
            self.close()
            return False
        self._half_closed = True
        # With TLS there is no half of a connection.
        return transport.get_extra_info("sslcontext") is None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._let_go()
        self._deadline.cancel()
        self._gate.lose()
        if self.task is not None:
            self.task.cancel()

    def pause_writing(self) -> None:
        if self._transport is not None:
            self._gate.pause(self._transport)

    def resume_writing(self) -> None:
        self._gate.resume()

    def retire(self) -> asyncio.BaseTransport | None:
        """Take no more heads; see `Http1Connection.retire`."""
        transport = self._transport
        if self.task is not None:
            self._retiring = True
        elif self._unparsed:
            self._hand_over().retire()
        else:
            self.close()
        return transport

    def close(self) -> None:
        """End the connection, with the time limit of writing for what is unsent."""
        transport = self._transport
        if transport is not None and self._cutting is None:
            self._wait_no_more()
            self._unparsed = b""
            loop, limits = self._common.loop, self._common.limits
            if self._is_dropping and transport.can_write_eof():
                transport.write_eof()
                self._hold_back()  # what still comes is dropped, so that the answer is not lost
                loop.call_later(limits.linger, transport.close)
            else:
                transport.close()
            self._cutting = loop.call_later(limits.write, transport.abort)

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _look_for_idleness(self) -> None:
        common = self._common
        left = self._idle_since + common.limits.keep_alive - common.loop.time()
        if self.task is not None:
            left = common.limits.keep_alive
        elif left <= 0:
            self.close()
            return
        self._idle = common.loop.call_later(left, self._look_for_idleness)
