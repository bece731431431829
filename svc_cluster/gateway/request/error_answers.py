"""Errors as answers: nothing else in the tree names a 4xx or 5xx for a refusal.

One table gives each code its status, which the dialect may change; the two refusals with typed
bodies (412 and 416) and the statement about side effects are made here too.
"""

from __future__ import annotations

import re
from typing import Any, Final

from svc_cluster.base.errors import (
    ErrorCode,
    FencingTokenMismatchError,
    PastTailError,
    RateLimitedError,
    SeqNumMismatchError,
    ServiceError,
    TokenMissingError,
)
from svc_cluster.codec.json_body import encode_object
from svc_cluster.gateway.request.dialect import Dialect
from svc_cluster.http.message import Response, json_response

RETRY_AFTER_MS: Final = 500
"""Told with every definite 503 and 502: about as long as an election or a full queue lasts."""

STATUS: Final[dict[ErrorCode, int]] = {
    ErrorCode.ACCESS_TOKEN_NOT_FOUND: 404,
    ErrorCode.AUTHN: 401,
    ErrorCode.BAD_FRAME: 400,
    ErrorCode.BAD_HEADER: 400,
    ErrorCode.BAD_JSON: 400,
    ErrorCode.BAD_PATH: 400,
    ErrorCode.BAD_PROTO: 400,
    ErrorCode.BAD_QUERY: 400,
    ErrorCode.BASIN_DELETION_PENDING: 409,
    ErrorCode.BASIN_NOT_FOUND: 404,
    ErrorCode.DECRYPTION_FAILED: 400,
    ErrorCode.HOT_SERVER: 502,
    ErrorCode.INVALID: 422,
    ErrorCode.METHOD_NOT_ALLOWED: 405,
    ErrorCode.NOT_FOUND: 404,
    ErrorCode.NOT_IMPLEMENTED: 501,
    ErrorCode.OTHER: 500,
    ErrorCode.PAYLOAD_TOO_LARGE: 413,
    ErrorCode.TARGET_TOO_LONG: 414,
    ErrorCode.HEADERS_TOO_LARGE: 431,
    ErrorCode.PERMISSION_DENIED: 403,
    ErrorCode.QUOTA_EXHAUSTED: 403,
    ErrorCode.RATE_LIMITED: 429,
    ErrorCode.REQUEST_TIMEOUT: 408,
    ErrorCode.RESOURCE_ALREADY_EXISTS: 409,
    ErrorCode.SERVER_DRAINING: 503,
    ErrorCode.STORAGE: 500,
    ErrorCode.STREAM_DELETION_PENDING: 409,
    ErrorCode.STREAM_NOT_FOUND: 404,
    ErrorCode.TRANSACTION_CONFLICT: 409,
    ErrorCode.UNAVAILABLE: 503,
    ErrorCode.UNSUPPORTED_MEDIA_TYPE: 415,
    ErrorCode.APPEND_CONDITION_FAILED: 412,
    ErrorCode.RANGE_NOT_SATISFIABLE: 416,
}
"""Canonical, as the S2 dialect has them; `status_of` gives those of each dialect."""

assert STATUS.keys() == set(ErrorCode), "every ErrorCode has exactly one status"

SEED_WORDS: Final[dict[ErrorCode, str]] = {
    ErrorCode.AUTHN: "unauthorized",
    ErrorCode.PERMISSION_DENIED: "forbidden",
    ErrorCode.QUOTA_EXHAUSTED: "forbidden",
    ErrorCode.OTHER: "internal",
    **dict.fromkeys(
        (
            ErrorCode.BAD_FRAME,
            ErrorCode.BAD_HEADER,
            ErrorCode.BAD_JSON,
            ErrorCode.BAD_PATH,
            ErrorCode.BAD_PROTO,
            ErrorCode.BAD_QUERY,
            ErrorCode.INVALID,
        ),
        "validation_error",
    ),
}

_S2_HEADERS: Final = {
    "svc-encryption-key": "s2-encryption-key",
    "svc-format": "s2-format",
    "svc-strict": "s2-strict",
}
"""Headers that either dialect has a name for. Messages are written with the seed's."""

WORTH_ANOTHER_TRY: Final = (502, 503)
"""`hot_server`, and whatever is not there at the moment."""

_UNAUTHENTICATED: Final = 401
_REALM: Final = 'Bearer realm="svc-cluster"'

SIDE_EFFECTS_HEADER: Final = "svc-side-effects"


class MethodNotAllowedError(ServiceError):
    """The path exists, the method on it does not."""

    code = ErrorCode.METHOD_NOT_ALLOWED

    def __init__(self, allowed: str) -> None:
        super().__init__(f"allowed here: {allowed}")
        self.allowed = allowed


class RouteNotFoundError(ServiceError):
    code = ErrorCode.NOT_FOUND


class PayloadTooLargeError(ServiceError):
    code = ErrorCode.PAYLOAD_TOO_LARGE


class UnsupportedMediaTypeError(ServiceError):
    code = ErrorCode.UNSUPPORTED_MEDIA_TYPE


def status_of(code: ErrorCode, dialect: Dialect) -> int:
    """The seed has no 422: what is against a rule of meaning is 400 there."""
    if code is ErrorCode.INVALID and dialect is not Dialect.S2:
        return 400
    return STATUS[code]


def error_body(error: ServiceError, dialect: Dialect, *, is_write: bool = False) -> bytes:
    """The JSON object for an error: of a response, or of an event. Reads have no effects."""
    if isinstance(error, SeqNumMismatchError):
        return _condition_body(error, dialect, "seq_num_mismatch", error.tail_seq_num)
    if isinstance(error, FencingTokenMismatchError):
        return _condition_body(error, dialect, "fencing_token_mismatch", error.current_token)
    body = _standard_body(error, dialect, is_write=is_write)
    if isinstance(error, PastTailError):
        tail = {"seq_num": error.tail_seq_num, "timestamp": error.tail_timestamp_ms}
        body = {"tail": tail, **body}
    return encode_object(body)


def error_response(error: ServiceError, dialect: Dialect, *, is_write: bool) -> Response:
    """The whole answer. A write's says whether the write may have happened."""
    response = json_response(
        status_of(error.code, dialect), error_body(error, dialect, is_write=is_write)
    )
    if is_write:
        effects = "possible" if error.may_have_taken_effect else "none"
        response.headers.append((SIDE_EFFECTS_HEADER, effects))
    wait_ms = _wait_ms(error, response.status)
    if wait_ms is not None:
        response.headers += retry_after(wait_ms)
    if response.status == _UNAUTHENTICATED:
        response.headers.append(("www-authenticate", _challenge(error)))
    if isinstance(error, MethodNotAllowedError):
        response.headers.append(("allow", error.allowed))
    return response


def retry_after(wait_ms: int) -> list[tuple[str, str]]:
    """Return the headers that say after how long another try may be worth it."""
    return [("retry-after-ms", str(wait_ms)), ("retry-after", str(-(-wait_ms // 1000)))]


def refused(error: ServiceError) -> Response:
    """The answer to what never became a request, so that its dialect is not known. Whether it
    would have been a write is not known either: like a write it says that nothing was done."""
    return error_response(error, Dialect.UNMARKED, is_write=True)


def _challenge(error: ServiceError) -> str:
    """What a 401 asks for, as RFC 6750 has it. The words may quote what was sent; a description has
    no quotes, backslashes and letters beyond ASCII."""
    if isinstance(error, TokenMissingError):
        return _REALM
    description = _NOT_IN_DESCRIPTION.sub("?", error.message.replace('"', "'"))
    return f'{_REALM}, error="invalid_token", error_description="{description}"'


_NOT_IN_DESCRIPTION: Final = re.compile(r"[^\x20\x21\x23-\x5b\x5d-\x7e]")


def _wait_ms(error: ServiceError, status: int) -> int | None:
    """After how many milliseconds a request that had no effect may be worth another try."""
    if isinstance(error, RateLimitedError):
        return error.retry_after_ms
    if status in WORTH_ANOTHER_TRY and not error.may_have_taken_effect:
        return RETRY_AFTER_MS
    return None


def _in_words_of(dialect: Dialect, message: str) -> str:
    """The message with the names that headers have in the caller's dialect."""
    if dialect is Dialect.S2:
        for own, theirs in _S2_HEADERS.items():
            message = message.replace(own, theirs)
    return message


def _standard_body(error: ServiceError, dialect: Dialect, *, is_write: bool) -> dict[str, Any]:
    code = error.code
    return {
        "error": SEED_WORDS.get(code, code.value),
        "code": code.value,
        "message": _in_words_of(dialect, error.message),
        "may_have_taken_effect": is_write and error.may_have_taken_effect,
    }


def _condition_body(error: ServiceError, dialect: Dialect, key: str, value: int | str) -> bytes:
    """S2's clients decode this body as a tagged union and fail on a second key. So it has one
    unless the request is positively of the other dialect."""
    if dialect is not Dialect.SEED:
        return encode_object({key: value})
    return encode_object({**_standard_body(error, dialect, is_write=True), key: value})
