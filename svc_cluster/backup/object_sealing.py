"""Objects of a backup as they are kept: with a version, checked, and sealed unless that is not
wanted."""

from __future__ import annotations

import hashlib
import hmac
import os
from typing import Final, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from svc_cluster.backup.backup_errors import DamagedError, NewerFormatError

MAGIC: Final = b"svcbkup"
OBJECT_VERSION: Final = 1
KEY_BYTES: Final = 32
_PLAIN: Final = 0
_SEALED: Final = 1
_HEAD_BYTES: Final = len(MAGIC) + 2
_NONCE_BYTES: Final = 12
_DIGEST_BYTES: Final = 32
_NAME_BYTES: Final = 20


class Wrapping(Protocol):
    """How what is in an object is kept."""

    def content_name(self, data: bytes) -> str:
        """A name that equal data share, and nothing else does."""
        ...

    def wrap(self, name: str, data: bytes) -> bytes:
        """The object to be kept under `name`."""
        ...

    def unwrap(self, name: str, stored: bytes) -> bytes:
        """What was wrapped. Raises DamagedError, NewerFormatError."""
        ...


class Plain:
    """Checked, and readable by everybody who has it."""

    def content_name(self, data: bytes) -> str:
        return hashlib.blake2b(data, digest_size=_NAME_BYTES).hexdigest()

    def wrap(self, name: str, data: bytes) -> bytes:
        return _head(_PLAIN) + _digest(name, data) + data

    def unwrap(self, name: str, stored: bytes) -> bytes:
        body = _body(name, stored, _PLAIN)
        digest, data = body[:_DIGEST_BYTES], body[_DIGEST_BYTES:]
        if not hmac.compare_digest(digest, _digest(name, data)):
            raise _damaged(name)
        return data


class Sealed:
    """Objects are sealed by AES-256-GCM under a key of each one's own, bound to the object's name.
    The names of contents are keyed as well, so that they tell nothing of what they name."""

    def __init__(self, key: bytes) -> None:
        assert len(key) == KEY_BYTES, "keys have one length"
        self._key = key
        self._names = _derived(key, b"svcbkup-names")

    @property
    def key_id(self) -> str:
        return _derived(self._key, b"svcbkup-id").hex()[:16]

    def content_name(self, data: bytes) -> str:
        return hashlib.blake2b(data, key=self._names, digest_size=_NAME_BYTES).hexdigest()

    def wrap(self, name: str, data: bytes) -> bytes:
        head, nonce = _head(_SEALED), os.urandom(_NONCE_BYTES)
        sealed = self._cipher(name).encrypt(nonce, data, head + name.encode())
        return head + nonce + sealed

    def unwrap(self, name: str, stored: bytes) -> bytes:
        body = _body(name, stored, _SEALED)
        nonce, sealed = body[:_NONCE_BYTES], body[_NONCE_BYTES:]
        try:
            return self._cipher(name).decrypt(nonce, sealed, _head(_SEALED) + name.encode())
        except (InvalidTag, ValueError):
            raise _damaged(name) from None

    def _cipher(self, name: str) -> AESGCM:
        return AESGCM(
            hashlib.blake2b(
                name.encode(), key=self._key, digest_size=KEY_BYTES, person=b"svcbkup-object"
            ).digest()
        )


def _derived(key: bytes, purpose: bytes) -> bytes:
    return hashlib.blake2b(key=key, digest_size=KEY_BYTES, person=purpose).digest()


def _head(kind: int) -> bytes:
    return MAGIC + bytes([OBJECT_VERSION, kind])


def _digest(name: str, data: bytes) -> bytes:
    hasher = hashlib.blake2b(name.encode() + b"\0", digest_size=_DIGEST_BYTES)
    hasher.update(data)
    return hasher.digest()


def _body(name: str, stored: bytes, kind: int) -> bytes:
    head = stored[:_HEAD_BYTES]
    if len(head) < _HEAD_BYTES or head[: len(MAGIC)] != MAGIC:
        raise _damaged(name)
    if head[len(MAGIC)] != OBJECT_VERSION:
        raise NewerFormatError(
            f"{name} has format {head[len(MAGIC)]}, and this release reads {OBJECT_VERSION}: use "
            "the release that wrote it, or a newer one"
        )
    if head[len(MAGIC) + 1] != kind:
        raise _damaged(name)
    return stored[_HEAD_BYTES:]


def _damaged(name: str) -> DamagedError:
    return DamagedError(f"{name} is damaged: it is not what was written there")
