"""Who is calling: proof of the cluster secret without sending it, and the caller's identity.

Every connection inside the cluster carries these facts as metadata, under an HMAC with the shared
secret. Whoever lacks the secret is refused before a message is decoded.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from svc_cluster.base.ids import NodeId

_PREFIX: Final = "svc-"
_FIELDS: Final = ("cluster", "role", "node", "incarnation", "nonce")
_PROOF: Final = "svc-proof"


@dataclass(frozen=True, slots=True)
class Identity:
    """`role` is `node` or `gateway`; gateways have node id 0 and an incarnation of their own."""

    cluster_id: str
    role: str
    node_id: NodeId
    incarnation: str


NOT_A_MEMBER: Final = "no node of this id belongs to the cluster"
"""The refusal of a node that is not among the members that the one it calls knows of."""


class HandshakeError(Exception):
    """The caller is not of this cluster, or not who it says."""


class NotYetError(HandshakeError):
    """The caller may belong to the cluster: this node cannot tell before the cluster is formed."""


def make_metadata(secret: bytes, identity: Identity, nonce: str) -> tuple[tuple[str, str], ...]:
    """Metadata for a new connection. `nonce` is any unpredictable ASCII text."""
    values = (
        identity.cluster_id,
        identity.role,
        str(identity.node_id),
        identity.incarnation,
        nonce,
    )
    pairs = tuple((_PREFIX + name, value) for name, value in zip(_FIELDS, values, strict=True))
    return (*pairs, (_PROOF, _proof(secret, values)))


def check_metadata(secret: bytes, cluster_id: str, metadata: Mapping[str, str]) -> Identity:
    """The caller's identity. Raises HandshakeError for a wrong secret or another cluster."""
    values = tuple(metadata.get(_PREFIX + name, "") for name in _FIELDS)
    given = metadata.get(_PROOF, "")
    if not hmac.compare_digest(given.encode(), _proof(secret, values).encode()):
        raise HandshakeError("the caller does not know the cluster secret")
    cluster, role, node, incarnation, _ = values
    if cluster != cluster_id:
        raise HandshakeError("the caller belongs to another cluster")
    if role not in ("node", "gateway") or not node.isdecimal() or not incarnation:
        raise HandshakeError("the caller does not say who it is")
    return Identity(cluster, role, NodeId(int(node)), incarnation)


def _proof(secret: bytes, values: tuple[str, ...]) -> str:
    text = "\n".join(str(len(value)) + ":" + value for value in values)
    return hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()
