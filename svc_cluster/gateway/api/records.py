"""Records: append, unary read with long poll, check-tail. What has no end is in event_stream.py,
append_session.py and read_session.py."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Final

from svc_cluster.base.errors import ErrorCode, ServiceError
from svc_cluster.codec import json_body, proto_body
from svc_cluster.codec.batch_rules import METERED_BYTES_MAX, RECORDS_MAX
from svc_cluster.codec.json_body import DataFormat
from svc_cluster.codec.plain_read import JSON_FORMS, Piece, RecordForm
from svc_cluster.codec.read_batch import forget_steps, json_steps, proto_steps
from svc_cluster.gateway.api.append_session import open_append_session
from svc_cluster.gateway.api.append_submission import (
    append_key,
    commands_told,
    from_json,
    from_proto,
    note_refusal,
    submit,
)
from svc_cluster.gateway.api.auto_create import new_stream, on_stream
from svc_cluster.gateway.api.context import Call
from svc_cluster.gateway.api.event_stream import open_event_stream
from svc_cluster.gateway.api.read_query import Cursor, ReadQuery, parse_read
from svc_cluster.gateway.api.read_session import open_read_session
from svc_cluster.gateway.limits.answer_budget import AnswerReservation
from svc_cluster.gateway.limits.gateway_memory import WAIT_SECONDS_MAX
from svc_cluster.gateway.request import caching
from svc_cluster.gateway.request.dialect import Dialect
from svc_cluster.gateway.request.negotiation import (
    JSON_BODY_BYTES_MAX,
    BodyFormat,
    Query,
    answer,
    check_request_token,
    data_format,
    protobuf_body,
    require_json,
    whole_body,
)
from svc_cluster.http.message import Response, json_response
from svc_cluster.model.access_token import AuthenticationOff
from svc_cluster.model.read_bounds import StartKind
from svc_cluster.model.record import Position
from svc_cluster.model.stream_config import NewStream

POLL_SECONDS_MAX: Final = 60
_NAMED_STARTS: Final = (StartKind.SEQ_NUM, StartKind.TIMESTAMP)
"""What begins at the same record whenever it is asked for."""


async def append(call: Call) -> Response:
    """One batch, answered only when it is durable, or a session of batches."""
    basin, stream = _names(call)
    kind = call.head.session_type
    if kind is not None:
        return await open_append_session(call, basin, stream, kind)
    asked = call.head.kept
    if not isinstance(asked, _AppendHead):
        asked = call.head.kept = _append_head(call)
    call.stages.enter("body")
    if asked.encoding is None:
        body = await protobuf_body(call.request)
    else:
        body = await whole_body(call.request, JSON_BODY_BYTES_MAX, ErrorCode.BAD_JSON)
    size = len(body)  # about as much as its records take on their way to a node
    services = call.services
    requests = services.memory.requests
    asked_at = services.clock.monotonic()
    call.stages.enter("memory")
    try:
        await requests.wait(size, WAIT_SECONDS_MAX)
        services.metrics.s2_append_permit_latency.observe(services.clock.monotonic() - asked_at)
    except ServiceError as error:
        note_refusal(call, error)
        raise
    try:
        return await _append(call, basin, stream, asked, body)
    finally:
        requests.give_back(size)


@dataclass(frozen=True, slots=True)
class _AppendHead:
    """What the head of a unary append says."""

    token: str | None
    """By which it may be repeated."""
    new: NewStream
    """What its stream is to be where that is not there."""
    encoding: DataFormat | None
    """The encoding of a body in JSON; None: it is protobuf."""


def _append_head(call: Call) -> _AppendHead:
    """Raises MalformedError (bad_header, bad_json), InvalidError."""
    token, new, encoding = check_request_token(call.request), new_stream(call), None
    if call.head.body_format is not BodyFormat.PROTOBUF:
        encoding = data_format(call.request, call.dialect)
        require_json(call.request)
    return _AppendHead(token, new, encoding)


async def _append(call: Call, basin: str, stream: str, asked: _AppendHead, body: bytes) -> Response:
    call.stages.enter("decode")
    if asked.encoding is None:
        wanted = await from_proto(call, body)
    else:
        wanted = await from_json(call, body, asked.encoding)
    call.allowance.appended(wanted.batch.metered_bytes)
    key = append_key(call, asked.token, wanted, basin, stream)
    call.stages.enter("cluster")
    with commands_told(call, basin, stream, wanted.batch):
        ack = await on_stream(
            call,
            basin,
            stream,
            asked.new,
            partial(submit, call, basin, stream, wanted, key),
            on_read=False,
        )
    call.stages.enter("answer")
    accepted = call.head.answer_format
    if accepted is BodyFormat.PROTOBUF:
        return answer(accepted, proto_body.encode_append_ack(ack))
    return answer(accepted, json_body.encode_append_ack(ack))


async def check_tail(call: Call) -> Response:
    basin, stream = _names(call)
    backend = call.services.backend
    call.stages.enter("cluster")
    tail = await on_stream(
        call,
        basin,
        stream,
        new_stream(call),
        partial(backend.check_tail, basin, stream),
        on_read=True,
    )
    return json_response(200, json_body.encode_tail(tail))


async def read(call: Call) -> Response:
    """A session by its Content-Type, else server-sent events or a unary answer by its Accept."""
    basin, stream = _names(call)
    query = Query(call.request.query)
    encoding = data_format(call.request, call.dialect, query)
    wanted = parse_read(query, call.dialect)
    kind = call.head.session_type
    if kind is not None:
        return await open_read_session(call, basin, stream, wanted, kind)
    if call.head.accepts_events:
        return await open_event_stream(call, basin, stream, wanted, encoding)
    call.stages.enter("memory")
    with await call.services.memory.answers.enter(call.request.connection) as place:
        return await _answered(call, basin, stream, wanted, place, encoding)


async def _answered(
    call: Call,
    basin: str,
    stream: str,
    wanted: ReadQuery,
    place: AnswerReservation,
    encoding: DataFormat,
) -> Response:
    """The answer to a unary read, which has a place to be made at."""
    call.stages.enter("cluster")
    records, tail, tag = await _read_unary(call, basin, stream, wanted, place, encoding)
    call.stages.enter("answer")
    turns = call.services.turns
    if tag is not None and caching.is_known(call.request, tag.text):
        await turns.run(forget_steps(records), 0)
        return caching.not_modified(tag.text, shared=tag.shared)
    accepted = call.head.answer_format
    if accepted is BodyFormat.PROTOBUF:
        steps = proto_steps(records, tail)
    else:
        steps = json_steps(records, tail, encoding)
    size = sum([record.metered_bytes for record in records])
    body = await turns.run(steps, size)
    await turns.run(forget_steps(records), 0)
    place.made(len(body))
    response = answer(accepted, body)
    if tag is not None:
        caching.keep(response, tag.text, shared=tag.shared)
    response.place = place
    return response


async def _read_unary(
    call: Call,
    basin: str,
    stream: str,
    wanted: ReadQuery,
    place: AnswerReservation,
    encoding: DataFormat,
) -> tuple[list[Piece], Position | None, _Tag | None]:
    """What there is within the bounds or, when there is nothing, the first that comes in time. With
    it comes the tag of what is there for good.

    The tail is told always or, in the S2 dialect, with records that came live: they are told from
    stored ones by a first read that does not wait.
    """
    budget = wanted.budget()
    budget.count = min(wanted.count, RECORDS_MAX) if wanted.count is not None else RECORDS_MAX
    budget.metered_bytes = (
        min(wanted.metered_bytes, METERED_BYTES_MAX)
        if wanted.metered_bytes is not None
        else METERED_BYTES_MAX
    )
    cursor = Cursor(call, basin, stream, wanted.start, budget)
    clock, draining = call.services.clock, call.services.draining
    wait_seconds = min(wanted.wait_seconds or 0, POLL_SECONDS_MAX)
    deadline = clock.monotonic() + wait_seconds
    call.stages.allow(wait_seconds)
    by_s2 = call.dialect is Dialect.S2
    is_protobuf = call.head.answer_format is BodyFormat.PROTOBUF
    form = RecordForm.PROTOBUF if is_protobuf else JSON_FORMS[encoding]
    records: list[Piece] = []
    is_live = False
    is_first = True
    while True:
        wait_ms = 0
        if not records and not budget.exhausted and not (by_s2 and is_first):
            wait_ms = max(0, math.ceil((deadline - clock.monotonic()) * 1000))
        if wait_ms:
            place.step_aside()
        result = await cursor.read(wait_ms, refuse_at_tail=by_s2 and is_first and wait_seconds == 0)
        found = await cursor.take(result, form)
        if not records and found:
            is_live = not is_first
        records += found
        is_first = False
        if budget.exhausted:
            break
        if not result.may_have_more and (
            records or draining.is_set() or clock.monotonic() >= deadline
        ):
            break
    tail = result.tail
    assert not records or records[-1].end_seq_num <= tail.seq_num, "a record at or beyond the tail"
    told = None if by_s2 and not is_live else tail
    tag = None if is_live else _tag(call, cursor, wanted, records, told, encoding)
    return records, told, tag


@dataclass(frozen=True, slots=True)
class _Tag:
    """What an answer may be kept under. `shared`: caches that serve many may."""

    text: str
    shared: bool


def _tag(
    call: Call,
    cursor: Cursor,
    wanted: ReadQuery,
    records: list[Piece],
    tail: Position | None,
    encoding: DataFormat,
) -> _Tag | None:
    """The tag of the records of a closed range. None where a later read may find others, and where
    they are encrypted. A range is closed that starts at a named place and has met its bounds, with
    something in it. What is trimmed of it changes its first record or its count."""
    stream = cursor.plain_incarnation
    is_closed = wanted.start.kind in _NAMED_STARTS and cursor.budget.exhausted
    if not records or not is_closed or stream is None or not caching.may_be_kept(call.request):
        return None
    form = call.head.answer_format
    spelling = encoding.value if form is BodyFormat.JSON else ""
    count = sum([record.count for record in records])
    span = (records[0].seq_num, records[-1].end_seq_num - 1, count)
    told = None if tail is None else (tail.seq_num, tail.timestamp_ms)
    text = caching.tag_of(stream, span, told, form.value, spelling)
    return _Tag(text, cursor.is_shared and _is_for_everybody(call))


def _is_for_everybody(call: Call) -> bool:
    """Whether whoever reaches this gateway is answered the same. A cache asks nobody for a token,
    and knows nothing of one that is revoked: what took one is for its holder alone."""
    is_open = call.caller.asked_by is AuthenticationOff.OFF
    return is_open and caching.shows_nothing(call.request)


def _names(call: Call) -> tuple[str, str]:
    assert call.match.stream is not None, "the route has a stream in its path"
    return call.head.basin, call.match.stream
