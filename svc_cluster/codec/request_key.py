"""Which request a client repeats: one key for it, however often and through whichever gateway.

Source: contract 10.1 and 10.3. The principal is not in it: a retry under a rotated access token
is the same request. Keys are kept for a day in logs and states, so what they are made of stays.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from typing import Final

from svc_cluster.model.record import StoredBatch

ACCOUNT: Final = "default"
"""There is one account in a cluster."""

_LENGTH: Final = struct.Struct(">Q")
_VERSION: Final = b"svc request key 1"


def request_key(
    method: str, route: str, names: Sequence[str], token: str, body_hash: bytes
) -> bytes:
    """32 bytes. `route`: its template, of several that mean the same always one; `names`: what
    stands in it, full names, in a fixed order; `body_hash`: of the decoded body."""
    hasher = hashlib.sha256(_VERSION)
    for text in (ACCOUNT, method, route, token, *names):
        _add(hasher, text.encode("utf-8", "surrogatepass"))
    _add(hasher, body_hash)
    return hasher.digest()


def body_hash(body: bytes) -> bytes:
    """Return the hash of a body whose Content-Encoding is undone, in the one form that its route
    takes."""
    return hashlib.sha256(body).digest()


def append_hash(batch: StoredBatch, match_seq_num: int | None, fencing_token: str | None) -> bytes:
    """Return the hash of what an append says, in whichever form and encoding it says it."""
    hasher = hashlib.sha256()
    _add(hasher, batch.records)
    _add(hasher, b"" if match_seq_num is None else _LENGTH.pack(match_seq_num))
    if fencing_token is not None:
        _add(hasher, fencing_token.encode("utf-8", "surrogatepass"))
    return hasher.digest()


def _add(hasher: hashlib._Hash, part: bytes) -> None:
    """With its length, so that parts cannot flow into each other."""
    hasher.update(_LENGTH.pack(len(part)))
    hasher.update(part)
