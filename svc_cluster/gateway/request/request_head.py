"""What the head of a routed request says, each thing read off its headers once.

Content-Type names the form of an append's body, and makes a session of an append or a read; Accept
names the form of the answer, whatever the request's is. Only the first media type counts, and an
unknown one means JSON.

Members and parameters that are not known mean nothing, so that a client may say more than a server
of its day knows. Who would rather hear of a misspelt `match_seq_num` than append without one says
so (contract 4.9).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from svc_cluster.base.errors import ErrorCode, MalformedError
from svc_cluster.base.telling import listed, quoted
from svc_cluster.gateway.request.body_head import BodyHead, body_head
from svc_cluster.gateway.request.endpoint import Endpoint
from svc_cluster.gateway.request.negotiation import (
    EVENT_STREAM,
    SESSION_TYPES,
    Query,
    basin_of,
    format_of,
    media_type,
)
from svc_cluster.http.message import Request

STRICT_HEADERS: Final = ("svc-strict", "s2-strict")
_WORDS: Final = {"true": True, "false": False}
_ENDPOINTS_MAX: Final = 256


class RequestHead:
    """This is the head of a request, or of all that begin with the very same bytes."""

    __slots__ = (
        "_basin",
        "_body",
        "_is_strict",
        "_named_basin",
        "_request",
        "accepts_events",
        "answer_format",
        "body_format",
        "content_type",
        "kept",
        "session_type",
    )

    def __init__(self, request: Request, named_basin: str | None) -> None:
        """`named_basin`: by the path or the host name."""
        self._request = request
        self._named_basin = named_basin
        self._basin: str | None = None
        self._is_strict: bool | None = None
        self._body: BodyHead | None = None
        self.kept: object = None
        """What the endpoint's handler has read off this head; see `HeadReading`."""
        self.content_type = kind = media_type(request.header("content-type"))
        self.session_type = kind if kind in SESSION_TYPES else None
        """The answer of a session has the same."""
        self.body_format = format_of(kind)
        accepted = media_type(request.header("accept"))
        self.accepts_events = accepted == EVENT_STREAM
        self.answer_format = format_of(accepted)

    @property
    def body(self) -> BodyHead:
        """What it says of the body."""
        if self._body is None:
            self._body = body_head(self._request)
        return self._body

    @property
    def is_strict(self) -> bool:
        """Whether what is not known is refused; False where the request does not say. Raises
        MalformedError (bad_header) for another word than `true` and `false`, and where the two
        headers differ."""
        if self._is_strict is None:
            self._is_strict = _is_strict(self._request)
        return self._is_strict

    def check_parameters(self, endpoint: Endpoint) -> None:
        """Raises MalformedError (bad_query) for a query that can be read in two ways or in none.
        That is so where nobody looks at it, too. It is raised as well for a parameter that the
        endpoint does not know. The latter is where the request is strict; it raises what
        `is_strict` raises, too."""
        is_strict = self.is_strict
        if not self._request.query or not (is_strict or endpoint.need is not None):
            return
        names = Query(self._request.query).names
        if not is_strict:
            return
        known = _known(endpoint)
        for name in names:
            if name not in known:
                there = f"there are {listed(known)}" if known else "there are none"
                raise MalformedError(
                    ErrorCode.BAD_QUERY, f"there is no parameter {quoted(name)} here; {there}"
                )

    @property
    def basin(self) -> str:
        """Raises MalformedError as `basin_of` does, when it is asked for and not before."""
        if self._basin is None:
            self._basin = basin_of(self._request, self._named_basin)
        return self._basin


def _is_strict(request: Request) -> bool:
    own, other = [request.header(name) for name in STRICT_HEADERS]
    if own is None and other is None:
        return False
    said = {text.strip().lower() for text in (own, other) if text is not None}
    word = said.pop()
    if said:
        raise MalformedError(ErrorCode.BAD_HEADER, " and ".join(STRICT_HEADERS) + " differ")
    if word not in _WORDS:
        raise MalformedError(
            ErrorCode.BAD_HEADER, f"svc-strict is {listed(_WORDS)}, not {quoted(word)}"
        )
    return _WORDS[word]


@lru_cache(_ENDPOINTS_MAX)
def _known(endpoint: Endpoint) -> tuple[str, ...]:
    described = endpoint.description.parameters
    return tuple([each.name for each in described if each.where == "query"])
