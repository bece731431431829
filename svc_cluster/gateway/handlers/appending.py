"""One append to the cluster, whatever carried it: a unary request, or a frame of a session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from svc_cluster.base.errors import (
    MalformedError,
    PermissionDeniedError,
    ServiceError,
    StreamDeletionPendingError,
    StreamNotFoundError,
)
from svc_cluster.codec import proto_body
from svc_cluster.codec.json_body import DataFormat, decode_append_steps
from svc_cluster.codec.records import AppendInput, build_batch_steps
from svc_cluster.gateway.authorization import require_append
from svc_cluster.gateway.handlers.context import Call
from svc_cluster.gateway.handlers.record_key import record_key
from svc_cluster.gateway.http.negotiation import basin_of
from svc_cluster.gateway.turns import in_turns
from svc_cluster.model.record import AppendAck, StoredBatch


async def from_json(call: Call, body: bytes, encoding: DataFormat) -> AppendInput:
    """Others may work meanwhile, where there is much to decode. Raises MalformedError (bad_json),
    InvalidError, PermissionDeniedError."""
    try:
        wanted = await in_turns(decode_append_steps(body, encoding))
        batch = await in_turns(build_batch_steps(wanted.records))
        _require(call, batch)
    except ServiceError as error:
        note_refusal(call, error)
        raise
    return AppendInput(batch, wanted.match_seq_num, wanted.fencing_token)


async def from_proto(call: Call, body: bytes) -> AppendInput:
    """As `from_json`. Raises MalformedError (bad_proto), InvalidError, PermissionDeniedError."""
    try:
        wanted = await in_turns(proto_body.decode_append_steps(body))
        _require(call, wanted.batch)
    except ServiceError as error:
        note_refusal(call, error)
        raise
    return wanted


def _require(call: Call, batch: StoredBatch) -> None:
    try:
        require_append(call.caller.grant, batch)
    except PermissionDeniedError as error:
        stream = call.match.stream
        assert stream is not None, "the route has a stream in its path"
        try:
            basin = basin_of(call.request, call.match.basin)
        except MalformedError:
            basin = None
        tell_commands(call, basin, stream, batch, error)
        raise


def tell_commands(
    call: Call, basin: str | None, stream: str, batch: StoredBatch, refusal: BaseException | None
) -> None:
    """Trims and fences are events of the audit log; None: they are done."""
    if batch.commands:
        call.services.audit.commanded(call.request, call.caller, basin, stream, batch, refusal)


@contextmanager
def commands_told(call: Call, basin: str, stream: str, batch: StoredBatch) -> Iterator[None]:
    """Around the append of a batch. Raises UnavailableError, and nothing is appended, for one with
    trims or fences while the audit log cannot be written."""
    if not batch.commands:
        yield
        return
    call.services.audit.before_commands()
    try:
        yield
    except BaseException as refusal:
        tell_commands(call, basin, stream, batch, refusal)
        raise
    tell_commands(call, basin, stream, batch, None)


async def submit(
    call: Call, basin: str, stream: str, wanted: AppendInput, request_key: bytes = b""
) -> AppendAck:
    """Returns only when the batch is durable. What may have happened is not repeated, unless the
    cluster knows the request by its key."""
    services = call.services
    backend = services.backend.keyed(request_key) if request_key else services.backend
    batch = with_units(call, basin, stream, wanted.batch)
    begun = services.clock.monotonic()
    call.caller.check()  # the body may have taken a while

    async def send(batch: StoredBatch) -> AppendAck:
        return await backend.append(
            basin, stream, batch, wanted.match_seq_num, wanted.fencing_token
        )

    try:
        try:
            ack = await services.sealer.append(basin, stream, batch, record_key(call.request), send)
        except (StreamNotFoundError, StreamDeletionPendingError):
            # the leader was perhaps not asked, and may know the request even so
            if not request_key:
                raise
            ack = await send(batch)
    except ServiceError as error:
        note_refusal(call, error)
        units_unused(call, basin, stream, batch, error)
        raise
    if not ack.is_repeated:
        note_ack(call, batch, services.clock.monotonic() - begun)
    return ack


def with_units(call: Call, basin: str, stream: str, batch: StoredBatch) -> StoredBatch:
    """The batch with the operation that it is to be counted as, if it is the first of a minute."""
    units = call.services.usage.append_units(call.request.connection, basin, stream)
    return replace(batch, op_units=units) if units else batch


def units_unused(
    call: Call, basin: str, stream: str, batch: StoredBatch, error: ServiceError
) -> None:
    """The batch failed. If that is certain, the next one is the first of the minute."""
    if batch.op_units and not error.may_have_taken_effect:
        call.services.usage.units_unused(call.request.connection, basin, stream)


def note_ack(call: Call, batch: StoredBatch, seconds: float) -> None:
    """Count a batch that was acknowledged after so long."""
    metrics = call.services.metrics
    metrics.s2_append_ack_latency.observe(seconds)
    metrics.s2_append_batch_records.observe(batch.record_count)
    metrics.s2_append_batch_bytes.observe(batch.metered_bytes)
    metrics.records_appended.inc(batch.record_count)
    metrics.appended_bytes.inc(batch.metered_bytes)


def note_refusal(call: Call, error: ServiceError) -> None:
    call.services.metrics.append_rejected.labels(error.code.value).inc()
