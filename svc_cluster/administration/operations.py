"""One table decides who may call what of a node's administration, for how long, and how many at one
time. It is the whole of it. What has no row here is refused, whoever asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from svc_cluster.base.ids import NodeId
from svc_cluster.link.tls import ADMINISTRATOR_NAME, GATEWAY_NAME, is_node_name, node_name


class CallerRole(IntEnum):
    """What a caller's certificate makes of it, the least first."""

    NOBODY = 0
    """A certificate of the cluster's CA that names no part of a cluster, such as the clients'
    port's."""
    GATEWAY = 1
    NODE = 2
    """Another node."""
    SELF = 3
    """The node that is called: somebody on its host, with its own certificate."""
    ADMINISTRATOR = 4


READERS: Final = frozenset(
    {CallerRole.GATEWAY, CallerRole.NODE, CallerRole.SELF, CallerRole.ADMINISTRATOR}
)
KEEPERS: Final = frozenset({CallerRole.SELF, CallerRole.ADMINISTRATOR})
ADMINISTRATORS: Final = frozenset({CallerRole.ADMINISTRATOR})
"""For what shows records: a node's own certificate lies on its host."""
EVERYBODY: Final = frozenset(CallerRole)


@dataclass(frozen=True, slots=True)
class AdminOperation:
    """One row. `seconds_max`: the call is ended then, whatever deadline its caller gave.
    `calls_max`: further ones at the same time are refused."""

    roles: frozenset[CallerRole]
    seconds_max: float
    calls_max: int


SERVICE: Final = "svc.cluster.v1.admin.Administration"
HEALTH: Final = "grpc.health.v1.Health"
REFLECTION: Final = "grpc.reflection.v1alpha.ServerReflection"

OPERATIONS: Final[Mapping[str, AdminOperation]] = {
    f"/{SERVICE}/Status": AdminOperation(READERS, 5.0, 8),
    f"/{SERVICE}/Members": AdminOperation(READERS, 5.0, 8),
    f"/{SERVICE}/Leaders": AdminOperation(READERS, 5.0, 8),
    # longer than a node tries to give its leaderships away (handover.LIMIT_SECONDS)
    f"/{SERVICE}/Drain": AdminOperation(KEEPERS, 15.0, 4),
    f"/{SERVICE}/Configuration": AdminOperation(KEEPERS, 5.0, 8),
    f"/{SERVICE}/Version": AdminOperation(READERS, 8.0, 4),
    f"/{SERVICE}/FinalizeUpgrade": AdminOperation(KEEPERS, 8.0, 2),
    # at the lowest rate; a caller goes on with another call where one of records has ended
    f"/{SERVICE}/Export": AdminOperation(ADMINISTRATORS, 600.0, 2),
    f"/{SERVICE}/BackupTaken": AdminOperation(ADMINISTRATORS, 5.0, 2),
    f"/{SERVICE}/ReplaceMember": AdminOperation(KEEPERS, 10.0, 2),
    f"/{SERVICE}/AddMember": AdminOperation(KEEPERS, 8.0, 1),
    f"/{SERVICE}/RemoveMember": AdminOperation(KEEPERS, 8.0, 1),
    f"/{SERVICE}/Cluster": AdminOperation(READERS, 8.0, 4),
    f"/{SERVICE}/Basin": AdminOperation(READERS, 5.0, 4),
    f"/{SERVICE}/ClusterLeaders": AdminOperation(READERS, 5.0, 2),
    f"/{SERVICE}/TransferLeader": AdminOperation(KEEPERS, 8.0, 4),
    f"/{SERVICE}/BalanceLeaders": AdminOperation(KEEPERS, 8.0, 2),
    f"/{SERVICE}/FreezeBasin": AdminOperation(KEEPERS, 8.0, 4),
    f"/{SERVICE}/DrainNode": AdminOperation(KEEPERS, 8.0, 4),
    f"/{SERVICE}/PlanPlacement": AdminOperation(KEEPERS, 8.0, 2),
    f"/{SERVICE}/MoveBasin": AdminOperation(KEEPERS, 8.0, 4),
    f"/{HEALTH}/Check": AdminOperation(EVERYBODY, 5.0, 16),
    f"/{HEALTH}/List": AdminOperation(EVERYBODY, 5.0, 8),
    f"/{HEALTH}/Watch": AdminOperation(EVERYBODY, 600.0, 16),
    f"/{REFLECTION}/ServerReflectionInfo": AdminOperation(READERS, 30.0, 8),
}

ANSWER_BYTES_MAX: Final = 1024 * 1024
"""The largest message of an answer; both sides hold to it."""

CALLS_MAX: Final = sum(operation.calls_max for operation in OPERATIONS.values())
"""Calls that a node's administration works on at one time, of all kinds."""


def role_of(names: Iterable[bytes], own: NodeId) -> CallerRole:
    """The role of a caller whose certificate has these DNS names, at the node `own`. A certificate
    of several parts, such as one that all pods share, gets the least of their roles: whoever has
    it may be any of them."""
    roles = [role for name in names if (role := _role_of_name(name, own)) is not CallerRole.NOBODY]
    return min(roles, default=CallerRole.NOBODY)


def _role_of_name(name: bytes, own: NodeId) -> CallerRole:
    text = name.decode("ascii", "replace")
    if text == ADMINISTRATOR_NAME:
        return CallerRole.ADMINISTRATOR
    if text == GATEWAY_NAME:
        return CallerRole.GATEWAY
    if text == node_name(own):
        return CallerRole.SELF
    return CallerRole.NODE if is_node_name(text) else CallerRole.NOBODY
