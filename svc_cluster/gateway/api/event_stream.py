"""Streaming reads as server-sent events."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from svc_cluster.base.errors import DrainingError, ErrorCode, MalformedError, ServiceError
from svc_cluster.codec.batch_codec import ReadBudget
from svc_cluster.codec.batch_rules import U64_MAX
from svc_cluster.codec.json_body import DataFormat
from svc_cluster.codec.plain_read import JSON_FORMS, Piece
from svc_cluster.codec.read_batch import json_steps
from svc_cluster.codec.sse import (
    DONE,
    NOTHING_DELIVERED,
    EventId,
    batch_event,
    error_event,
    parse_event_id,
    ping_event,
)
from svc_cluster.gateway.api.context import Call
from svc_cluster.gateway.api.read_query import Cursor, ReadQuery
from svc_cluster.gateway.api.stream_follower import Follower, refuses_at_tail
from svc_cluster.gateway.records.encoded_part import EncodedPart
from svc_cluster.gateway.request.dialect import Dialect
from svc_cluster.gateway.request.error_answers import error_body
from svc_cluster.gateway.request.negotiation import EVENT_STREAM, STREAM_HEADERS
from svc_cluster.http.message import Response
from svc_cluster.model.read_bounds import ReadStart, StartKind
from svc_cluster.model.record import Position


async def open_event_stream(
    call: Call, basin: str, stream: str, wanted: ReadQuery, encoding: DataFormat
) -> Response:
    """Read once, so that a refusal is still a plain answer, then stream.

    Raises what the first backend read raises, and MalformedError for a bad `last-event-id`.
    """
    budget = wanted.budget()
    start = wanted.start
    refuse_at_tail = refuses_at_tail(call, wanted)
    last_event_id = call.request.header("last-event-id")
    delivered = NOTHING_DELIVERED
    if last_event_id is not None:
        delivered = parse_event_id(last_event_id)
        start = _resume(delivered, start, budget)
        # Whoever resumes at the tail has had everything: that is an end, not a mistake.
        refuse_at_tail = False
    cursor = Cursor(call, basin, stream, start, budget)
    first = None
    if last_event_id is None or not budget.exhausted:
        first = await cursor.read(0, refuse_at_tail=refuse_at_tail)
    wire = _Events(call.dialect, encoding, delivered)
    follower = Follower(call, cursor, wire, wanted.wait_seconds)
    headers = [("content-type", EVENT_STREAM), *STREAM_HEADERS]
    return Response(200, headers, follower.body(first))


def _resume(last: EventId, start: ReadStart, budget: ReadBudget) -> ReadStart:
    """Go on behind the last event that the client has seen; what it had is taken off the budget."""
    if last.seq_num >= U64_MAX:
        raise MalformedError(ErrorCode.BAD_HEADER, "nothing can follow this last-event-id")
    budget.from_ms = 0
    if budget.count is not None:
        budget.count = max(0, budget.count - last.count)
    if budget.metered_bytes is not None:
        budget.metered_bytes = max(0, budget.metered_bytes - last.metered_bytes)
    return ReadStart(StartKind.SEQ_NUM, last.seq_num + 1, clamp=start.clamp)


class _Events:
    """A `ReadEncoder` of server-sent events."""

    def __init__(self, dialect: Dialect, encoding: DataFormat, delivered: EventId) -> None:
        """`delivered`: on the connections before this one. Ids count on from there, for the next
        one takes what the last id counts off the limits of the whole read."""
        self._dialect = dialect
        self._encoding = encoding
        self._sent = delivered
        self.form = encoding.value
        self.record_form = JSON_FORMS[encoding]

    def encode(
        self, records: Sequence[Piece], tail: Position | None
    ) -> Generator[None, None, bytes]:
        return json_steps(records, tail, self._encoding)

    def batch(self, part: EncodedPart) -> bytes:
        self._sent = self._sent.behind(part.end_seq_num - 1, part.count, part.metered_bytes)
        return batch_event(self._sent, part.encoded)

    def heartbeat(self, now_ms: int, tail: Position) -> bytes:
        return ping_event(now_ms, tail)

    def failure(self, error: ServiceError) -> bytes:
        return error_event(error_body(error, self._dialect))

    def end(self) -> bytes:
        return DONE

    def may_leave(self) -> bool:
        raise DrainingError("the server is stopping; connect again")
