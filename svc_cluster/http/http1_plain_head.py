"""Heads of the plain shape, as nearly all clients write them: read in one go, or not at all.

Whatever is not plain is left to the library's parser, which refuses it or finds what it means; so
nothing is refused here, and nothing is taken that the library would not take with the same meaning.
Plain is a head of one spelling: no field twice, no byte beyond ASCII, nothing that speaks of the
connection, of an upgrade or of a body without a length.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from svc_cluster.base.errors import MalformedError
from svc_cluster.http.head import HTTP_1_1, check_head
from svc_cluster.http.message import HeadNote, Request

PLAIN_HEAD_BYTES_MAX: Final = 8 * 1024
"""A longer one is not plain."""
FIELDS_MAX: Final = 64
"""One with more fields is not plain."""

_PLAIN: Final = re.compile(
    rb"(GET|POST|PUT|PATCH|DELETE) (/[!-\"$->@-~]*)(?:\?([!-\"$-~]*))? HTTP/1\.1\r\n"
    rb"((?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~]*\r\n)+)\r\n"
)
"""A fragment and a second meaning of the first line are not in it."""
_NOT_PLAIN: Final = frozenset(
    {
        "expect",
        "http2-settings",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Fields that are about the connection, or about how the body comes."""


@dataclass(frozen=True, slots=True)
class PlainHead:
    """A head and what it says. `raw` is all of it, the empty line included."""

    raw: bytes
    method: str
    path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    by_name: dict[str, str]
    body_bytes: int
    note: HeadNote = field(default_factory=HeadNote, compare=False)


def plain_head(data: bytes) -> PlainHead | None:
    """Return the head that `data` begins with; None where it is not whole, or not plain."""
    found = _PLAIN.match(data, 0, PLAIN_HEAD_BYTES_MAX)
    if found is None:
        return None
    headers = []
    for line in found[4].decode("ascii").split("\r\n")[:-1]:
        name, _, value = line.partition(":")
        headers.append((name.lower(), value.strip(" \t")))
    by_name = dict(headers)
    if len(by_name) != len(headers) or len(headers) > FIELDS_MAX:
        return None
    if not _NOT_PLAIN.isdisjoint(by_name):
        return None
    if by_name.get("connection", "keep-alive").lower() != "keep-alive":
        return None
    method, path, query = found[1].decode(), found[2].decode(), (found[3] or b"").decode()
    request = Request(method, path, query, headers, _by_name=by_name)
    try:
        check_head(request, HTTP_1_1)
    except MalformedError:
        return None
    length = int(by_name.get("content-length", "0"))
    if length and method == "GET":
        return None  # what is not asked for would be held, uncounted, as long as a stream lasts
    return PlainHead(found[0], method, path, query, tuple(headers), by_name, length)
