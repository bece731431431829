"""An HTTP/2 request's head: pseudo-headers and rules (RFC 9113 section 8), to the neutral message.

The library's own checks end the whole connection; these refuse one request with an answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from svc_cluster.base.errors import ErrorCode, MalformedError
from svc_cluster.http.connection import TARGET_BYTES_MAX
from svc_cluster.http.head import HTTP_2, check_head
from svc_cluster.http.head_errors import HeadersTooLargeError, TargetTooLongError
from svc_cluster.http.http2_limits import HEADER_LIST_BYTES_MAX
from svc_cluster.http.message import NOWHERE, Body, Connection, Request

_PSEUDO: Final = frozenset({":method", ":scheme", ":path", ":authority"})
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")
_METHOD: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FORBIDDEN: Final = frozenset(
    {"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}
)

RawHeaders = Sequence[tuple[bytes, bytes]]


def list_bytes(headers: Iterable[tuple[bytes, bytes]]) -> int:
    return sum(len(name) + len(value) + 32 for name, value in headers)


def make_request(raw: RawHeaders, body: Body, connection: Connection = NOWHERE) -> Request:
    """Raises MalformedError for a head that breaks a rule. Raises TargetTooLongError and
    HeadersTooLargeError for one that is too large."""
    if any(name == b":path" and len(value) > TARGET_BYTES_MAX for name, value in raw):
        raise TargetTooLongError(f"a target has at most {TARGET_BYTES_MAX} bytes")
    size = list_bytes(raw)
    if size > HEADER_LIST_BYTES_MAX:
        raise HeadersTooLargeError(
            f"a request's head has at most {HEADER_LIST_BYTES_MAX} bytes, this one has {size}"
        )
    pseudo: dict[str, str] = {}
    headers: list[tuple[str, str]] = []
    for raw_name, raw_value in raw:
        name, value = bytes(raw_name).decode("latin-1"), bytes(raw_value).decode("latin-1")
        if name.startswith(":"):
            if headers or name in pseudo or name not in _PSEUDO:
                raise _malformed("a pseudo-header is unknown, repeated or out of place")
            pseudo[name] = value
            continue
        _check_field(name, value)
        headers.append((name, value))
    method = pseudo.get(":method", "")
    if _METHOD.fullmatch(method) is None:
        raise _malformed("the request has no method")
    if method == "CONNECT" or ":path" not in pseudo or not pseudo.get(":scheme"):
        raise _malformed("the request needs a scheme and a path")
    authority = pseudo.get(":authority")
    if authority is not None:
        hosts = [value for name, value in headers if name == "host"]
        if hosts and hosts != [authority]:
            raise _malformed("host and :authority differ")
        if not hosts:
            headers.insert(0, ("host", authority))
    elif not any(name == "host" for name, _ in headers):
        raise _malformed("the request needs an :authority")
    if not pseudo[":path"].isascii():
        raise _malformed("a target is ASCII; letters beyond it are percent-encoded")
    path, _, query = pseudo[":path"].partition("?")
    request = Request(method, path, query, headers, body, connection)
    check_head(request, HTTP_2)
    return request


def _check_field(name: str, value: str) -> None:
    if _NAME.fullmatch(name) is None:
        raise _malformed("a header's name is not a token in lower case")
    if name in _FORBIDDEN or (name == "te" and value.lower() != "trailers"):
        raise _malformed(f"{name} has no place in HTTP/2")
    if value != value.strip(" \t"):
        raise _malformed("a header's value has blanks around it")


def _malformed(message: str) -> MalformedError:
    return MalformedError(ErrorCode.BAD_HEADER, message)
