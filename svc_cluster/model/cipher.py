"""Encryption of records at rest: what a stream's cipher is called and how far it reaches.

Records are sealed and opened in the gateway, with a key that is the client's and that nothing
behind the gateway ever has. The layers below see which stream a batch was sealed for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

AEGIS_256: Final = "aegis-256"
AES_256_GCM: Final = "aes-256-gcm"

KEY_BYTES: Final = 32

_SEQ_NUM_MAX: Final = 2**63 - 2
_SEQ_NUM_MAX_AES_GCM: Final = 2**32 - 1
"""A random nonce of 12 bytes is good for 2^32 records under one key."""


@dataclass(frozen=True, slots=True)
class StreamIdentity:
    """Which stream has a name. Numbers are never used again, and a stream's cipher never changes,
    so this stays true of the stream for ever, if not of the name."""

    group_id: int
    stream_id: int
    cipher: str | None
    """None: records are stored as clients gave them."""


def seq_num_max(cipher: str | None) -> int:
    """The highest sequence number that a record of such a stream may have."""
    return _SEQ_NUM_MAX_AES_GCM if cipher == AES_256_GCM else _SEQ_NUM_MAX
