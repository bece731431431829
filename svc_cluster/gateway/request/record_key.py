"""The key that a request brings for the records of an encrypted stream."""

from __future__ import annotations

import binascii
import hashlib
from typing import Final, NoReturn

import pybase64

from svc_cluster.base.errors import ErrorCode, MalformedError
from svc_cluster.http.message import Request
from svc_cluster.model.cipher import KEY_BYTES

KEY_HEADERS: Final = ("s2-encryption-key", "svc-encryption-key")
KEY_TEXT_BYTES_MAX: Final = 44
"""Base64 of 32 bytes."""


class RecordKey:
    """A client's key of 32 bytes, which has no form in which it could be printed or sent."""

    __slots__ = ("secret",)

    def __init__(self, secret: bytes) -> None:
        assert len(secret) == KEY_BYTES, "checked where it came in"
        self.secret = secret
        """For the cipher alone."""

    @classmethod
    def parse(cls, text: str) -> RecordKey | None:
        """The key that base64 `text` stands for; None when it is not base64 of 32 bytes."""
        try:
            secret = pybase64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            return None
        return cls(secret) if len(secret) == KEY_BYTES else None

    def fingerprint(self, salt: bytes) -> bytes:
        """Tells keys apart within this process; with a secret `salt` it says nothing outside."""
        return hashlib.blake2b(self.secret, key=salt, digest_size=16).digest()

    def __repr__(self) -> str:
        return "RecordKey(hidden)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key does not leave the process")


def record_key(request: Request) -> RecordKey | None:
    """The request's key; None when it has none, or text that no stream could use as one.

    Raises MalformedError (bad_header) for what can be no key whatever the stream: nothing, more
    than 44 bytes, anything but ASCII, and two headers that differ. What it says shows none of it.
    """
    texts: dict[str, str] = {}
    for name in KEY_HEADERS:
        text = request.header(name)
        if text is not None:
            texts[name] = text.strip(" \t")
    if not texts:
        return None
    for name, text in texts.items():
        if not (1 <= len(text) <= KEY_TEXT_BYTES_MAX and text.isascii()):
            raise MalformedError(
                ErrorCode.BAD_HEADER,
                f"the key in {name} is 1 to {KEY_TEXT_BYTES_MAX} ASCII characters, this one has "
                f"{len(text)}",
            )
    first, *others = texts.values()
    if others not in ([], [first]):
        raise MalformedError(ErrorCode.BAD_HEADER, " and ".join(KEY_HEADERS) + " differ")
    return RecordKey.parse(first)
