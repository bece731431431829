"""Records: append, unary read with long poll, check-tail. What has no end is in follow.py and in
sessions."""

from __future__ import annotations

import math
from typing import Final

from svc_cluster.codec import json_body, proto_body
from svc_cluster.codec.json_body import DataFormat
from svc_cluster.codec.records import METERED_BYTES_MAX, RECORDS_MAX, RecordOut
from svc_cluster.codec.request_key import append_hash
from svc_cluster.gateway.answer_room import Place
from svc_cluster.gateway.handlers.appending import (
    commands_told,
    from_json,
    from_proto,
    submit,
)
from svc_cluster.gateway.handlers.auto_create import new_stream, on_stream
from svc_cluster.gateway.handlers.context import Call
from svc_cluster.gateway.handlers.follow import open_event_stream
from svc_cluster.gateway.handlers.reading import Cursor, ReadRequest, parse_read
from svc_cluster.gateway.handlers.repeating import write_key
from svc_cluster.gateway.http.dialect import Dialect
from svc_cluster.gateway.http.formats import (
    BodyFormat,
    accepts_events,
    answer,
    answer_format,
    body_format,
    protobuf_body,
    session_type,
)
from svc_cluster.gateway.http.message import Response, json_response
from svc_cluster.gateway.http.negotiation import (
    JSON_BODY_BYTES_MAX,
    Query,
    basin_of,
    check_request_token,
    data_format,
)
from svc_cluster.gateway.http.negotiation import json_body as read_json
from svc_cluster.gateway.sessions.appending import open_append_session
from svc_cluster.gateway.sessions.reading import open_read_session
from svc_cluster.model.record import Position

WAIT_SECONDS_MAX: Final = 60


async def append(call: Call) -> Response:
    """One batch, answered only when it is durable, or a session of batches."""
    basin, stream = _names(call)
    kind = session_type(call.request)
    if kind is not None:
        return await open_append_session(call, basin, stream, kind)
    token = check_request_token(call.request)
    new = new_stream(call)
    if body_format(call.request) is BodyFormat.PROTOBUF:
        wanted = await from_proto(call, await protobuf_body(call.request))
    else:
        encoding = _data_format(call)
        wanted = await from_json(call, await read_json(call.request, JSON_BODY_BYTES_MAX), encoding)
    call.allowance.appended(wanted.batch.metered_bytes)
    key = b""
    if token is not None:
        hashed = append_hash(wanted.batch, wanted.match_seq_num, wanted.fencing_token)
        key = write_key(call, token, hashed, basin, stream)
    with commands_told(call, basin, stream, wanted.batch):
        ack = await on_stream(
            call,
            basin,
            stream,
            new,
            lambda: submit(call, basin, stream, wanted, key),
            on_read=False,
        )
    accepted = answer_format(call.request)
    if accepted is BodyFormat.PROTOBUF:
        return answer(accepted, proto_body.encode_append_ack(ack))
    return answer(accepted, json_body.encode_append_ack(ack))


async def check_tail(call: Call) -> Response:
    basin, stream = _names(call)
    backend = call.services.backend
    tail = await on_stream(
        call,
        basin,
        stream,
        new_stream(call),
        lambda: backend.check_tail(basin, stream),
        on_read=True,
    )
    return json_response(200, json_body.encode_tail(tail))


async def read(call: Call) -> Response:
    """A session by its Content-Type, else server-sent events or a unary answer by its Accept."""
    basin, stream = _names(call)
    encoding = _data_format(call)
    wanted = parse_read(Query(call.request.query), call.dialect)
    kind = session_type(call.request)
    if kind is not None:
        return await open_read_session(call, basin, stream, wanted, kind)
    if accepts_events(call.request):
        return await open_event_stream(call, basin, stream, wanted, encoding)
    place = await call.services.answers.enter(call.request.connection)
    records, tail = await _read_unary(call, basin, stream, wanted, place)
    accepted = answer_format(call.request)
    if accepted is BodyFormat.PROTOBUF:
        body = proto_body.encode_read_batch(records, tail)
    else:
        body = json_body.encode_read_batch(records, tail, encoding)
    place.made(len(body))
    response = answer(accepted, body)
    response.place = place
    return response


async def _read_unary(
    call: Call, basin: str, stream: str, wanted: ReadRequest, place: Place
) -> tuple[list[RecordOut], Position | None]:
    """What there is within the bounds or, when there is nothing, the first that comes in time.

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
    wait_seconds = min(wanted.wait_seconds or 0, WAIT_SECONDS_MAX)
    deadline = clock.monotonic() + wait_seconds
    by_s2 = call.dialect is Dialect.S2
    records: list[RecordOut] = []
    is_live = False
    is_first = True
    while True:
        wait_ms = 0
        if not records and not budget.exhausted and not (by_s2 and is_first):
            wait_ms = max(0, math.ceil((deadline - clock.monotonic()) * 1000))
        if wait_ms:
            place.step_aside()
        result = await cursor.read(wait_ms, refuse_at_tail=by_s2 and is_first and wait_seconds == 0)
        found = await cursor.take(result)
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
    assert not records or records[-1].seq_num < tail.seq_num, "a record at or beyond the tail"
    if by_s2 and not is_live:
        return records, None
    return records, tail


def _data_format(call: Call) -> DataFormat:
    return data_format(call.request, call.dialect)


def _names(call: Call) -> tuple[str, str]:
    assert call.match.stream is not None, "the route has a stream in its path"
    return basin_of(call.request, call.match.basin), call.match.stream
