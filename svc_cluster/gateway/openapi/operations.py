"""What each operation takes and gives, beside what the router's table already says of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from svc_cluster.base.errors import ErrorCode
from svc_cluster.codec.records import U64_MAX
from svc_cluster.gateway.handlers.record_key import KEY_HEADERS, KEY_TEXT_BYTES_MAX
from svc_cluster.gateway.http.message import JSON
from svc_cluster.gateway.http.negotiation import EVENT_STREAM, PROTOBUF_TYPES, SESSION_TYPES
from svc_cluster.gateway.http.router import Operation
from svc_cluster.gateway.openapi.schemas import (
    BASIN_PREFIX,
    BINARY,
    BOOLEAN,
    LOCATION_NAME,
    REQUEST_TOKEN,
    STREAM_PREFIX,
    TEXT,
    TOKEN_ID_PREFIX,
    U64,
    Schema,
    nullable,
    ref,
    words,
)

TEXT_PLAIN: Final = "text/plain"
_C = ErrorCode

ANYWHERE: Final = (
    _C.AUTHN,
    _C.BAD_HEADER,
    _C.OTHER,
    _C.PERMISSION_DENIED,
    _C.RATE_LIMITED,
    _C.REQUEST_TIMEOUT,
    _C.HOT_SERVER,
    _C.SERVER_DRAINING,
    _C.UNAVAILABLE,
)
"""What any operation behind `/v1` may be refused with."""

_BODY: Final = (
    _C.BAD_JSON,
    _C.INVALID,
    _C.PAYLOAD_TOO_LARGE,
    _C.UNSUPPORTED_MEDIA_TYPE,
)
_BASIN: Final = (_C.BASIN_NOT_FOUND, _C.BASIN_DELETION_PENDING)
_STREAM: Final = (*_BASIN, _C.STREAM_NOT_FOUND, _C.STREAM_DELETION_PENDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """`where` is `query` or `header`; none is required."""

    name: str
    where: str
    schema: Schema
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationDoc:
    summary: str
    status: int
    answer: dict[str, Schema]
    """Schemas of the success by media type; empty: no body."""
    body: dict[str, Schema] | None = None
    """Schemas of the request by media type."""
    parameters: tuple[Parameter, ...] = ()
    errors: tuple[ErrorCode, ...] = ()
    answer_headers: tuple[str, ...] = ()
    further_status: int | None = None
    """Another success, with the same answer."""
    body_is_optional: bool = False
    plain_statuses: tuple[int, ...] = ()
    """Further statuses with a plain text body."""
    is_public: bool = False
    """Not behind `/v1`: no selectors, no errors of the cluster."""


def _query(name: str, schema: Schema, text: str) -> Parameter:
    return Parameter(name=name, where="query", schema=schema, text=text)


def _header(name: str, schema: Schema, text: str) -> Parameter:
    return Parameter(name=name, where="header", schema=schema, text=text)


def _page(prefix: Schema) -> tuple[Parameter, ...]:
    return (
        _query("prefix", prefix, "Names that begin so."),
        _query("start_after", prefix, "Names behind this one, in byte order."),
        _query("limit", {**U64, "default": 1000}, "0 and all above 1000 mean 1000."),
    )


_TOKEN: Final = _header(
    "svc-request-token",
    REQUEST_TOKEN,
    "The same request with the same token gets the first answer again, for 24 hours, and is not "
    "carried out again.",
)
_CREATE_TOKEN: Final = _header(
    "s2-request-token",
    {"type": "string", "maxLength": REQUEST_TOKEN["maxLength"]},
    "A repetition with the same token and configuration finds what the first one made.",
)
_U32: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": 2**32 - 1}


def _metrics(*sets: str) -> tuple[Parameter, ...]:
    return (
        _query("set", words(*sets), "Required: what is wanted."),
        _query("start", _U32, "Required: Unix seconds."),
        _query(
            "end", _U32, "Required: Unix seconds, at most 30 days behind start, not ahead of now."
        ),
        _query(
            "interval",
            words("minute", "hour", "day"),
            "Of buckets and readings; that of storage cannot be chosen.",
        ),
    )


_METRICS_ERRORS: Final = (_C.BAD_QUERY, _C.BAD_PATH, _C.INVALID, _C.NOT_IMPLEMENTED)
_STREAM_CONFIG: Final = _header(
    "s2-stream-config",
    TEXT,
    "JSON of a stream configuration, over the basin's default, for a stream that this makes.",
)
_FORMAT: Final = tuple(
    _header(name, words("base64", "utf8", "raw", "json", "json-binsafe"), text)
    for name, text in (
        ("svc-format", "How records stand in JSON: base64 unless it says otherwise."),
        ("s2-format", "The same for the S2 dialect: text unless it says otherwise."),
    )
)
_KEY: Final = tuple(
    _header(
        name,
        {"type": "string", "minLength": 1, "maxLength": KEY_TEXT_BYTES_MAX},
        "Base64 of the 32 bytes that open an encrypted stream's records; kept nowhere.",
    )
    for name in KEY_HEADERS
)
_SESSIONS: Final[dict[str, Schema]] = dict.fromkeys(SESSION_TYPES, BINARY)
_PROTOBUF: Final[dict[str, Schema]] = dict.fromkeys(PROTOBUF_TYPES, BINARY)
_ANSWER_PROTOBUF: Final[dict[str, Schema]] = {PROTOBUF_TYPES[0]: BINARY}

OPERATIONS: Final[dict[Operation, OperationDoc]] = {
    Operation.LIST_BASINS: OperationDoc(
        summary="List basins in the order of their names",
        status=200,
        answer={JSON: ref("BasinList")},
        parameters=_page(BASIN_PREFIX),
        errors=(_C.BAD_QUERY, _C.INVALID),
    ),
    Operation.CREATE_BASIN: OperationDoc(
        summary="Create a basin",
        status=201,
        answer={JSON: ref("BasinInfo")},
        body={JSON: ref("CreateBasin")},
        parameters=(_TOKEN, _CREATE_TOKEN),
        errors=(
            *_BODY,
            _C.RESOURCE_ALREADY_EXISTS,
            _C.BASIN_DELETION_PENDING,
            _C.TRANSACTION_CONFLICT,
        ),
        answer_headers=("s2-provision-result",),
    ),
    Operation.ENSURE_BASIN: OperationDoc(
        summary="Create a basin, or replace its configuration as a whole",
        status=200,
        further_status=201,
        answer={JSON: ref("BasinInfo")},
        body={JSON: nullable(ref("EnsureBasin"))},
        body_is_optional=True,
        parameters=(_TOKEN,),
        errors=(
            *_BODY,
            _C.BAD_PATH,
            _C.BASIN_DELETION_PENDING,
            _C.TRANSACTION_CONFLICT,
        ),
        answer_headers=("s2-provision-result",),
    ),
    Operation.RECONFIGURE_BASIN: OperationDoc(
        summary="Change parts of a basin's configuration",
        status=200,
        answer={JSON: ref("BasinConfig")},
        body={JSON: ref("BasinReconfiguration")},
        parameters=(_TOKEN,),
        errors=(*_BODY, _C.BAD_PATH, *_BASIN, _C.TRANSACTION_CONFLICT),
    ),
    Operation.GET_BASIN_CONFIG: OperationDoc(
        summary="The configuration of a basin",
        status=200,
        answer={JSON: ref("BasinConfig")},
        errors=(_C.BAD_PATH, *_BASIN),
    ),
    Operation.DELETE_BASIN: OperationDoc(
        summary="Delete a basin with all its streams",
        status=202,
        answer={},
        parameters=(_TOKEN,),
        errors=(_C.BAD_PATH, *_BASIN),
    ),
    Operation.LIST_STREAMS: OperationDoc(
        summary="List a basin's streams in the order of their names",
        status=200,
        answer={JSON: ref("StreamList")},
        parameters=_page(STREAM_PREFIX),
        errors=(_C.BAD_QUERY, _C.INVALID, *_BASIN),
    ),
    Operation.CREATE_STREAM: OperationDoc(
        summary="Create a stream",
        status=201,
        answer={JSON: ref("StreamInfo")},
        body={JSON: ref("CreateStream")},
        parameters=(_TOKEN, _CREATE_TOKEN),
        errors=(*_BODY, *_BASIN, _C.STREAM_DELETION_PENDING, _C.RESOURCE_ALREADY_EXISTS),
        answer_headers=("s2-provision-result",),
    ),
    Operation.ENSURE_STREAM: OperationDoc(
        summary="Create a stream, or replace its configuration as a whole",
        status=200,
        further_status=201,
        answer={JSON: ref("StreamInfo")},
        body={JSON: nullable(ref("EnsureStream"))},
        body_is_optional=True,
        parameters=(_TOKEN,),
        errors=(*_BODY, _C.BAD_PATH, *_BASIN, _C.STREAM_DELETION_PENDING),
        answer_headers=("s2-provision-result",),
    ),
    Operation.RECONFIGURE_STREAM: OperationDoc(
        summary="Change parts of a stream's configuration",
        status=200,
        answer={JSON: ref("StreamConfig")},
        body={JSON: ref("PartialStreamConfig")},
        parameters=(_TOKEN,),
        errors=(*_BODY, _C.BAD_PATH, *_STREAM),
    ),
    Operation.GET_STREAM_CONFIG: OperationDoc(
        summary="The configuration of a stream",
        status=200,
        answer={JSON: ref("StreamConfig")},
        errors=(_C.BAD_PATH, *_STREAM),
    ),
    Operation.DELETE_STREAM: OperationDoc(
        summary="Delete a stream with all its records",
        status=202,
        answer={},
        parameters=(_TOKEN,),
        errors=(_C.BAD_PATH, *_STREAM),
    ),
    Operation.LIST_TOKENS: OperationDoc(
        summary="List access tokens in the order of their ids",
        status=200,
        answer={JSON: ref("AccessTokenList")},
        parameters=_page(TOKEN_ID_PREFIX),
        errors=(_C.BAD_QUERY, _C.INVALID),
    ),
    Operation.ISSUE_TOKEN: OperationDoc(
        summary="Issue an access token; its secret is shown this once",
        status=201,
        answer={JSON: ref("IssuedAccessToken")},
        body={JSON: ref("IssueAccessToken")},
        parameters=(_TOKEN,),
        errors=(
            *_BODY,
            _C.RESOURCE_ALREADY_EXISTS,
            _C.QUOTA_EXHAUSTED,
            _C.TRANSACTION_CONFLICT,
        ),
    ),
    Operation.REVOKE_TOKEN: OperationDoc(
        summary="Revoke an access token and all that come from it",
        status=204,
        answer={},
        parameters=(_TOKEN,),
        errors=(_C.BAD_PATH, _C.ACCESS_TOKEN_NOT_FOUND, _C.TRANSACTION_CONFLICT),
    ),
    Operation.LIST_LOCATIONS: OperationDoc(
        summary="List the locations that basins can have",
        status=200,
        answer={JSON: {"type": "array", "items": ref("Location"), "minItems": 1}},
    ),
    Operation.GET_DEFAULT_LOCATION: OperationDoc(
        summary="The location of new basins that name none",
        status=200,
        answer={JSON: ref("Location")},
    ),
    Operation.SET_DEFAULT_LOCATION: OperationDoc(
        summary="Choose the location of new basins that name none",
        status=200,
        answer={JSON: ref("Location")},
        body={JSON: LOCATION_NAME},
        parameters=(_TOKEN,),
        errors=(*_BODY, _C.TRANSACTION_CONFLICT),
    ),
    Operation.ACCOUNT_METRICS: OperationDoc(
        summary="What the account was used for",
        status=200,
        answer={JSON: ref("Metrics")},
        parameters=_metrics("active-basins", "account-ops"),
        errors=_METRICS_ERRORS,
    ),
    Operation.BASIN_METRICS: OperationDoc(
        summary="What a basin was used for; what does not exist was not used",
        status=200,
        answer={JSON: ref("Metrics")},
        parameters=_metrics(
            "storage",
            "append-ops",
            "read-ops",
            "read-throughput",
            "append-throughput",
            "basin-ops",
        ),
        errors=_METRICS_ERRORS,
    ),
    Operation.STREAM_METRICS: OperationDoc(
        summary="What a stream stores; what does not exist stores nothing",
        status=200,
        answer={JSON: ref("Metrics")},
        parameters=_metrics("storage"),
        errors=_METRICS_ERRORS,
    ),
    Operation.APPEND: OperationDoc(
        summary="Append a batch of records, all or none, or a session of batches",
        status=200,
        answer={JSON: ref("AppendAck"), **_ANSWER_PROTOBUF, **_SESSIONS},
        body={JSON: ref("AppendInput"), **_PROTOBUF, **_SESSIONS},
        parameters=(_TOKEN, _STREAM_CONFIG, *_KEY, *_FORMAT),
        errors=(
            *_BODY,
            _C.BAD_PROTO,
            _C.BAD_PATH,
            *_STREAM,
            _C.TRANSACTION_CONFLICT,
            _C.APPEND_CONDITION_FAILED,
            _C.QUOTA_EXHAUSTED,
        ),
    ),
    Operation.READ: OperationDoc(
        summary="Read records once, as server-sent events, or as a session",
        status=200,
        answer={
            JSON: ref("ReadBatch"),
            **_ANSWER_PROTOBUF,
            EVENT_STREAM: {"description": "Events `batch`, `ping` and `error`, then `[DONE]`."},
            **_SESSIONS,
        },
        parameters=(
            _query("seq_num", U64, "Start at this sequence number."),
            _query("timestamp", U64, "Start at the first record not before this time."),
            _query("tail_offset", U64, "Start so many records before the tail."),
            _query("clamp", BOOLEAN, "Start at the tail where the start is beyond it."),
            _query("count", U64, "Records at most."),
            _query("bytes", U64, "Metered bytes at most."),
            _query("until", U64, "Only records before this time."),
            _query(
                "wait", {**U64, "maximum": min(U64_MAX, 2**32 - 1)}, "Seconds to wait at the tail."
            ),
            _header("last-event-id", TEXT, "Of the last event seen, to go on behind it."),
            _STREAM_CONFIG,
            *_KEY,
            *_FORMAT,
        ),
        errors=(
            _C.BAD_PATH,
            _C.BAD_QUERY,
            _C.INVALID,
            *_STREAM,
            _C.DECRYPTION_FAILED,
            _C.TRANSACTION_CONFLICT,
            _C.RANGE_NOT_SATISFIABLE,
        ),
    ),
    Operation.CHECK_TAIL: OperationDoc(
        summary="Where the next record will go",
        status=200,
        answer={JSON: ref("Tail")},
        parameters=(_STREAM_CONFIG,),
        errors=(_C.BAD_PATH, _C.INVALID, *_STREAM, _C.TRANSACTION_CONFLICT),
    ),
    Operation.HEALTH: OperationDoc(
        summary="Whether requests are served, for probes",
        status=200,
        answer={TEXT_PLAIN: TEXT},
        plain_statuses=(503,),
        is_public=True,
    ),
    Operation.LIVEZ: OperationDoc(
        summary="Whether the process answers",
        status=200,
        answer={TEXT_PLAIN: TEXT},
        parameters=(
            _query("verbose", TEXT, "A line for each check, when it is there."),
            _query("exclude", TEXT, "Leave one check out."),
        ),
        errors=(_C.BAD_QUERY,),
        is_public=True,
    ),
    Operation.READYZ: OperationDoc(
        summary="Whether requests are served, check by check",
        status=200,
        answer={TEXT_PLAIN: TEXT},
        parameters=(
            _query("verbose", TEXT, "A line for each check, when it is there."),
            _query("exclude", TEXT, "Leave one check out."),
        ),
        errors=(_C.BAD_QUERY,),
        plain_statuses=(503,),
        is_public=True,
    ),
    Operation.METRICS: OperationDoc(
        summary="Metrics in the text format of Prometheus",
        status=200,
        answer={TEXT_PLAIN: TEXT},
        is_public=True,
    ),
    Operation.VERSION: OperationDoc(
        summary="Name and version of the server",
        status=200,
        answer={JSON: ref("Version")},
        is_public=True,
    ),
    Operation.OPENAPI: OperationDoc(
        summary="This document",
        status=200,
        answer={JSON: {"type": "object"}},
        is_public=True,
    ),
}

assert OPERATIONS.keys() == set(Operation), "what is served is described"
