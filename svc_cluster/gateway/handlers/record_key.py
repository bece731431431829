"""The key that a request brings for the records of an encrypted stream."""

from __future__ import annotations

from typing import Final

from svc_cluster.base.errors import ErrorCode, MalformedError
from svc_cluster.gateway.http.message import Request
from svc_cluster.gateway.record_cipher import RecordKey

KEY_HEADERS: Final = ("s2-encryption-key", "svc-encryption-key")
KEY_TEXT_BYTES_MAX: Final = 44
"""Base64 of 32 bytes."""


def record_key(request: Request) -> RecordKey | None:
    """The request's key; None when it has none, or text that no stream could use as one.

    Raises MalformedError (bad_header) for what can be no key whatever the stream: nothing, more
    than 44 bytes, anything but ASCII, and two headers that differ. What it says shows none of it.
    """
    texts = [
        text.strip(" \t") for name in KEY_HEADERS if (text := request.header(name)) is not None
    ]
    if not texts:
        return None
    if not all(1 <= len(text) <= KEY_TEXT_BYTES_MAX and text.isascii() for text in texts):
        raise MalformedError(
            ErrorCode.BAD_HEADER, f"an encryption key is 1 to {KEY_TEXT_BYTES_MAX} ASCII characters"
        )
    if len(set(texts)) > 1:
        raise MalformedError(ErrorCode.BAD_HEADER, "the two encryption key headers differ")
    return RecordKey.parse(texts[0])
