"""Trace contexts to protobuf and back."""

from __future__ import annotations

from svc_cluster._pb.cluster.v1 import trace_pb2 as pb
from svc_cluster.base.tracing import (
    SPAN_ID_BYTES,
    STATE_BYTES_MAX,
    TRACE_ID_BYTES,
    TraceContext,
)


class TraceFormatError(Exception):
    """The message is no trace context."""


def put_trace(into: pb.TraceContext, trace: TraceContext) -> None:
    into.trace_id = trace.trace_id
    into.span_id = trace.span_id
    into.state = trace.state


def get_trace(message: pb.TraceContext) -> TraceContext:
    """Raises TraceFormatError for ids of another length. It does so for a state that is too long,
    or of other characters than printable ones."""
    if len(message.trace_id) != TRACE_ID_BYTES or len(message.span_id) != SPAN_ID_BYTES:
        raise TraceFormatError("a trace's ids have another length")
    state = message.state
    if len(state) > STATE_BYTES_MAX or not (state.isascii() and state.isprintable()):
        raise TraceFormatError("a trace's state that is none")
    return TraceContext(message.trace_id, message.span_id, state)
