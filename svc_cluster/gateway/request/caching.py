"""What caches are told of an answer, in a browser or before the gateways. Source: contract
14.7, 14.8 and 14.9.

Most of what is read here changes at any moment, so that nothing is kept unless it says so. A closed
range does: its records are there for good, until they are trimmed, expire or are deleted.
"""

from __future__ import annotations

import hashlib
from typing import Final

from svc_cluster.gateway.request.negotiation import (
    BASIN_HEADERS,
    FORMAT_HEADERS,
    STREAM_CONFIG_HEADERS,
)
from svc_cluster.gateway.request.record_key import KEY_HEADERS
from svc_cluster.gateway.request.request_head import STRICT_HEADERS
from svc_cluster.http.message import Request, Response

KEPT_SECONDS: Final = 60
"""For how long an answer that may be kept is as good as a new one."""

NO_STORE: Final = ("cache-control", "no-store")
NOT_MODIFIED: Final = 304
_KEPT: Final = ("cache-control", f"private, max-age={KEPT_SECONDS}")
_SHARED: Final = ("cache-control", f"public, max-age={KEPT_SECONDS}, must-revalidate")
"""Without the last word a cache may give what is older for as long as it reaches no gateway."""
_TAG_BYTES: Final = 12

_OF_DIALECTS: Final = (
    *BASIN_HEADERS,
    *FORMAT_HEADERS,
    *STRICT_HEADERS,
    *KEY_HEADERS,
    *STREAM_CONFIG_HEADERS,
)
VARYING: Final = (
    "origin",
    "authorization",
    "accept",
    "accept-encoding",
    "content-type",
    *_OF_DIALECTS,
)
"""The headers that the answer to a read depends on: who asks, for which stream, in which form."""

_VARY_KEPT: Final = ("vary", ", ".join(VARYING))
_VARY_PAGE: Final = ("vary", "origin")
_VARY_PREFLIGHT: Final = (
    "vary",
    "origin, access-control-request-method, access-control-request-headers",
)
_DIALECT_PREFIXES: Final = ("svc-", "s2-")


def may_be_kept(request: Request) -> bool:
    """Whether a cache that goes by VARYING tells this request from all that are answered
    otherwise. Any header of a dialect decides the dialect, so one that is not known there must not
    be on it."""
    return all(
        name in _OF_DIALECTS for name, _ in request.headers if name.startswith(_DIALECT_PREFIXES)
    )


def tag_of(*what: object) -> str:
    """The `etag` of an answer that is made of nothing but `what`: numbers, texts and tuples of
    them. It is a weak one, since the same answer goes out in several codings."""
    return f'W/"{hashlib.blake2b(repr(what).encode(), digest_size=_TAG_BYTES).hexdigest()}"'


def is_known(request: Request, tag: str) -> bool:
    """Whether the client has this answer already, by its `if-none-match`."""
    asked = [
        one.strip()
        for name, value in request.headers
        if name == "if-none-match"
        for one in value.split(",")
    ]
    opaque = tag.removeprefix("W/")
    return any(one == "*" or one.removeprefix("W/") == opaque for one in asked)


def shows_nothing(request: Request) -> bool:
    """Whether the request shows neither a token nor a ticket, good or not."""
    return request.header("authorization") is None and "ticket" not in request.query


def keep(response: Response, tag: str, *, shared: bool) -> None:
    """Let the client's own cache keep the answer for a minute, and ask then whether it is the same
    by `tag`. With `shared` caches may that serve others too: who asks them shows nothing."""
    response.headers += [("etag", tag), _SHARED if shared else _KEPT]


def not_modified(tag: str, *, shared: bool) -> Response:
    """The answer to a client that has the answer, which is good for a minute again."""
    response = Response(NOT_MODIFIED)
    keep(response, tag, shared=shared)
    return response


def tell_caches(request: Request, response: Response) -> None:
    """Say what an answer depends on, and that what says nothing of caches is not to be kept."""
    said = None
    for name, value in response.headers:
        if name == "cache-control":
            said = value
            break
    if request.method == "OPTIONS":
        if request.header("origin") is not None:
            response.headers.append(_VARY_PREFLIGHT)
        return
    if said is None and request.method in ("GET", "HEAD"):
        response.headers.append(NO_STORE)
    if said in (_KEPT[1], _SHARED[1]):
        response.headers.append(_VARY_KEPT)
    elif request.header("origin") is not None or (said is not None and "no-store" not in said):
        response.headers.append(_VARY_PAGE)
