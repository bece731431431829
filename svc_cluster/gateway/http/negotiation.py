"""What the headers and the query of a request ask for, strictly parsed."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote_to_bytes

from svc_cluster.base.errors import ErrorCode, InvalidError, MalformedError, NotImplementedYetError
from svc_cluster.codec import compression
from svc_cluster.codec.compression import CompressionError, DecompressedTooLargeError
from svc_cluster.codec.json_body import DataFormat
from svc_cluster.codec.records import U64_MAX
from svc_cluster.gateway.http.errors import (
    PayloadTooLargeError,
    RequestBodyTimeoutError,
    UnsupportedMediaTypeError,
)
from svc_cluster.gateway.http.message import (
    BodyBrokenError,
    BodyTimeoutError,
    BodyTooLargeError,
    Request,
)
from svc_cluster.model import names

JSON_BODY_BYTES_MAX: Final = 8 * 1024 * 1024
"""After decompression; a legal 1 MiB batch may grow sixfold by JSON escapes."""

_FORMATS: Final = {
    "base64": DataFormat.BASE64,
    "json-binsafe": DataFormat.BASE64,
    "utf8": DataFormat.UTF8,
    "raw": DataFormat.UTF8,
    "json": DataFormat.UTF8,
}
_BASIN_HEADERS: Final = ("svc-basin", "s2-basin")
_SESSION_TYPES: Final = ("svcs/proto", "s2s/proto")
_PROTOBUF_TYPES: Final = ("application/protobuf", "application/x-protobuf")
EVENT_STREAM: Final = "text/event-stream"


def data_format(request: Request) -> DataFormat:
    """base64 unless `svc-format` (or `s2-format`) says otherwise. Raises MalformedError."""
    word = request.header("svc-format") or request.header("s2-format")
    if word is None:
        return DataFormat.BASE64
    chosen = _FORMATS.get(word.strip().lower())
    if chosen is None:
        raise MalformedError(ErrorCode.BAD_HEADER, "the format is `base64` or `utf8`")
    return chosen


def media_type(value: str | None) -> str:
    """The first media type of an Accept or Content-Type value, in lower case, bare."""
    if value is None:
        return ""
    return value.partition(",")[0].partition(";")[0].strip().lower()


def wants_event_stream(request: Request) -> bool:
    """Whether a read is to be answered by server-sent events.

    Raises NotImplementedYetError for protobuf and session media types.
    """
    _refuse_later_types(media_type(request.header("content-type")))
    accepted = media_type(request.header("accept"))
    _refuse_later_types(accepted)
    return accepted == EVENT_STREAM


def require_json(request: Request) -> None:
    """Raises MalformedError unless the body says that it is JSON."""
    _refuse_later_types(media_type(request.header("accept")))
    kind = media_type(request.header("content-type"))
    if kind == "application/json":
        return
    _refuse_later_types(kind)
    if not (kind.startswith("application/") and kind.endswith("+json")):
        raise MalformedError(ErrorCode.BAD_JSON, "the body needs content-type application/json")


def _refuse_later_types(kind: str) -> None:
    if kind in _PROTOBUF_TYPES or kind in _SESSION_TYPES:
        raise NotImplementedYetError(f"{kind} is not spoken yet; use application/json")


async def json_body(request: Request) -> bytes:
    """The decoded body, at most 8 MiB.

    Raises UnsupportedMediaTypeError for an unknown Content-Encoding, PayloadTooLargeError, and
    MalformedError for a body that is not what its headers say.
    """
    require_json(request)
    encoding = request.header("content-encoding")
    coding = "identity" if encoding is None else encoding.strip().lower() or "identity"
    if coding not in compression.ENCODINGS:
        raise UnsupportedMediaTypeError("content-encoding is gzip or zstd")
    try:
        data = await request.body.read(JSON_BODY_BYTES_MAX)
        return compression.decompress(coding, data, JSON_BODY_BYTES_MAX)
    except (BodyTooLargeError, DecompressedTooLargeError) as cause:
        raise PayloadTooLargeError(f"a body has at most {JSON_BODY_BYTES_MAX} bytes") from cause
    except CompressionError as cause:
        raise MalformedError(ErrorCode.BAD_JSON, f"content-encoding: {cause}") from cause
    except BodyBrokenError as cause:
        raise MalformedError(ErrorCode.BAD_JSON, "the body's framing is broken") from cause
    except BodyTimeoutError as cause:
        raise RequestBodyTimeoutError("the body did not arrive in time") from cause


def check_request_token(request: Request) -> None:
    """Raises MalformedError for a `svc-request-token` that is empty or over 36 bytes."""
    token = request.header("svc-request-token")
    if token is not None and not 1 <= len(token.encode()) <= names.REQUEST_TOKEN_BYTES_MAX:
        raise MalformedError(
            ErrorCode.BAD_HEADER,
            f"a request token has 1 to {names.REQUEST_TOKEN_BYTES_MAX} bytes",
        )


def basin_of(request: Request, path_basin: str | None) -> str:
    """The basin that a request names, by path or header.

    Raises MalformedError (bad_header) when none or two different ones are named, or the name
    breaks the rules.
    """
    chosen = path_basin
    for header, name in request.headers:
        if header not in _BASIN_HEADERS:
            continue
        if chosen is not None and name != chosen:
            raise MalformedError(ErrorCode.BAD_HEADER, "two different basins are named")
        chosen = name
    if chosen is None:
        raise MalformedError(ErrorCode.BAD_HEADER, "name the basin in the header svc-basin")
    if not names.is_basin_name(chosen):
        code = ErrorCode.BAD_HEADER if path_basin is None else ErrorCode.BAD_PATH
        raise MalformedError(code, BASIN_NAME_RULE)
    return chosen


BASIN_NAME_RULE: Final = (
    "a basin name has 8 to 48 characters of a-z, 0-9 and hyphen, no hyphen first or last"
)
STREAM_NAME_RULE: Final = "a stream name has 1 to 512 bytes of UTF-8 and is not `.` or `..`"


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
                raise MalformedError(ErrorCode.BAD_QUERY, "a parameter is given twice")
            values[name] = _unquote(raw_value)
        self._values = values

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
        raise MalformedError(ErrorCode.BAD_QUERY, f"{name} is a number from 0 to {maximum}")

    def boolean(self, name: str) -> bool:
        """False when absent."""
        match self._values.get(name):
            case None | "false":
                return False
            case "true":
                return True
            case _:
                raise MalformedError(ErrorCode.BAD_QUERY, f"{name} is `true` or `false`")


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
