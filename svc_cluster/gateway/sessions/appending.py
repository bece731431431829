"""Append sessions: one connection, many batches, acknowledged in the order they came.

Order across a change of leader: batch k+1 is given to the cluster only when batch k has been
acknowledged, and a batch of which it is not known whether it was appended is never sent again: the
session ends there. So no batch can get in without the one before it. The price is one round trip
to the leader and one sync a batch, whatever the client pipelines; to lift it, batches would have to
be numbered up to the sequencer. What can go on meanwhile does: while one batch is being appended,
the next frames are received, decoded, checked and built, within a bound.

A stream that is deleted and made anew between two batches of a session is not noticed here: the
acknowledgements then begin again at its first sequence numbers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import Final

from svc_cluster.base.errors import (
    ErrorCode,
    InternalError,
    MalformedError,
    ServiceError,
    StreamNotFoundError,
)
from svc_cluster.base.log import get_logger
from svc_cluster.base.tasks import Tasks
from svc_cluster.codec.proto_body import encode_append_ack
from svc_cluster.codec.records import AppendInput
from svc_cluster.codec.session_frame import (
    Frame,
    FrameDecoder,
    bad_frame,
    encode_frame,
)
from svc_cluster.gateway.handlers.appending import from_proto, submit
from svc_cluster.gateway.handlers.context import Call
from svc_cluster.gateway.http.budget import content_codings
from svc_cluster.gateway.http.errors import RequestBodyTimeoutError, UnsupportedMediaTypeError
from svc_cluster.gateway.http.formats import STREAM_HEADERS
from svc_cluster.gateway.http.message import (
    BodyBrokenError,
    BodyTimeoutError,
    ClientGoneError,
    Response,
)
from svc_cluster.gateway.sessions.terminal import terminal_frame

READ_AHEAD_BYTES_MAX: Final = 2 * 1024 * 1024
"""Of batches that are built and wait; beside them there may be one frame that is coming in. Both
count against the budget of all request bodies."""
READ_AHEAD_BATCHES_MAX: Final = 128

log = get_logger("gateway.append_session")


async def open_append_session(call: Call, basin: str, stream: str, kind: str) -> Response:
    """See that there is a stream, so that a refusal is still a plain answer, then answer before any
    frame is read. `kind`: the session media type, which is the answer's too.

    Raises MalformedError for a request token, UnsupportedMediaTypeError for a Content-Encoding,
    and what says that nothing can be appended to the stream.
    """
    request = call.request
    if request.header("svc-request-token") is not None:
        raise MalformedError(ErrorCode.BAD_HEADER, "a session takes no request token")
    if content_codings(request):
        raise UnsupportedMediaTypeError("in a session each frame is compressed by itself")
    await _require_stream(call, basin, stream)
    session = _AppendSession(call, basin, stream)
    return Response(200, [("content-type", kind), *STREAM_HEADERS], session.frames())


async def _require_stream(call: Call, basin: str, stream: str) -> None:
    """Raises unless appending to the stream can begin, be it by making it."""
    backend = call.services.backend
    try:
        await backend.get_stream_config(basin, stream)
    except StreamNotFoundError:
        config = await backend.get_basin_config(basin)
        if not config.create_stream_on_append:
            raise


class _AppendSession:
    """One open session: a task reads ahead, whoever iterates `frames` appends."""

    def __init__(self, call: Call, basin: str, stream: str) -> None:
        self._call = call
        self._names = (basin, stream)
        self._ready: deque[AppendInput] = deque()
        self._held_bytes = 0
        """Of what is ready and of what is being appended."""
        self._partial_bytes = 0
        """Of a frame that is coming in."""
        self._failure: ServiceError | None = None
        """What ended the input, behind all that is ready."""
        self._ended = False
        """Nothing more comes behind what is ready."""
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
            self._tasks.spawn(self._read_ahead(), "append session: read ahead")
            self._tasks.spawn(self._end_when_draining(), "append session: draining")
            while (wanted := await self._next()) is not None:
                ack = await submit(call, *self._names, wanted)
                self._release(wanted)
                yield encode_frame(encode_append_ack(ack), reconnect_advised=draining.is_set())
        except ServiceError as error:
            yield terminal_frame(error, call.dialect, is_write=True)
        except Exception as failure:  # the answer has begun: this is its only way to say so
            log.error("append_session_failed", exc_info=failure)
            yield terminal_frame(InternalError("internal"), call.dialect, is_write=True)
        finally:
            gauge.dec()
            await self._tasks.cancel_all()
            call.services.body_budget.give_back(self._held_bytes + self._partial_bytes)

    async def _next(self) -> AppendInput | None:
        """The next input; None at the end of the session. Raises what ended the input early."""
        draining = self._call.services.draining
        while not draining.is_set():
            if self._ready:
                return self._ready.popleft()
            if self._failure is not None:
                raise self._failure
            if self._ended:
                break
            self._changed.clear()
            await self._changed.wait()
        return None

    async def _end_when_draining(self) -> None:
        await self._call.services.draining.wait()
        self._changed.set()

    # -- the input

    async def _read_ahead(self) -> None:
        try:
            await self._receive()
        except ServiceError as error:
            self._failure = error
        except ClientGoneError:
            # Nobody is left to be told what becomes of the rest.
            self._ready.clear()
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
                    await self._put(from_proto(self._call, await _message(frame)))
                self._hold_partial(decoder.held_bytes)
        finally:
            # Also in the middle, so that the piece it has given out is no longer counted.
            if isinstance(pieces, AsyncGenerator):
                await pieces.aclose()
        decoder.finish()

    async def _put(self, wanted: AppendInput) -> None:
        """Hand an input over as soon as there is room for it. Raises HotServerError when there is
        none among all the bodies of the process."""
        size = len(wanted.batch.records)
        while self._ready and (
            self._held_bytes + size > READ_AHEAD_BYTES_MAX
            or len(self._ready) >= READ_AHEAD_BATCHES_MAX
        ):
            self._has_room.clear()
            await self._has_room.wait()
        self._call.services.body_budget.take(size)
        self._held_bytes += size
        self._ready.append(wanted)
        self._changed.set()

    def _release(self, wanted: AppendInput) -> None:
        size = len(wanted.batch.records)
        self._call.services.body_budget.give_back(size)
        self._held_bytes -= size
        self._has_room.set()

    def _hold_partial(self, size: int) -> None:
        budget = self._call.services.body_budget
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


async def _message(frame: Frame) -> bytes:
    """Decompressed in steps, between which others may work: a frame can be made to be slow."""
    parts: list[bytes] = []
    for part in frame.message_steps():
        if parts:
            await asyncio.sleep(0)
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
