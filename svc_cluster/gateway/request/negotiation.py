"""What the headers and the query of a request ask for, strictly parsed. The forms of bodies and
answers are here, too."""

from __future__ import annotations

from enum import Enum
from typing import Final
from urllib.parse import unquote_to_bytes

from svc_cluster.base.errors import ErrorCode, InvalidError, MalformedError
from svc_cluster.base.telling import listed, quoted
from svc_cluster.codec.batch_rules import U64_MAX
from svc_cluster.codec.json_body import DataFormat
from svc_cluster.codec.proto_body import PROTO_BODY_BYTES_MAX
from svc_cluster.gateway.request.dialect import Dialect
from svc_cluster.http.head_errors import RequestBodyTimeoutError
from svc_cluster.http.message import (
    BodyBrokenError,
    BodyTimeoutError,
    Request,
    Response,
    WholeBody,
    json_response,
)
from svc_cluster.model import names

JSON_BODY_BYTES_MAX: Final = 8 * 1024 * 1024
"""The largest body of an append, after decompression; a legal 1 MiB batch may grow sixfold by JSON
escapes."""
CONTROL_BODY_BYTES_MAX: Final = 64 * 1024
"""The largest body of all else, after decompression: configurations, names, access tokens. The
largest that is legal, every character escaped, is a few KiB."""

FORMATS: Final = {
    "base64": DataFormat.BASE64,
    "json-binsafe": DataFormat.BASE64,
    "utf8": DataFormat.UTF8,
    "raw": DataFormat.UTF8,
    "json": DataFormat.UTF8,
}
FORMAT_HEADERS: Final = ("svc-format", "s2-format")
BASIN_HEADERS: Final = ("svc-basin", "s2-basin")
STREAM_CONFIG_HEADERS: Final = ("svc-stream-config", "s2-stream-config")
"""The configuration of a stream that is made, over the basin's default; else of no meaning."""
PROVISION_RESULTS: Final = ("svc-provision-result", "s2-provision-result")
"""What tells whether a thing was created, updated or found: both, in the S2 dialect the last."""
SESSION_TYPES: Final = ("svcs/proto", "s2s/proto")
PROTOBUF_TYPES: Final = ("application/protobuf", "application/x-protobuf")
EVENT_STREAM: Final = "text/event-stream"
STREAM_HEADERS: Final = (
    ("cache-control", "no-cache, no-transform"),
    ("x-accel-buffering", "no"),
)
"""The headers of every answer without an end, so that no proxy holds it back."""


class BodyFormat(Enum):
    """This is the format of a unary append's body, or of a unary answer."""

    JSON = "json"
    PROTOBUF = "protobuf"


def data_format(
    request: Request, dialect: Dialect = Dialect.SEED, query: Query | None = None
) -> DataFormat:
    """What `svc-format`, `s2-format` and the parameter `format` of `query` say. Where they say
    nothing it is raw text in the S2 dialect and base64 in the other. Raises MalformedError
    (bad_header, bad_query) for an unknown word, and where two say different things."""
    said = [
        (value, ErrorCode.BAD_HEADER) for name, value in request.headers if name in FORMAT_HEADERS
    ]
    if query is not None and (word := query.text("format")) is not None:
        said.append((word, ErrorCode.BAD_QUERY))
    chosen: DataFormat | None = None
    for value, code in said:
        named = FORMATS.get(value.strip().lower())
        if named is None:
            raise MalformedError(
                code, f"the format is one of {listed(FORMATS)}, not {quoted(value)}"
            )
        if chosen is not None and named is not chosen:
            raise MalformedError(code, "two different formats are named")
        chosen = named
    if chosen is not None:
        return chosen
    return DataFormat.UTF8 if dialect is Dialect.S2 else DataFormat.BASE64


def media_type(value: str | None) -> str:
    """The first media type of an Accept or Content-Type value, in lower case, bare."""
    if value is None:
        return ""
    return value.partition(",")[0].partition(";")[0].strip().lower()


def format_of(kind: str) -> BodyFormat:
    """The format that a media type stands for; an unknown one means JSON."""
    return BodyFormat.PROTOBUF if kind in PROTOBUF_TYPES else BodyFormat.JSON


def require_json(request: Request) -> None:
    """Raises MalformedError for a body that says that it is not JSON. One that says nothing is."""
    declared = request.header("content-type")
    if declared is None:
        return
    kind = media_type(declared)
    if kind == "application/json":
        return
    if not (kind.startswith("application/") and kind.endswith("+json")):
        raise MalformedError(
            ErrorCode.BAD_JSON,
            f"the body needs content-type application/json, not {quoted(declared)}",
        )


async def json_body(request: Request, bytes_max: int = CONTROL_BODY_BYTES_MAX) -> bytes:
    """The whole body, b"" where there is none. Raises MalformedError (bad_json) for another
    Content-Type, and what `whole_body` does."""
    require_json(request)
    return await whole_body(request, bytes_max, ErrorCode.BAD_JSON)


async def protobuf_body(request: Request) -> bytes:
    """The whole body, at most 2 MiB. Raises what `whole_body` does, with bad_proto."""
    return await whole_body(request, PROTO_BODY_BYTES_MAX, ErrorCode.BAD_PROTO)


async def whole_body(request: Request, bytes_max: int, malformed: ErrorCode) -> bytes:
    """All of it, its Content-Encoding undone by BudgetedBody.

    Raises RequestBodyTimeoutError, MalformedError with the code `malformed`
    for a body that does not end as it says, and what BudgetedBody does.
    """
    assert isinstance(request.body, WholeBody), "bodies are bounded before a handler reads them"
    try:
        return await request.body.read(bytes_max)
    except BodyBrokenError as cause:
        raise MalformedError(malformed, "the body's framing is broken") from cause
    except BodyTimeoutError as cause:
        raise RequestBodyTimeoutError("the body did not arrive in time") from cause


def answer(form: BodyFormat, body: bytes) -> Response:
    """200 with a body in that form."""
    if form is BodyFormat.JSON:
        return json_response(200, body)
    return Response(200, [("content-type", PROTOBUF_TYPES[0])], body)


def check_request_token(request: Request, *, creates: bool = False) -> str | None:
    """The `svc-request-token`, by which the request may be repeated; None where there is none.

    Raises MalformedError (bad_header) for one that is empty or over 36 bytes, for two that differ,
    and, where a basin or stream is created, for a `s2-request-token` over 36 bytes. S2 knows its
    token nowhere else, and there it is ignored.
    """
    token: str | None = None
    for name, value in request.headers:
        # Header values are bytes, held one a character.
        if name == "svc-request-token":
            wrong = not 1 <= len(value) <= names.REQUEST_TOKEN_BYTES_MAX
            if token is not None and value != token:
                raise MalformedError(
                    ErrorCode.BAD_HEADER, "svc-request-token is given twice, and differs"
                )
            token = value
        elif creates and name == "s2-request-token":
            wrong = len(value) > names.REQUEST_TOKEN_BYTES_MAX
        else:
            continue
        if wrong:
            raise MalformedError(
                ErrorCode.BAD_HEADER,
                f"{name} has 1 to {names.REQUEST_TOKEN_BYTES_MAX} bytes, this one has {len(value)}",
            )
    return token


def basin_of(request: Request, path_basin: str | None) -> str:
    """The basin that a request names, by path or host name (the router knows which) or header.

    Raises MalformedError (bad_header) when none or two different ones are named, or the name
    breaks the rules.
    """
    chosen = path_basin
    for header, name in request.headers:
        if header not in BASIN_HEADERS:
            continue
        if chosen is not None and name != chosen:
            raise MalformedError(ErrorCode.BAD_HEADER, "two different basins are named")
        chosen = name
    if chosen is None:
        raise MalformedError(
            ErrorCode.BAD_HEADER, "name the basin in the header svc-basin or s2-basin"
        )
    if not names.is_basin_name(chosen):
        raise MalformedError(ErrorCode.BAD_HEADER, names.not_a_basin_name(chosen))
    return chosen


def stream_config_header(request: Request) -> tuple[str, str | None]:
    """The name and the text of the header that configures a stream which the request makes; None
    where there is none. Raises MalformedError (bad_header) for two texts that differ. Source:
    contract 1.4."""
    own, other = STREAM_CONFIG_HEADERS
    text, other_text = request.header(own), request.header(other)
    if text is None:
        return other, other_text
    if other_text not in (None, text):
        raise MalformedError(ErrorCode.BAD_HEADER, "two different stream configurations are given")
    return own, text


class Query:
    """Query parameters by name. Raises MalformedError (bad_query) for a name given twice, and
    from each getter for a value that is not of its type. Unknown names are ignored."""

    __slots__ = ("_values",)

    def __init__(self, query: str) -> None:
        values: dict[str, str] = {}
        for pair in query.split("&"):
            if not pair:
                continue
            raw_name, _, raw_value = pair.partition("=")
            name = _unquote(raw_name)
            if name in values:
                raise MalformedError(
                    ErrorCode.BAD_QUERY, f"the parameter {quoted(name)} is given twice"
                )
            values[name] = _unquote(raw_value)
        self._values = values

    @property
    def names(self) -> list[str]:
        """Those of all parameters that were given, in their order."""
        return list(self._values)

    def text(self, name: str) -> str | None:
        return self._values.get(name)

    def unsigned(self, name: str, maximum: int = U64_MAX) -> int | None:
        """Decimal digits only, 0 to `maximum`."""
        text = self._values.get(name)
        if text is None:
            return None
        if text.isascii() and text.isdigit() and len(text) <= 40:
            value = int(text)
            if value <= maximum:
                return value
        raise MalformedError(
            ErrorCode.BAD_QUERY, f"{name} is a number from 0 to {maximum}, not {quoted(text)}"
        )

    def boolean(self, name: str) -> bool:
        """False when absent."""
        match self._values.get(name):
            case None | "false":
                return False
            case "true":
                return True
            case text:
                raise MalformedError(
                    ErrorCode.BAD_QUERY, f"{name} is `true` or `false`, not {quoted(text)}"
                )


def _unquote(text: str) -> str:
    if "%" not in text and "+" not in text and text.isascii():
        return text
    return decode_percent(text.replace("+", " "), ErrorCode.BAD_QUERY)


def decode_percent(text: str, code: ErrorCode) -> str:
    """Undo percent-encoding exactly once. Raises MalformedError with `code` for a `%` without two
    hexadecimal digits and for bytes that are not UTF-8."""
    if "%" not in text and text.isascii():
        return text
    for escape in text.split("%")[1:]:
        if len(escape) < 2 or not all(digit in _HEX for digit in escape[:2]):
            raise MalformedError(code, "a `%` needs two hexadecimal digits")
    try:
        return unquote_to_bytes(text.encode("utf-8", "surrogateescape")).decode()
    except UnicodeError:
        raise MalformedError(code, "names and values are UTF-8") from None


_HEX: Final = frozenset("0123456789abcdefABCDEF")


def page_limit(query: Query) -> int:
    """1 to 1000; 0 and anything above mean 1000."""
    limit = query.unsigned("limit")
    return limit if limit is not None and 1 <= limit <= 1000 else 1000


def page_range(query: Query, *, strict: bool) -> tuple[str, str]:
    """`prefix` and `start_after`; with `strict` the latter may not sort before the former."""
    prefix = query.text("prefix") or ""
    start_after = query.text("start_after") or ""
    if strict and start_after and start_after.encode() < prefix.encode():
        raise InvalidError("start_after sorts before prefix")
    return prefix, start_after
