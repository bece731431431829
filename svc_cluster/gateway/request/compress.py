"""Content-Encoding of answers, and what frames are packed with. Source: contract 4.6 and 8.2."""

from __future__ import annotations

from collections.abc import Generator
from functools import lru_cache
from typing import Final

from svc_cluster.codec.compression import compress, compress_steps
from svc_cluster.http.message import Headers, Request, Response

COMPRESSED_BYTES_MIN: Final = 1025
"""A smaller body is sent as it is."""

PAGES_KEPT_MAX: Final = 128
"""Pages in codings, of some KiB each. There are some twenty pages."""

_CODINGS: Final = ("zstd", "gzip")
"""The first that the client takes."""


def coding_of(request: Request, response: Response) -> str | None:
    """The coding for the body, where it is large enough and the client says that it can read it. A
    body without an end (events, sessions) is left alone: its pieces must arrive when they are
    sent."""
    body = response.body
    if not isinstance(body, bytes) or len(body) < COMPRESSED_BYTES_MIN:
        return None
    if any(name == "content-encoding" for name, _ in response.headers):
        return None
    return accepted_coding(request.headers)


def compressing_steps(response: Response, coding: str) -> Generator[None, None, None]:
    """Give the body that coding, in steps of a bounded time."""
    assert isinstance(response.body, bytes), "what has no end is not compressed"
    response.body = yield from compress_steps(coding, response.body)
    response.headers.append(("content-encoding", coding))


@lru_cache(maxsize=PAGES_KEPT_MAX)
def coded_page(coding: str, page: bytes) -> bytes:
    """A page that is the same for everybody, in a coding: made once, within a turn of the loop."""
    return compress(coding, page)


def keep_coded(page: bytes) -> None:
    """Make the page in all codings, before anybody asks."""
    if len(page) >= COMPRESSED_BYTES_MIN:
        for coding in _CODINGS:
            coded_page(coding, page)


def give_coded_page(response: Response, coding: str) -> None:
    """Give the body, which is a page, that coding."""
    assert isinstance(response.body, bytes), "a page has an end"
    response.body = coded_page(coding, response.body)
    response.headers.append(("content-encoding", coding))


def accepted_coding(headers: Headers) -> str | None:
    """zstd before gzip, whatever their weights; not what has the weight 0. `*` is not taken for a
    wish: a client that can undo a coding names it."""
    accepted: set[str] = set()
    for name, value in headers:
        if name != "accept-encoding":
            continue
        for part in value.split(","):
            word, *parameters = part.split(";")
            if not any(map(_is_zero, parameters)):
                accepted.add(word.strip().lower())
    return next((coding for coding in _CODINGS if coding in accepted), None)


def _is_zero(parameter: str) -> bool:
    name, _, value = parameter.partition("=")
    digits = value.strip()
    return name.strip().lower() == "q" and digits != "" and not digits.strip("0.")
