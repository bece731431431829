"""A newcomer asks to be let in for itself alone."""

from __future__ import annotations

import pytest

from svc_cluster._pb.cluster.v1.replica_pb2 import JoinClusterRequest
from svc_cluster.base.errors import InvalidError
from svc_cluster.replica.roles import JOINER, NODE, CallerRights


def asked(node_id: int, incarnation: str, *, forwarded: bool = False) -> JoinClusterRequest:
    request = JoinClusterRequest(forwarded=forwarded)
    request.node.node_id, request.node.incarnation = node_id, incarnation
    return request


def test_a_newcomer_comes_in_its_own_name() -> None:
    """A token of another id is of no use to it, and what nodes pass on it cannot pretend."""
    rights = CallerRights(JOINER, joins_as=(4, "a"))
    rights.check_join(asked(4, "a"))
    for other in (asked(5, "a"), asked(4, "b"), asked(4, "a", forwarded=True)):
        with pytest.raises(InvalidError, match="in its own name"):
            rights.check_join(other)


def test_a_node_passes_on_what_others_ask() -> None:
    CallerRights(NODE).check_join(asked(5, "b", forwarded=True))
