"""In which form the records of a request and of its answer travel.

Content-Type names the form of an append's body, and makes a session of an append or a read; Accept
names the form of the answer, whatever the request's is. Only the first media type counts, and an
unknown one means JSON. Source: wire contract sections 3.1 and 5.1.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from svc_cluster.base.errors import ErrorCode
from svc_cluster.codec.proto_body import PROTO_BODY_BYTES_MAX
from svc_cluster.gateway.http.message import Request, Response, json_response
from svc_cluster.gateway.http.negotiation import (
    EVENT_STREAM,
    PROTOBUF_TYPES,
    SESSION_TYPES,
    media_type,
    whole_body,
)

PROTOBUF: Final = "application/protobuf"

STREAM_HEADERS: Final = (
    ("cache-control", "no-cache, no-transform"),
    ("x-accel-buffering", "no"),
)
"""Of every answer without an end, so that no proxy holds it back."""


class BodyFormat(Enum):
    """Of a unary append's body, or of a unary answer."""

    JSON = "json"
    PROTOBUF = "protobuf"


def session_type(request: Request) -> str | None:
    """The session media type that a request, a read too, has as its Content-Type. The answer has
    the same."""
    kind = media_type(request.header("content-type"))
    return kind if kind in SESSION_TYPES else None


def accepts_events(request: Request) -> bool:
    return media_type(request.header("accept")) == EVENT_STREAM


def body_format(request: Request) -> BodyFormat:
    """Of an append's body. What is not protobuf has to be JSON."""
    kind = media_type(request.header("content-type"))
    return BodyFormat.PROTOBUF if kind in PROTOBUF_TYPES else BodyFormat.JSON


def answer_format(request: Request) -> BodyFormat:
    kind = media_type(request.header("accept"))
    return BodyFormat.PROTOBUF if kind in PROTOBUF_TYPES else BodyFormat.JSON


def answer(form: BodyFormat, body: bytes) -> Response:
    """200 with a body in that form."""
    if form is BodyFormat.JSON:
        return json_response(200, body)
    return Response(200, [("content-type", PROTOBUF)], body)


async def protobuf_body(request: Request) -> bytes:
    """The whole body, at most 2 MiB. Raises what `whole_body` does, with bad_proto."""
    return await whole_body(request, PROTO_BODY_BYTES_MAX, ErrorCode.BAD_PROTO)


def accept_encoding(request: Request) -> str:
    """All that the client lists, in one line."""
    return ",".join(value for name, value in request.headers if name == "accept-encoding")
