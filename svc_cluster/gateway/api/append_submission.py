"""One append to the cluster, whatever carried it: a unary request, or a frame of a session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Final

from svc_cluster.base.errors import (
    MalformedError,
    PermissionDeniedError,
    ServiceError,
    StreamDeletionPendingError,
    StreamNotFoundError,
)
from svc_cluster.codec.batch_codec import AppendInput
from svc_cluster.codec.json_body import DataFormat, decode_append_steps, decode_plain_append
from svc_cluster.codec.request_key import append_hash, request_key
from svc_cluster.gateway.access.authorization import require_append
from svc_cluster.gateway.api.context import Call
from svc_cluster.gateway.api.turns import DEAR_BYTES
from svc_cluster.gateway.request.plain_input import append_input_steps
from svc_cluster.gateway.request.record_key import RecordKey, record_key
from svc_cluster.model.record import AppendAck, StoredBatch


async def from_json(call: Call, body: bytes, encoding: DataFormat) -> AppendInput:
    """Others may work meanwhile, where there is much to decode. Raises MalformedError (bad_json),
    InvalidError, PermissionDeniedError."""
    try:
        # a small body of the plain shape, as nearly all are, waits for nobody's turn
        wanted = decode_plain_append(body, encoding) if len(body) <= DEAR_BYTES else None
        if wanted is None:
            steps = decode_append_steps(body, encoding, strict=call.head.is_strict)
            wanted = await call.services.turns.run(steps, len(body))
        _require(call, wanted.batch)
    except ServiceError as error:
        note_refusal(call, error)
        raise
    return wanted


async def from_proto(call: Call, body: bytes) -> AppendInput:
    """Does what `from_json` does. Raises MalformedError (bad_proto), InvalidError,
    PermissionDeniedError."""
    try:
        steps = append_input_steps(body)
        wanted = await call.services.turns.run(steps, len(body))
        _require(call, wanted.batch)
    except ServiceError as error:
        note_refusal(call, error)
        raise
    return wanted


def _require(call: Call, batch: StoredBatch) -> None:
    stream = call.match.stream
    assert stream is not None, "the route has a stream in its path"
    try:
        require_append(call.caller.grant, batch, stream)
    except PermissionDeniedError as error:
        try:
            basin = call.head.basin
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


def append_key(call: Call, token: str | None, wanted: AppendInput, *names: str) -> bytes:
    """The key of an append, as `request_token.write_key` has it of other writes. It goes by what
    the body means and not by its bytes."""
    if token is None:
        return b""
    hashed = append_hash(wanted.batch, wanted.match_seq_num, wanted.fencing_token)
    return request_key(call.request.method, call.match.endpoint.paths[0], names, token, hashed)


def commands_told(
    call: Call, basin: str, stream: str, batch: StoredBatch
) -> AbstractContextManager[None]:
    """Around the append of a batch. Raises UnavailableError, and nothing is appended, for one with
    trims or fences while the audit log cannot be written."""
    return _told(call, basin, stream, batch) if batch.commands else _NOTHING_TO_TELL


_NOTHING_TO_TELL: Final = nullcontext()


@contextmanager
def _told(call: Call, basin: str, stream: str, batch: StoredBatch) -> Iterator[None]:
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
    append = partial(
        services.backend.append,
        basin,
        stream,
        match_seq_num=wanted.match_seq_num,
        fencing_token=wanted.fencing_token,
        request_key=request_key,
        watch=call.stages,
    )
    call.caller.check()  # the body may have taken a while
    batch = with_units(call, basin, stream, wanted.batch)
    begun = services.clock.monotonic()
    try:
        key = record_key(call.request)
        if key is None:
            ack = await append(batch)
        else:
            ack = await _seal_and_append(call, basin, stream, batch, key, append, request_key)
    except ServiceError as error:
        note_refusal(call, error)
        units_unused(call, basin, stream, batch, error)
        raise
    if not ack.is_repeated:
        note_ack(call, batch, services.clock.monotonic() - begun)
    elif batch.op_units:
        services.usage.units_unused(call.request.connection, basin, stream)
    return ack


async def _seal_and_append(
    call: Call,
    basin: str,
    stream: str,
    batch: StoredBatch,
    key: RecordKey,
    append: Callable[[StoredBatch], Awaitable[AppendAck]],
    request_key: bytes,
) -> AppendAck:
    try:
        return await call.services.sealer.append(basin, stream, batch, key, append)
    except (StreamNotFoundError, StreamDeletionPendingError):
        # the leader was perhaps not asked, and may know the request even so
        if not request_key:
            raise
        return await append(batch)


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
