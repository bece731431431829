"""Records: append, unary read with long poll, check-tail. Streaming reads are in follow.py."""

from __future__ import annotations

import math
from typing import Final

from svc_cluster.base.errors import ServiceError
from svc_cluster.codec.json_body import (
    DataFormat,
    decode_append,
    encode_append_ack,
    encode_read_batch,
    encode_tail,
)
from svc_cluster.codec.records import (
    METERED_BYTES_MAX,
    RECORDS_MAX,
    ReadBudget,
    RecordOut,
    build_batch,
)
from svc_cluster.gateway.handlers.context import Call
from svc_cluster.gateway.handlers.follow import open_event_stream
from svc_cluster.gateway.handlers.reading import (
    READ_CALL_WAIT_MS_MAX,
    ReadRequest,
    bounds_of,
    count_read,
    parse_read,
    take,
)
from svc_cluster.gateway.http.message import Response, json_response
from svc_cluster.gateway.http.negotiation import (
    Query,
    basin_of,
    check_request_token,
    data_format,
    json_body,
    wants_event_stream,
)
from svc_cluster.model.record import Position

WAIT_SECONDS_MAX: Final = 60


async def append(call: Call) -> Response:
    """Answered only when the batch is durable."""
    services = call.services
    basin, stream = _names(call)
    check_request_token(call.request)
    encoding = data_format(call.request)
    wanted = decode_append(await json_body(call.request), encoding)
    metrics = services.metrics
    try:
        batch = build_batch(wanted.records)
        begun = services.clock.monotonic()
        ack = await services.backend.append(
            basin, stream, batch, wanted.match_seq_num, wanted.fencing_token
        )
    except ServiceError as error:
        metrics.append_rejected.labels(error.code.value).inc()
        raise
    metrics.s2_append_ack_latency.observe(services.clock.monotonic() - begun)
    metrics.s2_append_batch_records.observe(batch.record_count)
    metrics.s2_append_batch_bytes.observe(batch.metered_bytes)
    metrics.records_appended.inc(batch.record_count)
    metrics.appended_bytes.inc(batch.metered_bytes)
    return json_response(200, encode_append_ack(ack))


async def check_tail(call: Call) -> Response:
    basin, stream = _names(call)
    tail = await call.services.backend.check_tail(basin, stream)
    return json_response(200, encode_tail(tail))


async def read(call: Call) -> Response:
    """Unary JSON, or server-sent events where the client accepts them first."""
    basin, stream = _names(call)
    encoding = data_format(call.request)
    wanted = parse_read(Query(call.request.query))
    if wants_event_stream(call.request):
        return await open_event_stream(call, basin, stream, wanted, encoding)
    return await _read_unary(call, basin, stream, wanted, encoding)


async def _read_unary(
    call: Call, basin: str, stream: str, wanted: ReadRequest, encoding: DataFormat
) -> Response:
    budget = ReadBudget(
        count=RECORDS_MAX if wanted.count is None else min(wanted.count, RECORDS_MAX),
        metered_bytes=METERED_BYTES_MAX
        if wanted.metered_bytes is None
        else min(wanted.metered_bytes, METERED_BYTES_MAX),
        until_ms=wanted.until_ms,
        from_ms=wanted.from_ms,
    )
    clock = call.services.clock
    wait_seconds = min(wanted.wait_seconds or 0, WAIT_SECONDS_MAX)
    deadline = clock.monotonic() + wait_seconds
    start = wanted.start
    records: list[RecordOut] = []
    while True:
        wait_ms = 0
        if not records and not budget.exhausted:
            wait_ms = max(0, math.ceil((deadline - clock.monotonic()) * 1000))
        result = await call.services.backend.read(
            basin,
            stream,
            start,
            bounds_of(budget),
            refuse_at_tail=False,
            wait_ms=min(wait_ms, READ_CALL_WAIT_MS_MAX),
        )
        found, start = take(result, budget)
        records += found
        if budget.exhausted:
            break
        if not result.may_have_more and (
            records or call.services.draining.is_set() or clock.monotonic() >= deadline
        ):
            break
    count_read(call, records)
    return json_response(200, encode_read_batch(records, _tail(records, result.tail), encoding))


def _tail(records: list[RecordOut], tail: Position) -> Position:
    assert not records or records[-1].seq_num < tail.seq_num, "a record at or beyond the tail"
    return tail


def _names(call: Call) -> tuple[str, str]:
    assert call.match.stream is not None, "the route has a stream in its path"
    return basin_of(call.request, call.match.basin), call.match.stream
