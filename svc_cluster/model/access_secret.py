"""The secret of an access token: its text, and the hash that is all the service keeps of it.

The secret is 256 random bits, so a plain SHA-256 cannot be searched, and a guess is looked up by
its hash, whose timing says nothing about the secret. The text begins with a mark and ends with a
checksum, by which scanners tell a leaked one and gateways a mistyped one.
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Final

SECRET_BYTES: Final = 32
_MARK: Final = "svct_"
_TEXT: Final = re.compile(r"svct_([A-Za-z0-9_-]{43})([0-9a-f]{8})", re.ASCII)


def secret_text(random_bytes: bytes) -> str:
    """Return the text that is shown once. It is made of the mark, the bits in base64 for file
    names, and eight digits of the hexadecimal SHA-256 of these. Its characters are letters, digits,
    `-` and `_`; tools without this code, such as templates, can make one too."""
    assert len(random_bytes) == SECRET_BYTES, "a secret has 256 bits"
    bits = base64.urlsafe_b64encode(random_bytes).decode().rstrip("=")
    return _MARK + bits + _checksum(bits)


def is_secret_text(text: str) -> bool:
    """Whether `text` can be a secret at all: mark, length and checksum."""
    found = _TEXT.fullmatch(text)
    return found is not None and found[2] == _checksum(found[1])


def _checksum(bits: str) -> str:
    return hashlib.sha256(bits.encode()).hexdigest()[:8]


def secret_hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
