"""The end of a session that failed: the answer that a plain request would have had, in a frame."""

from __future__ import annotations

from svc_cluster.base.errors import ServiceError
from svc_cluster.codec.session_frame import encode_terminal
from svc_cluster.gateway.request.dialect import Dialect
from svc_cluster.gateway.request.error_answers import error_response


def terminal_frame(error: ServiceError, dialect: Dialect, *, is_write: bool) -> bytes:
    refusal = error_response(error, dialect, is_write=is_write)
    assert isinstance(refusal.body, bytes), "errors are not streamed"
    return encode_terminal(refusal.status, refusal.body)
