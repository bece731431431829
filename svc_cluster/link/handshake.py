"""Who talks inside the cluster, and why somebody may not. The proofs are in `greeting`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from svc_cluster.base.ids import NodeId


@dataclass(frozen=True, slots=True)
class Identity:
    """`role` is one of greeting.ROLES; who is no node has the node id 0 and an incarnation of its
    own."""

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
