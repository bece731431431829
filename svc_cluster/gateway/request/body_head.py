"""What the head of a request says of its body."""

from __future__ import annotations

from typing import NamedTuple

from svc_cluster.http.message import Request


class BodyHead(NamedTuple):
    """It says how the body is coded and how long it is, as it is sent."""

    codings: tuple[str, ...]
    length: int | None
    """In bytes; None when the length shows only at the end."""


def body_head(request: Request) -> BodyHead:
    return BodyHead(content_codings(request), declared_length(request))


def content_codings(request: Request) -> tuple[str, ...]:
    """All values of Content-Encoding in their order, in lower case, without `identity`."""
    return tuple(
        [
            word
            for name, value in request.headers
            if name == "content-encoding"
            for part in value.split(",")
            if (word := part.strip().lower()) not in ("", "identity")
        ]
    )


def declared_length(request: Request) -> int | None:
    """None when the length shows only at the end. The adapter vouches for the header's form."""
    length = request.header("content-length")
    if length is not None and length.isascii() and length.isdigit() and len(length) < 20:
        return int(length)
    return None
