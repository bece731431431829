"""Streams that an append or a read makes by itself, where the basin's configuration says so."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from svc_cluster.base.errors import (
    ErrorCode,
    MalformedError,
    StreamNotFoundError,
    TransactionConflictError,
)
from svc_cluster.codec.config_json import StreamConfigJson, stream_config_from_json
from svc_cluster.codec.json_body import decode_object
from svc_cluster.gateway.access.audit import Subject
from svc_cluster.gateway.api.context import Call
from svc_cluster.gateway.request.dialect import Dialect
from svc_cluster.gateway.request.negotiation import stream_config_header
from svc_cluster.model.names import is_stream_name
from svc_cluster.model.stream_config import (
    S2_STORAGE_CLASS_DEFAULT,
    STORAGE_CLASS_DEFAULT,
    NewStream,
)

T = TypeVar("T")


def storage_class_default(dialect: Dialect) -> str:
    """Where neither the request nor the basin names one."""
    return S2_STORAGE_CLASS_DEFAULT if dialect is Dialect.S2 else STORAGE_CLASS_DEFAULT


def new_stream(call: Call) -> NewStream:
    """What a stream is to be that the request makes. Raises MalformedError (bad_header), and
    InvalidError for a configuration against a rule of meaning."""
    default = storage_class_default(call.dialect)
    name, text = stream_config_header(call.request)
    if text is None:
        return NewStream(storage_class_default=default)
    try:
        wire = decode_object(
            text.encode("latin-1", "replace"), StreamConfigJson, strict=call.head.is_strict
        )
        return NewStream(stream_config_from_json(wire), default)
    except MalformedError as cause:
        raise MalformedError(ErrorCode.BAD_HEADER, f"{name}: {cause.message}") from cause


async def on_stream(
    call: Call,
    basin: str,
    stream: str,
    new: NewStream,
    ask: Callable[[], Awaitable[T]],
    *,
    on_read: bool,
) -> T:
    """What `ask` answers; where it finds no stream, that is made and it asks once more.

    Raises what it raises, StreamNotFoundError where the basin wants no streams made, and
    TransactionConflictError when the new stream was deleted and purged before it could be used.
    """
    try:
        return await ask()
    except StreamNotFoundError:
        if call.caller.reads_alone:
            raise
        if not is_stream_name(stream):
            raise  # it may be read where it exists, but is not made any more
        call.services.audit.before_auto_create()
        await call.services.backend.auto_create_stream(basin, stream, new, on_read=on_read)
        call.services.audit.auto_created(call.request, call.caller, Subject(basin, stream))
    try:
        return await ask()
    except StreamNotFoundError as gone:
        raise TransactionConflictError("the stream was deleted meanwhile; try again") from gone
