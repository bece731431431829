"""Read sessions: a streaming read whose pieces are frames of ReadBatch.

A frame without records is a heartbeat and carries the tail. Source: contract 8.4.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence

from svc_cluster.base.errors import InvalidError, ServiceError
from svc_cluster.codec.plain_read import Piece, RecordForm
from svc_cluster.codec.proto_body import encode_read_batch
from svc_cluster.codec.read_batch import proto_steps
from svc_cluster.codec.session_frame import (
    MESSAGE_BYTES_MAX,
    Compression,
    compression_of,
    encode_frame,
    frame_steps,
    with_reconnect_advice,
)
from svc_cluster.gateway.api.context import Call
from svc_cluster.gateway.api.read_query import Cursor, ReadQuery
from svc_cluster.gateway.api.stream_follower import Follower, refuses_at_tail
from svc_cluster.gateway.api.terminal_frame import terminal_frame
from svc_cluster.gateway.records.encoded_part import EncodedPart
from svc_cluster.gateway.request.compress import accepted_coding
from svc_cluster.gateway.request.dialect import Dialect
from svc_cluster.gateway.request.negotiation import STREAM_HEADERS
from svc_cluster.http.message import Response
from svc_cluster.model.record import Position


async def open_read_session(
    call: Call, basin: str, stream: str, wanted: ReadQuery, kind: str
) -> Response:
    """Read once, so that a refusal is still a plain answer, then stream. `kind`: the session media
    type, which is the answer's too. Raises what the first backend read raises."""
    cursor = Cursor(call, basin, stream, wanted.start, wanted.budget())
    first = await cursor.read(0, refuse_at_tail=refuses_at_tail(call, wanted))
    compression = compression_of(accepted_coding(call.request.headers))
    frames = _Frames(call.dialect, compression, call.services.draining)
    follower = Follower(call, cursor, frames, wanted.wait_seconds)
    return Response(200, [("content-type", kind), *STREAM_HEADERS], follower.body(first))


class _Frames:
    """A `ReadEncoder` of session frames. Once the server is to stop, they advise the client to
    connect again."""

    def __init__(self, dialect: Dialect, compression: Compression, draining: asyncio.Event) -> None:
        self._dialect = dialect
        self._compression = compression
        self._draining = draining
        self._has_advised = False

    @property
    def form(self) -> str:
        return f"frame {self._compression.name}"

    @property
    def record_form(self) -> RecordForm:
        return RecordForm.PROTOBUF

    def encode(
        self, records: Sequence[Piece], tail: Position | None
    ) -> Generator[None, None, bytes]:
        message = yield from proto_steps(records, tail)
        yield
        if len(message) > MESSAGE_BYTES_MAX:
            # Very many tiny headers take twice their metered size on the wire.
            raise InvalidError(
                "the next record has too many headers for a session; read it as JSON"
            )
        return (yield from frame_steps(message, self._compression))

    def batch(self, part: EncodedPart) -> bytes:
        if not self._advises():
            return part.encoded
        return with_reconnect_advice(part.encoded)

    def heartbeat(self, now_ms: int, tail: Position) -> bytes:
        return self._frame(encode_read_batch((), tail))

    def failure(self, error: ServiceError) -> bytes:
        return terminal_frame(error, self._dialect, is_write=False)

    def end(self) -> None:
        return None

    def may_leave(self) -> bool:
        return self._has_advised

    def _frame(self, message: bytes) -> bytes:
        return encode_frame(message, self._compression, reconnect_advised=self._advises())

    def _advises(self) -> bool:
        advises = self._draining.is_set()
        self._has_advised |= advises
        return advises
