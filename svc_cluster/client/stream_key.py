"""The key of an encrypted stream, as requests bring it. It is never shown."""

from __future__ import annotations

import binascii
from typing import Final, NoReturn

import pybase64

KEY_BYTES: Final = 32
KEY_TEXT_BYTES_MAX: Final = 4096
"""What a file of a key has at most, with white space around it."""
KEY_HEADERS: Final = ("svc-encryption-key", "s2-encryption-key")
"""Each server knows one of them, this service both."""
KEY_SIGN: Final = "encryption-key"
"""What a server's message about keys has in it."""
DECRYPTION_FAILED: Final = "decryption_failed"


class StreamKey:
    """A key of 32 bytes in base64, which has no form in which it could be printed."""

    __slots__ = ("headers",)

    def __init__(self, text: str) -> None:
        """Raises ValueError, which says what is wrong and nothing of the key."""
        try:
            size = len(pybase64.b64decode(text, validate=True))
        except (binascii.Error, ValueError):
            raise ValueError("it is not base64") from None
        if size != KEY_BYTES:
            raise ValueError(f"it is base64 of {size} bytes")
        self.headers = dict.fromkeys(KEY_HEADERS, text)
        """For requests alone."""

    def __repr__(self) -> str:
        return "StreamKey(hidden)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key does not leave the process")


def asks_for_key(code: str, message: str) -> bool:
    """Whether a refusal is about the key of the stream: there is none, or another one."""
    return code == DECRYPTION_FAILED or KEY_SIGN in message


def key_advice(option: str) -> str:
    """Return what to do about it; `option` names the file."""
    return f"; name the file that holds the stream's key with {option}"
