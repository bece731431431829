"""Content-Encoding of answers. Source: wire contract section 11."""

from __future__ import annotations

from typing import Final

from svc_cluster.codec.compression import compress
from svc_cluster.gateway.http.message import Headers, Request, Response

COMPRESSED_BYTES_MIN: Final = 1025
"""A smaller body is sent as it is."""

_CODINGS: Final = ("zstd", "gzip")
"""The first that the client takes."""


def compress_response(request: Request, response: Response) -> None:
    """Compress the body where it is large enough and the client says that it can read it. A body
    without an end (events, sessions) is left alone: its pieces must arrive when they are sent."""
    body = response.body
    if not isinstance(body, bytes) or len(body) < COMPRESSED_BYTES_MIN:
        return
    coding = accepted_coding(request.headers)
    if coding is None or any(name == "content-encoding" for name, _ in response.headers):
        return
    response.body = compress(coding, body)
    response.headers.append(("content-encoding", coding))


def accepted_coding(headers: Headers) -> str | None:
    """zstd before gzip, whatever their weights; not what has the weight 0. `*` is not taken for a
    wish: a client that can undo a coding names it."""
    accepted: set[str] = set()
    for name, value in headers:
        if name != "accept-encoding":
            continue
        for part in value.split(","):
            word, _, weight = part.partition(";")
            if not _is_zero(weight):
                accepted.add(word.strip().lower())
    return next((coding for coding in _CODINGS if coding in accepted), None)


def _is_zero(parameters: str) -> bool:
    name, _, value = parameters.partition("=")
    digits = value.strip()
    return name.strip().lower() == "q" and digits != "" and not digits.strip("0.")
