"""The secret of a new access token, as it is kept so that whoever asked for it can be told again.

Sealed under a key that comes of the caller's own secret and of the request token. Neither is stored
anywhere, so what is stored opens for nobody but whoever sends both again. Decided in docs/adr/0013.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_PURPOSE: Final = b"svc-cluster: secret of an issued access token\x00"
_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_VERSION: Final = b"\x01"


class SecretSealer:
    """For one request: lives as long as that."""

    __slots__ = ("_cipher", "_request_key")

    def __init__(self, bearer_secret: str, request_token: str, request_key: bytes) -> None:
        """`bearer_secret` has 256 random bits; `request_token` may be as short as it likes."""
        info = _PURPOSE + request_token.encode("utf-8", "surrogatepass")
        derived = HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=None, info=info)
        self._cipher = AESGCM(derived.derive(bearer_secret.encode()))
        self._request_key = request_key

    def seal(self, secret: str, random_bytes: Callable[[int], bytes]) -> bytes:
        """A different text each time: attempts at one request draw secrets of their own."""
        nonce = random_bytes(_NONCE_BYTES)
        return _VERSION + nonce + self._cipher.encrypt(nonce, secret.encode(), self._request_key)

    def open(self, sealed: bytes) -> str | None:
        """None where it was sealed for another caller, request token or request."""
        if sealed[:1] != _VERSION:
            return None
        nonce, text = sealed[1 : 1 + _NONCE_BYTES], sealed[1 + _NONCE_BYTES :]
        try:
            return self._cipher.decrypt(nonce, text, self._request_key).decode()
        except (InvalidTag, ValueError):
            return None

    def __repr__(self) -> str:
        return "SecretSealer(hidden)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key does not leave the process")
