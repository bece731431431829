"""What the descriptions of several endpoints share: refusals, parameters and media types."""

from __future__ import annotations

from typing import Final

from svc_cluster.base.errors import ErrorCode
from svc_cluster.gateway.openapi.schemas import (
    REQUEST_TOKEN,
    TEXT,
    U64,
    ref,
    words,
)
from svc_cluster.gateway.request.endpoint import Parameter, Schema
from svc_cluster.gateway.request.negotiation import FORMATS as FORMAT_WORDS
from svc_cluster.gateway.request.negotiation import (
    PROTOBUF_TYPES,
    SESSION_TYPES,
    STREAM_CONFIG_HEADERS,
)
from svc_cluster.gateway.request.record_key import KEY_HEADERS, KEY_TEXT_BYTES_MAX
from svc_cluster.gateway.request.request_head import STRICT_HEADERS

TEXT_PLAIN: Final = "text/plain"
TEXT_HTML: Final = "text/html"
SCRIPT: Final = "text/javascript"
STYLE: Final = "text/css"

ANYWHERE: Final = (
    ErrorCode.AUTHN,
    ErrorCode.BAD_HEADER,
    ErrorCode.BAD_QUERY,
    ErrorCode.OTHER,
    ErrorCode.PERMISSION_DENIED,
    ErrorCode.RATE_LIMITED,
    ErrorCode.REQUEST_TIMEOUT,
    ErrorCode.HOT_SERVER,
    ErrorCode.SERVER_DRAINING,
    ErrorCode.UNAVAILABLE,
)
"""What any operation behind `/v1` may be refused with."""

BODY_ERRORS: Final = (
    ErrorCode.BAD_JSON,
    ErrorCode.INVALID,
    ErrorCode.PAYLOAD_TOO_LARGE,
    ErrorCode.UNSUPPORTED_MEDIA_TYPE,
)
BASIN_ERRORS: Final = (ErrorCode.BASIN_NOT_FOUND, ErrorCode.BASIN_DELETION_PENDING)
STREAM_ERRORS: Final = (
    *BASIN_ERRORS,
    ErrorCode.STREAM_NOT_FOUND,
    ErrorCode.STREAM_DELETION_PENDING,
)


def query(name: str, schema: Schema, text: str, *, is_required: bool = False) -> Parameter:
    return Parameter(name=name, where="query", schema=schema, text=text, is_required=is_required)


def header(name: str, schema: Schema, text: str) -> Parameter:
    return Parameter(name=name, where="header", schema=schema, text=text)


def page(prefix: Schema) -> tuple[Parameter, ...]:
    return (
        query("prefix", prefix, "Names that begin so."),
        query("start_after", prefix, "Names behind this one, in byte order."),
        query("limit", {**U64, "default": 1000}, "0 and all above 1000 mean 1000."),
    )


REQUEST_TOKEN_HEADER: Final = header(
    "svc-request-token",
    REQUEST_TOKEN,
    "The same request with the same token gets the first answer again, for 24 hours, and is not "
    "carried out again.",
)
CREATE_TOKEN_HEADER: Final = header(
    "s2-request-token",
    {"type": "string", "maxLength": REQUEST_TOKEN["maxLength"]},
    "A repetition with the same token and configuration finds what the first one made.",
)
_U32: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": 2**32 - 1}


def of_usage(*sets: str) -> tuple[Parameter, ...]:
    return (
        query("set", words(*sets), "What is wanted.", is_required=True),
        query("start", _U32, "Unix seconds.", is_required=True),
        query(
            "end",
            _U32,
            "Unix seconds, at most 90 days behind start, not ahead of now.",
            is_required=True,
        ),
        query(
            "interval",
            words("minute", "hour", "day"),
            "Of buckets and readings; that of storage cannot be chosen.",
        ),
    )


STRICT: Final = tuple(
    header(
        name,
        words("true", "false"),
        "`true`: members of bodies and parameters that are not known are refused.",
    )
    for name in STRICT_HEADERS
)
USAGE_ERRORS: Final = (
    ErrorCode.BAD_QUERY,
    ErrorCode.BAD_PATH,
    ErrorCode.INVALID,
)
STREAM_CONFIGS: Final = tuple(
    header(
        name,
        TEXT,
        "JSON of a stream configuration, over the basin's default, for a stream that this makes.",
    )
    for name in STREAM_CONFIG_HEADERS
)
FORMAT: Final = query(
    "format",
    words(*FORMAT_WORDS),
    "How records stand in JSON, for those who cannot send a header.",
)
TICKET: Final = query(
    "ticket", TEXT, "A read ticket in place of an access token, for those who can send no header."
)
FORMATS: Final = tuple(
    header(name, words(*FORMAT_WORDS), text)
    for name, text in (
        ("svc-format", "How records stand in JSON: base64 unless it says otherwise."),
        ("s2-format", "The same for the S2 dialect: text unless it says otherwise."),
    )
)
KEYS: Final = tuple(
    header(
        name,
        {"type": "string", "minLength": 1, "maxLength": KEY_TEXT_BYTES_MAX},
        "Base64 of the 32 bytes that open an encrypted stream's records; kept nowhere.",
    )
    for name in KEY_HEADERS
)


def frames_of(message: str) -> dict[str, Schema]:
    """The bodies of a session whose frames have this message of protobuf."""
    return dict.fromkeys(SESSION_TYPES, ref(f"{message}Frames"))


def input_of(message: str) -> dict[str, Schema]:
    """A body that is one message of protobuf, under the names that are taken."""
    return dict.fromkeys(PROTOBUF_TYPES, ref(f"{message}Message"))


def output_of(message: str) -> dict[str, Schema]:
    """An answer that is one message of protobuf, under the name that is given."""
    return {PROTOBUF_TYPES[0]: ref(f"{message}Message")}
