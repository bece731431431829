"""Who may do what at a node's administration: the table, row by row."""

from __future__ import annotations

import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from svc_cluster._pb.cluster.v1 import admin_pb2
from svc_cluster.administration.operations import CALLS_MAX, OPERATIONS, CallerRole, role_of
from svc_cluster.base.ids import NodeId
from svc_cluster.replica.leader_handover import LIMIT_SECONDS

OWN = NodeId(2)
SELF, OTHER = b"node-2.svc-cluster.internal", b"node-1.svc-cluster.internal"
GATEWAY = b"gateway.svc-cluster.internal"
ADMINISTRATOR = b"administrator.svc-cluster.internal"

MAY = {
    "Status": {CallerRole.GATEWAY, CallerRole.NODE, CallerRole.SELF, CallerRole.ADMINISTRATOR},
    "Members": {CallerRole.GATEWAY, CallerRole.NODE, CallerRole.SELF, CallerRole.ADMINISTRATOR},
    "Leaders": {CallerRole.GATEWAY, CallerRole.NODE, CallerRole.SELF, CallerRole.ADMINISTRATOR},
    "Drain": {CallerRole.SELF, CallerRole.ADMINISTRATOR},
    "Configuration": {CallerRole.SELF, CallerRole.ADMINISTRATOR},
    "Version": {CallerRole.GATEWAY, CallerRole.NODE, CallerRole.SELF, CallerRole.ADMINISTRATOR},
    "FinalizeUpgrade": {CallerRole.SELF, CallerRole.ADMINISTRATOR},
    "ReplaceMember": {CallerRole.SELF, CallerRole.ADMINISTRATOR},
    "AddMember": {CallerRole.SELF, CallerRole.ADMINISTRATOR},
    "RemoveMember": {CallerRole.SELF, CallerRole.ADMINISTRATOR},
    "Cluster": {CallerRole.GATEWAY, CallerRole.NODE, CallerRole.SELF, CallerRole.ADMINISTRATOR},
    "Basin": {CallerRole.GATEWAY, CallerRole.NODE, CallerRole.SELF, CallerRole.ADMINISTRATOR},
    "ClusterLeaders": {
        CallerRole.GATEWAY,
        CallerRole.NODE,
        CallerRole.SELF,
        CallerRole.ADMINISTRATOR,
    },
    "TransferLeader": {CallerRole.SELF, CallerRole.ADMINISTRATOR},
    "BalanceLeaders": {CallerRole.SELF, CallerRole.ADMINISTRATOR},
    "DrainNode": {CallerRole.SELF, CallerRole.ADMINISTRATOR},
    "PlanPlacement": {CallerRole.SELF, CallerRole.ADMINISTRATOR},
    "FreezeBasin": {CallerRole.SELF, CallerRole.ADMINISTRATOR},
    "MoveBasin": {CallerRole.SELF, CallerRole.ADMINISTRATOR},
    "Export": {CallerRole.ADMINISTRATOR},
    "BackupTaken": {CallerRole.ADMINISTRATOR},
    "Check": set(CallerRole),
    "List": set(CallerRole),
    "Watch": set(CallerRole),
    "ServerReflectionInfo": {
        CallerRole.GATEWAY,
        CallerRole.NODE,
        CallerRole.SELF,
        CallerRole.ADMINISTRATOR,
    },
}


def test_the_table_has_a_row_for_each_method_that_is_served_and_no_other() -> None:
    """A method that is added without a row would be refused to everybody; a row without a method
    would promise something."""
    served = {
        f"/{service.full_name}/{method.name}"
        for file in (admin_pb2, health_pb2, reflection_pb2)
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }
    assert OPERATIONS.keys() == served


@pytest.mark.parametrize("path", OPERATIONS)
def test_the_matrix_of_roles_and_operations(path: str) -> None:
    """Each operation, each role, written down a second time."""
    assert OPERATIONS[path].roles == MAY[path.rpartition("/")[2]]


def test_every_operation_ends_and_is_bounded() -> None:
    """Within ten minutes, and a drain not before the node has given up; few at one time."""
    for operation in OPERATIONS.values():
        assert 0 < operation.seconds_max <= 600
        assert 1 <= operation.calls_max <= 16
    assert sum(operation.calls_max for operation in OPERATIONS.values()) == CALLS_MAX <= 128
    drain = next(operation for path, operation in OPERATIONS.items() if path.endswith("/Drain"))
    assert drain.seconds_max > LIMIT_SECONDS


@pytest.mark.parametrize(
    ("names", "role"),
    [
        ([ADMINISTRATOR], CallerRole.ADMINISTRATOR),
        ([SELF], CallerRole.SELF),
        ([OTHER], CallerRole.NODE),
        ([b"node-22.svc-cluster.internal"], CallerRole.NODE),
        ([GATEWAY], CallerRole.GATEWAY),
        ([], CallerRole.NOBODY),
        ([b"localhost", b"svc.example.com"], CallerRole.NOBODY),
        # a certificate that all pods share is a gateway's
        ([SELF, OTHER, GATEWAY], CallerRole.GATEWAY),
        ([ADMINISTRATOR, GATEWAY], CallerRole.GATEWAY),
        ([GATEWAY, ADMINISTRATOR], CallerRole.GATEWAY),
        ([SELF, OTHER], CallerRole.NODE),
        ([ADMINISTRATOR, OTHER], CallerRole.NODE),
        ([ADMINISTRATOR, SELF], CallerRole.SELF),
        # other names beside a role's change nothing
        ([b"svc.example.com", ADMINISTRATOR], CallerRole.ADMINISTRATOR),
        ([b"localhost", GATEWAY], CallerRole.GATEWAY),
        # what only looks like a name of ours is none
        ([b"administrator.svc-cluster.internal.example.com"], CallerRole.NOBODY),
        ([b"x.administrator.svc-cluster.internal"], CallerRole.NOBODY),
        ([b"*.svc-cluster.internal"], CallerRole.NOBODY),
        ([b"node-0.svc-cluster.internal", b"node-02.svc-cluster.internal"], CallerRole.NOBODY),
        ([b"node-1.svc-cluster.internal\n", b"node-.svc-cluster.internal"], CallerRole.NOBODY),
        ([b"\xffadministrator.svc-cluster.internal", b""], CallerRole.NOBODY),
    ],
)
def test_a_certificate_has_the_least_of_the_roles_it_names(
    names: list[bytes], role: CallerRole
) -> None:
    """Whoever has a certificate of several parts may be any of them."""
    assert role_of(names, OWN) is role
    assert role_of(reversed(names), OWN) is role
