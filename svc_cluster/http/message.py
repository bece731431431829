"""The neutral request and response that handlers see, whatever protocol carried them.

Nothing here, nor in the handlers, knows of sockets or of any HTTP library.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, runtime_checkable

from svc_cluster.http.client_certificate import ClientCertificate

JSON: Final = "application/json"
BODILESS: Final = frozenset({204, 304})
"""Statuses of answers without a body, of which no length is told either."""

Headers = Sequence[tuple[str, str]]
"""Names in lower case, in the order received; names may repeat."""


class ClientGoneError(Exception):
    """The connection was lost while a request was read; there is nobody to answer."""


class BodyBrokenError(Exception):
    """The body's framing (chunks, length) is malformed."""


class BodyTimeoutError(Exception):
    """The client stopped sending in the middle of a body, or sends it too slowly."""


BODY_IDLE_SECONDS: Final = 30.0
"""Longest pause of a client in the middle of a body."""


class Body(Protocol):
    """A request's body, taken at most once, as sent (Content-Encoding not undone)."""

    def chunks(self, idle_seconds: float | None = BODY_IDLE_SECONDS) -> AsyncIterator[bytes]:
        """Piece by piece as it arrives, never empty, for bodies without an end.

        The client is slowed down to the speed of whoever iterates. A response's body may iterate
        it while the response is being written: both directions then flow independently.
        `idle_seconds` is the longest pause of the client (None: any, for sessions, which may be
        silent for as long as they like). Raises BodyBrokenError, BodyTimeoutError,
        ClientGoneError.
        """
        ...


class WholeBody:
    """Base of the bodies that handlers can have as a whole: what bounds and decodes them."""

    __slots__ = ()

    async def read(self, limit_bytes: int) -> bytes:
        """All of it. Raises what refuses more than `limit_bytes`, and as `Body.chunks`."""
        raise NotImplementedError

    def chunks(self, idle_seconds: float | None = BODY_IDLE_SECONDS) -> AsyncIterator[bytes]:
        raise NotImplementedError


class BytesBody:
    """A body that is already there: for adapters whose request is complete, and for tests."""

    def __init__(self, data: bytes = b"") -> None:
        self._data = data

    def complete(self) -> bytes:
        return self._data

    async def chunks(self, idle_seconds: float | None = BODY_IDLE_SECONDS) -> AsyncIterator[bytes]:
        if self._data:
            yield self._data


_NOTHING: Final = BytesBody()


@dataclass(slots=True, eq=False)
class Connection:
    """This is the connection of a client; it may carry many requests."""

    address: str
    """The address of the client, without its port."""
    certificate: ClientCertificate | None = None
    """What the client has shown in the handshake; None: nothing, or nobody asked for it."""
    note: object = None
    """Whatever the application remembers of it from one request to the next."""


NOWHERE: Final = Connection("")
"""For requests that came over no connection."""


@dataclass(slots=True, eq=False)
class HeadNote:
    """What the application has found out by a head alone. It is there for the next request of the
    connection that begins with the very same bytes, and goes with them. What may have changed
    meanwhile, as of the caller, is judged by whoever takes it from here."""

    reading: object = None
    credential: object = None
    caller: object = None


@dataclass(slots=True)
class Request:
    """`raw_path` is percent-encoded and without the query; `query` is without the `?`."""

    method: str
    raw_path: str
    query: str
    headers: Headers
    body: Body = field(default_factory=BytesBody)
    connection: Connection = NOWHERE
    """The client's, which carries other requests too."""
    id: str = ""
    """What it is called in answers and logs; the application gives it."""
    head_note: HeadNote | None = None
    """None where the head is kept for no other request."""
    _by_name: dict[str, str] | None = None

    def head_alone(self) -> Request:
        """A request of this head that has no body, and came over no connection."""
        told = (self.method, self.raw_path, self.query, self.headers)
        return Request(*told, _NOTHING, _by_name=self._by_name)

    def with_body(self, body: Body, headers: Headers | None = None) -> Request:
        """The same request with another body, and perhaps with other headers."""
        by_name = self._by_name if headers is None else None
        headers = self.headers if headers is None else headers
        told = (self.method, self.raw_path, self.query, headers)
        return Request(*told, body, self.connection, self.id, self.head_note, by_name)

    def header(self, name: str) -> str | None:
        """First value of a header, by lower-case name."""
        by_name = self._by_name
        if by_name is None:
            by_name = self._by_name = dict(reversed(self.headers))
        return by_name.get(name)


class PieceSink(Protocol):
    """A PieceSink sends pieces of a body without an end past its iterator. That is allowed while
    whoever iterates the body waits for the next piece, and at no other moment."""

    @property
    def is_open(self) -> bool:
        """Whether the client is there and reads what it is sent. Where not, the next piece waits
        for it in the iterator, whose adapter finds out which."""
        ...

    def send(self, piece: bytes) -> None:
        """Send it. A client that turns out to have gone is not open from then on."""
        ...


@runtime_checkable
class Attachable(Protocol):
    """A body that can do without its iterator now and then."""

    def attach(self, sink: PieceSink) -> None:
        """Called before the first step, if at all."""
        ...


@dataclass(slots=True)
class Response:
    """`headers` without Content-Length, Transfer-Encoding, Connection and Date, which belong to
    the adapter. An iterator as body is a stream: the head is sent before its first step, each
    piece as soon as it is yielded, and it is closed (`aclose`) when the client goes. It may go on
    reading the request's body (`Body.chunks`) meanwhile."""

    status: int
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes | AsyncIterator[bytes] = b""
    close: bool = False
    """The connection is of no further use, for instance because a body was not read."""
    place: object = None
    """Held until the answer has left, or nobody is there to take it, and let go of by the adapter:
    see gateway/limits (answer_room.py, admission.py)."""


def json_response(status: int, body: bytes, headers: Sequence[tuple[str, str]] = ()) -> Response:
    return Response(status, [("content-type", JSON), *headers], body)


def text_response(status: int, text: str) -> Response:
    return Response(status, [("content-type", "text/plain; charset=utf-8")], text.encode())
