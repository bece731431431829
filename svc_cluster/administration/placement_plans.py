"""What the planner of placement would move, for an administrator: the catalog's leader is asked."""

from __future__ import annotations

from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
from svc_cluster._pb.cluster.v1 import replica_pb2 as rpc
from svc_cluster.administration import catalog_calls
from svc_cluster.administration.views import GROUPS_MAX
from svc_cluster.base.ids import GroupId
from svc_cluster.replica.node import ReplicaNode


async def plan_placement(
    node: ReplicaNode, request: pb.PlanPlacementRequest
) -> pb.PlanPlacementResponse:
    """Raises RefusedCallError."""

    def fill(asked: rpc.Request) -> None:
        asked.plan_placement.SetInParent()
        asked.plan_placement.carry_out = request.carry_out
        asked.plan_placement.progress_only = request.progress_only

    told = (await catalog_calls.ask(node, fill)).placement_plan
    catalog = node.host.catalog
    known = {} if catalog is None else catalog.state.basins_by_group

    def name(group_id: int) -> str:
        record = known.get(GroupId(group_id))
        return "" if record is None else record.name

    return pb.PlanPlacementResponse(
        changes=[
            pb.PlacementMove(
                group_id=row.group_id,
                basin=name(row.group_id),
                from_node=row.from_node,
                to_node=row.to_node,
                reason=row.reason,
            )
            for row in told.changes[:GROUPS_MAX]
        ],
        transfers=[
            pb.LeadMove(
                group_id=row.group_id,
                basin=name(row.group_id),
                from_node=row.from_node,
                to_node=row.to_node,
            )
            for row in told.transfers[:GROUPS_MAX]
        ],
        has_more=told.has_more,
        open=[
            pb.OpenMove(
                group_id=row.group_id,
                basin=name(row.group_id),
                to=row.to,
                reason=row.reason,
                given_up=row.given_up,
            )
            for row in told.progress.open[:GROUPS_MAX]
        ],
        begun=told.progress.begun,
        given_up=told.progress.given_up,
        done=told.progress.is_done,
        waits=told.progress.waits,
    )
