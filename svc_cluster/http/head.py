"""Rules for request heads that hold whatever parser read them.

One meaning or none: what two parties on the way could read differently is refused, so that nobody
can hide a request, a host or a credential in the difference.
"""

from __future__ import annotations

import re
from typing import Final

from svc_cluster.base.errors import ErrorCode, MalformedError
from svc_cluster.http.message import Request

HTTP_1_1: Final = (1, 1)
HTTP_2: Final = (2, 0)

_ONCE: Final = frozenset(
    {
        "authorization",
        "content-length",
        "content-type",
        "expect",
        "host",
        "last-event-id",
        "transfer-encoding",
    }
)
"""Headers with one value, which may not be given twice, even alike."""

_DIGITS: Final = re.compile(r"[0-9]{1,18}")
_HOST: Final = re.compile(r"(?:[A-Za-z0-9._~%!$&'()*+;=-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?")
_NOT_IN_TARGET: Final = re.compile(r"[\x00-\x20#\x7f]")
_NOT_IN_VALUE: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def check_head(request: Request, version: tuple[int, int]) -> None:
    """Raises MalformedError for a head with more than one meaning, or none."""
    seen: set[str] = set()
    for name, _ in request.headers:
        if name in _ONCE:
            if name in seen:
                raise _malformed(f"{name} is given twice")
            seen.add(name)
    # One search over all of them: this is on every request's way.
    if _NOT_IN_VALUE.search("".join([value for _, value in request.headers])) is not None:
        raise _malformed("a header has a control character in its value")
    _check_host(request, version)
    _check_target(request)
    if "transfer-encoding" in seen:
        if version != HTTP_1_1:
            raise _malformed("transfer-encoding belongs to HTTP/1.1 alone")
        if "content-length" in seen:
            raise _malformed("a body has either a length or a transfer-encoding")
        if (request.header("transfer-encoding") or "").lower() != "chunked":
            raise _malformed("the only transfer-encoding is chunked")
    length = request.header("content-length")
    if length is not None and _DIGITS.fullmatch(length) is None:
        raise _malformed("content-length is a decimal number")


def _check_host(request: Request, version: tuple[int, int]) -> None:
    host = request.header("host")
    if host is None:
        if version == HTTP_1_1:
            raise _malformed("HTTP/1.1 needs a host header")
    elif _HOST.fullmatch(host) is None:
        raise _malformed("the host header is not a host")


def _check_target(request: Request) -> None:
    path = request.raw_path
    if not path.startswith("/") and not (path == "*" and request.method == "OPTIONS"):
        raise _malformed("the request's target is not a path")
    if _NOT_IN_TARGET.search(path + request.query) is not None:
        raise _malformed("the request's target has a control character, a blank or a fragment")


def _malformed(message: str) -> MalformedError:
    return MalformedError(ErrorCode.BAD_HEADER, message)
