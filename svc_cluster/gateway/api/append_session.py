"""Append sessions: one connection, many batches, acknowledged in the order they came.

All that a client pipelines is on its way to the leader at once, within a bound. Batch k+1 is never
appended without batch k, whatever becomes of leaders meanwhile: `Backend.open_appends` sees to it.
The session ends at the first batch that is refused for good or of which it is not known whether it
was appended; what was received behind it is dropped.

A stream that is deleted and made anew between two batches of a session is not always noticed: the
acknowledgements then begin again at its first sequence numbers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from svc_cluster.base.errors import (
    ErrorCode,
    InternalError,
    KeyRequiredError,
    MalformedError,
    ServiceError,
)
from svc_cluster.base.log import get_logger
from svc_cluster.base.tasks import Tasks
from svc_cluster.codec.batch_codec import AppendInput
from svc_cluster.codec.proto_body import encode_append_ack
from svc_cluster.codec.session_frame import (
    Compression,
    FrameDecoder,
    SessionFrame,
    bad_frame,
    encode_frame,
)
from svc_cluster.gateway.api.append_submission import (
    from_proto,
    note_ack,
    note_refusal,
    tell_commands,
    units_unused,
    with_units,
)
from svc_cluster.gateway.api.auto_create import new_stream, on_stream
from svc_cluster.gateway.api.context import Call
from svc_cluster.gateway.api.terminal_frame import terminal_frame
from svc_cluster.gateway.cluster.backend import Appends
from svc_cluster.gateway.request.error_answers import UnsupportedMediaTypeError
from svc_cluster.gateway.request.negotiation import STREAM_HEADERS
from svc_cluster.gateway.request.record_key import record_key
from svc_cluster.gateway.request.refusals import without_frames
from svc_cluster.http.head_errors import RequestBodyTimeoutError
from svc_cluster.http.message import (
    BodyBrokenError,
    BodyTimeoutError,
    ClientGoneError,
    Response,
)
from svc_cluster.model.record import AppendAck, StoredBatch

UNDER_WAY_BYTES_MAX: Final = 4 * 1024 * 1024
"""The largest size of the batches of one session that have no acknowledgement yet; beside them
there may be one frame that is coming in. Both count against the budget of all request bodies."""
UNDER_WAY_BATCHES_MAX: Final = 128
GRACE_SECONDS: Final = 0.5
"""Once the access token is no good any more: for what is under way, whose outcome would otherwise
not be known."""

log = get_logger("gateway.append_session")


async def open_append_session(call: Call, basin: str, stream: str, kind: str) -> Response:
    """See that there is a stream, so that a refusal is still a plain answer, then answer before any
    frame is read. `kind`: the session media type, which is the answer's too.

    Raises MalformedError for a request token, UnsupportedMediaTypeError for a Content-Encoding,
    MalformedError and KeyRequiredError for the key of an encrypted stream, and what says that
    nothing can be appended to the stream.
    """
    request = call.request
    if request.header("svc-request-token") is not None:
        raise MalformedError(ErrorCode.BAD_HEADER, "a session takes no request token")
    if call.head.body.codings:
        raise UnsupportedMediaTypeError("in a session each frame is compressed by itself")
    key = record_key(request)
    backend, sealer = call.services.backend, call.services.sealer
    # nobody could be told of a refusal as plainly as now
    identity = await on_stream(
        call,
        basin,
        stream,
        new_stream(call),
        lambda: sealer.identity(basin, stream),
        on_read=False,
    )
    if identity.cipher is not None and key is None:
        raise KeyRequiredError.of(identity.cipher)

    async def seal(batch: StoredBatch) -> StoredBatch:
        return await sealer.seal(batch, identity, key)

    appends = backend.open_appends(basin, stream)
    session = _AppendSession(call, (basin, stream), appends, seal)
    return Response(200, [("content-type", kind), *STREAM_HEADERS], session.frames())


@dataclass(frozen=True, slots=True)
class _UnderWay:
    """A batch that was put and has no acknowledgement yet."""

    batch: StoredBatch
    begun: float


class _AppendSession:
    """One open session: a task receives and puts, whoever iterates `frames` waits for the acks."""

    def __init__(
        self,
        call: Call,
        names: tuple[str, str],
        appends: Appends,
        seal: Callable[[StoredBatch], Awaitable[StoredBatch]],
    ) -> None:
        """`names`: of the basin and the stream."""
        self._call = call
        self._names = names
        self._appends = appends
        self._seal = seal
        self._under_way: deque[_UnderWay] = deque()
        self._held_bytes = 0
        """The bytes of all that is under way."""
        self._partial_bytes = 0
        """The bytes of a frame that is coming in."""
        self._message_bytes = 0
        """The bytes of a message that was decompressed and is not under way yet."""
        self._failure: ServiceError | None = None
        """What ended the input, behind all that is under way."""
        self._ended = False
        """Nothing more comes behind what is under way."""
        self._client_is_gone = False
        self._ending: BaseException = ClientGoneError()
        """What ended the session while something was under way; unless it is known to be something
        else, its client went away."""
        self._is_over = False
        """A batch has failed: nothing more is taken."""
        self._changed = asyncio.Event()
        self._has_room = asyncio.Event()
        self._tasks = Tasks(on_failure=self._fail)

    async def frames(self) -> AsyncGenerator[bytes, None]:
        """An acknowledgement for each input, in order; at the first failure its terminal frame,
        and the end. What was received behind it is dropped."""
        call = self._call
        draining = call.services.draining
        gauge = call.services.metrics.append_sessions
        gauge.inc()
        try:
            self._tasks.spawn(self._receive_all(), "append session: receive")
            self._tasks.spawn(self._end_when_draining(), "append session: draining")
            while (first := await self._first_while_valid()) is not None:
                async with call.caller.while_valid(GRACE_SECONDS, is_write=True):
                    ack = await self._next_ack(first)
                self._release(first)
                yield encode_frame(encode_append_ack(ack), reconnect_advised=draining.is_set())
        except ServiceError as error:
            self._ending = error
            self._take_no_more()
            yield terminal_frame(error, call.dialect, is_write=True)
        except Exception as failure:  # the answer has begun: this is its only way to say so
            told = {"request_id": call.request.id}
            call.services.faults.tell(log, "append_session_failed", failure, **told)
            self._ending = InternalError("internal")
            self._take_no_more()
            yield terminal_frame(InternalError("internal"), call.dialect, is_write=True)
        finally:
            gauge.dec()
            self._appends.close()
            await self._tasks.cancel_all()
            for each in self._under_way:
                tell_commands(call, *self._names, each.batch, self._ending)
            self._release_message()
            call.services.memory.bodies.give_back(self._held_bytes + self._partial_bytes)
            if self._failure is not None:
                # it was raised here, and would keep this frame, and all that is left of the session
                without_frames(self._failure)

    async def _first_while_valid(self) -> _UnderWay | None:
        async with self._call.caller.while_valid():
            return await self._first()

    async def _first(self) -> _UnderWay | None:
        """The first batch without an acknowledgement; None at the end of the session. Raises what
        ended the input early."""
        draining = self._call.services.draining
        while not self._client_is_gone:
            if self._under_way:
                return self._under_way[0]
            if self._failure is not None:
                raise self._failure
            if self._ended or draining.is_set():
                break
            self._changed.clear()
            await self._changed.wait()
        return None

    async def _next_ack(self, first: _UnderWay) -> AppendAck:
        try:
            ack = await self._appends.next_ack()
        except ServiceError as error:
            note_refusal(self._call, error)
            units_unused(self._call, *self._names, first.batch, error)
            raise
        tell_commands(self._call, *self._names, first.batch, None)
        note_ack(self._call, first.batch, self._call.services.clock.monotonic() - first.begun)
        return ack

    async def _end_when_draining(self) -> None:
        await self._call.services.draining.wait()
        self._changed.set()
        self._has_room.set()

    # -- the input

    async def _receive_all(self) -> None:
        try:
            await self._receive()
        except ServiceError as error:
            # what was received is not kept by the error that says what is wrong with it
            self._failure = without_frames(error)
        except ClientGoneError:
            # Nobody is left to be told what becomes of the rest.
            self._client_is_gone = True
        except BodyBrokenError:
            self._failure = bad_frame("the body's framing is broken")
        except BodyTimeoutError:
            self._failure = RequestBodyTimeoutError("the body did not arrive in time")
        self._ended = True
        self._changed.set()

    async def _receive(self) -> None:
        decoder = FrameDecoder()
        pieces = self._call.request.body.chunks(idle_seconds=None)
        try:
            async for piece in pieces:
                decoder.feed(piece)
                while (frame := decoder.next_frame()) is not None:
                    if frame.is_terminal:
                        raise bad_frame("a terminal frame is the server's to send")
                    message = await self._message(frame)
                    if not await self._put(await from_proto(self._call, message)):
                        return
                self._hold_partial(decoder.held_bytes)
        finally:
            # Also in the middle, so that the piece it has given out is no longer counted.
            if isinstance(pieces, AsyncGenerator):
                await pieces.aclose()
        decoder.finish()

    async def _put(self, wanted: AppendInput) -> bool:
        """Give an input to the cluster as soon as there is room for it. False: the session is over,
        or the server stops; nothing more is taken. Raises HotServerError when there is no room
        among all the bodies of the process, and nothing of this session would make any."""
        size = len(wanted.batch.records)
        services = self._call.services
        while self._under_way and not self._takes_no_more() and not self._fits(size):
            self._has_room.clear()
            await self._has_room.wait()
        if self._takes_no_more():
            return False
        await self._call.allowance.pace_append(wanted.batch.metered_bytes)
        if self._takes_no_more():
            return False
        self._release_message()
        services.memory.bodies.take(size)
        self._held_bytes += size
        counted = with_units(self._call, *self._names, wanted.batch)
        batch = await self._seal(counted)
        self._call.caller.check()
        if counted.commands:
            services.audit.before_commands()
        self._under_way.append(_UnderWay(counted, services.clock.monotonic()))
        self._appends.put(batch, wanted.match_seq_num, wanted.fencing_token)
        self._changed.set()
        return True

    def _take_no_more(self) -> None:
        """Nothing is given to the cluster behind what failed, though its client may go on."""
        self._is_over = True
        self._appends.close()
        self._has_room.set()

    def _takes_no_more(self) -> bool:
        return self._is_over or self._call.services.draining.is_set()

    def _fits(self, size: int) -> bool:
        return (
            self._held_bytes + size <= UNDER_WAY_BYTES_MAX
            and len(self._under_way) < UNDER_WAY_BATCHES_MAX
            and self._call.services.memory.bodies.has_plenty_for(size)
        )

    def _release(self, first: _UnderWay) -> None:
        self._under_way.popleft()
        size = len(first.batch.records)
        self._call.services.memory.bodies.give_back(size)
        self._held_bytes -= size
        self._has_room.set()

    async def _message(self, frame: SessionFrame) -> bytes:
        """Decompressed in steps, between which others may work: a frame can be made to be slow.
        What comes of it counts as what is received does. Raises HotServerError when there is no
        room."""
        parts: list[bytes] = []
        for part in frame.message_steps():
            if parts:
                await self._call.services.turns.turn()
            if frame.compression is not Compression.NONE:
                self._call.services.memory.bodies.take(len(part))
                self._message_bytes += len(part)
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _release_message(self) -> None:
        self._call.services.memory.bodies.give_back(self._message_bytes)
        self._message_bytes = 0

    def _hold_partial(self, size: int) -> None:
        budget = self._call.services.memory.bodies
        if size > self._partial_bytes:
            budget.take(size - self._partial_bytes)
        else:
            budget.give_back(self._partial_bytes - size)
        self._partial_bytes = size

    def _fail(self, fault: BaseException) -> None:
        """A fault of ours in a task, which has been logged."""
        self._failure = InternalError("internal")
        self._ended = True
        self._changed.set()
