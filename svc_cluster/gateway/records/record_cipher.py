"""Records sealed and opened with a client's key, in this process and nowhere else.

A key lives as long as the request that brought it. It stands in no message, log line, metric or
error, and nothing shows it (`gateway.request.record_key`).
Source: contract 11.1, 11.2 and 11.3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

from aeg import aegis256
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from svc_cluster.base.errors import DecryptionFailedError, InternalError
from svc_cluster.gateway.request.record_key import RecordKey
from svc_cluster.model.cipher import AEGIS_256, AES_256_GCM, StreamIdentity

Random = Callable[[int], bytes]
"""So many bytes from a source fit for secrets."""

TAG_BYTES: Final = 16
_SALT_BYTES: Final = 32
_SUITES: Final = {AEGIS_256: (1, 32), AES_256_GCM: (2, 12)}
"""The byte that a sealed record begins with, and the bytes of the nonce behind it."""


class RecordCipher:
    """Seals and opens the data records of one stream with one key."""

    __slots__ = ("_associated", "_gcm", "_key", "_nonce_bytes", "_random", "_suite")

    def __init__(self, identity: StreamIdentity, key: RecordKey, random: Random) -> None:
        """`identity.cipher` is set. `random`: where nonces come from, a new one for each record."""
        assert identity.cipher is not None, "a plain stream has no cipher"
        if identity.cipher not in _SUITES:
            raise InternalError("the stream has a cipher that this version does not know")
        suite, self._nonce_bytes = _SUITES[identity.cipher]
        self._suite = bytes((suite,))
        self._associated = associated_data(identity)
        self._key = key.secret
        self._gcm = AESGCM(self._key) if identity.cipher == AES_256_GCM else None
        self._random = random

    def __repr__(self) -> str:
        return "RecordCipher(hidden)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key does not leave the process")

    def seal(self, plain: bytes) -> bytes:
        """Suite byte, nonce, ciphertext, tag."""
        nonce = self._random(self._nonce_bytes)
        assert len(nonce) == self._nonce_bytes, "as many bytes as were asked for"
        if self._gcm is not None:
            sealed: bytes | bytearray = self._gcm.encrypt(nonce, plain, self._associated)
        else:
            sealed = aegis256.encrypt(self._key, nonce, plain, self._associated)
        return self._suite + nonce + sealed

    def open(self, sealed: bytes) -> bytes:
        """What was sealed. Raises DecryptionFailedError for another key, and for bytes that were
        not sealed for this stream."""
        begin = 1 + self._nonce_bytes
        if len(sealed) < begin + TAG_BYTES or sealed[:1] != self._suite:
            raise DecryptionFailedError("a record is not sealed with the stream's cipher")
        nonce = sealed[1:begin]
        try:
            if self._gcm is not None:
                return self._gcm.decrypt(nonce, sealed[begin:], self._associated)
            return bytes(
                aegis256.decrypt(self._key, nonce, memoryview(sealed)[begin:], self._associated)
            )
        except (InvalidTag, ValueError):
            # Not chained: what the libraries were given is not to show in a traceback.
            raise DecryptionFailedError(
                "a record cannot be opened with the key in svc-encryption-key"
            ) from None


def associated_data(identity: StreamIdentity) -> bytes:
    """Binds a sealed record to its stream: it does not open as a record of any other."""
    return identity.group_id.to_bytes(8, "big") + identity.stream_id.to_bytes(8, "big")


def new_salt(random: Random) -> bytes:
    """For the fingerprints of one process."""
    return random(_SALT_BYTES)
