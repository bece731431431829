"""A join token: what a new node shows to come to the cluster, as text and as a hash. Pure."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final

SECRET_BYTES: Final = 32
HASH_BYTES: Final = 32
NODE_ID_MAX: Final = 2**32 - 1

TTL_SECONDS: Final = 24 * 3600
"""How long a token is good for where nobody says."""
TTL_SECONDS_MIN: Final = 60
TTL_SECONDS_MAX: Final = 7 * 24 * 3600

MEMBER_ALREADY: Final = "belongs to the cluster already"
"""How a refusal ends for a node that needs no token."""

_FORM: Final = re.compile(r"svc-join-([1-9][0-9]{0,9})-([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class JoinToken:
    """The secret, and the one node that it lets in."""

    node_id: int
    secret: bytes

    @property
    def text(self) -> str:
        return f"svc-join-{self.node_id}-{self.secret.hex()}"

    def __repr__(self) -> str:
        """Without the secret: it stands in no log."""
        return f"JoinToken({self.node_id})"


def parse_join_token(text: str) -> JoinToken | None:
    """The token of this text; None: it is none. Space around it is left out."""
    found = _FORM.fullmatch(text.strip())
    if found is None or int(found[1]) > NODE_ID_MAX:
        return None
    return JoinToken(int(found[1]), bytes.fromhex(found[2]))


def hash_of(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()
