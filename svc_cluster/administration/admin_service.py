"""The operations of the administrative service, as the stubs call them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
from svc_cluster._pb.cluster.v1 import admin_pb2_grpc
from svc_cluster._pb.cluster.v1 import replica_pb2 as rpc
from svc_cluster.administration import (
    catalog_calls,
    cluster_calls,
    frozen_basins,
    joining,
    moved_basins,
    node_drains,
    placement_plans,
    views,
)
from svc_cluster.administration.catalog_calls import LOST_FOR_GOOD, NOT_NOW, RefusedCallError
from svc_cluster.administration.draining import Draining
from svc_cluster.administration.exporting import Exporter, ExportRefusedError
from svc_cluster.administration.last_backup import LastBackup
from svc_cluster.administration.masking import shown
from svc_cluster.administration.views import Build, Space
from svc_cluster.base.log import get_logger
from svc_cluster.replica.leadership_news import CATALOG_NAME
from svc_cluster.replica.node import ReplicaNode

log = get_logger("administration")

Answer = TypeVar("Answer", bound=Message)
Context = Any
"""grpc.aio.ServicerContext, which has no types."""


class Administration(admin_pb2_grpc.AdministrationServicer):
    """This is the administration of one node. `settings`: as they are in effect."""

    def __init__(
        self,
        node: ReplicaNode,
        draining: Draining,
        *,
        settings: Mapping[str, Any],
        build: Build,
        space: Callable[[], Space],
        exporter: Exporter,
        last_backup: LastBackup,
    ) -> None:
        self._node = node
        self._draining = draining
        self._settings = settings
        self._build = build
        self._space = space
        self._exporter = exporter
        self._last_backup = last_backup
        self._began = node.services.clock.monotonic()

    async def Status(self, request: pb.StatusRequest, context: Context) -> pb.StatusResponse:
        await _refuse_unknown(request, context)
        uptime = self._node.services.clock.monotonic() - self._began
        return views.status(self._node, self._build, self._space, uptime)

    async def Members(self, request: pb.MembersRequest, context: Context) -> pb.MembersResponse:
        await _refuse_unknown(request, context)
        return views.members(self._node)

    async def Leaders(self, request: pb.LeadersRequest, context: Context) -> pb.LeadersResponse:
        await _refuse_unknown(request, context)
        await _check_limit(request, context)
        return views.leaders(self._node, request.start_after, request.limit or views.GROUPS_MAX)

    async def Drain(self, request: pb.DrainRequest, context: Context) -> pb.DrainResponse:
        await _refuse_unknown(request, context)
        log.info("drain_asked", peer=context.peer())
        return await self._draining.run()

    async def Version(self, request: pb.VersionRequest, context: Context) -> pb.VersionResponse:
        await _refuse_unknown(request, context)
        return await _told(catalog_calls.version(self._node), context)

    async def FinalizeUpgrade(
        self, request: pb.FinalizeUpgradeRequest, context: Context
    ) -> pb.VersionResponse:
        await _refuse_unknown(request, context)
        log.info("finalize_asked", peer=context.peer(), version=request.version)
        return await _told(catalog_calls.finalize(self._node, request.version), context)

    async def Configuration(
        self, request: pb.ConfigurationRequest, context: Context
    ) -> pb.ConfigurationResponse:
        await _refuse_unknown(request, context)
        return pb.ConfigurationResponse(
            settings=[
                pb.Setting(key=each.key, value=each.value, masked=each.masked)
                for each in shown(self._settings)
            ]
        )

    async def Export(
        self, request: pb.ExportRequest, context: Context
    ) -> AsyncIterator[pb.ExportPortion]:
        await _refuse_unknown(request, context)
        if not request.ranges:
            log.info("export_begins", group=request.group_id, peer=context.peer())
        try:
            async for portion in self._exporter.export(request):
                yield portion
        except ExportRefusedError as refusal:
            code = grpc.StatusCode.FAILED_PRECONDITION
            if refusal.elsewhere:
                code = grpc.StatusCode.UNAVAILABLE
            await context.abort(code, str(refusal))

    async def BackupTaken(
        self, request: pb.BackupTakenRequest, context: Context
    ) -> pb.BackupTakenResponse:
        await _refuse_unknown(request, context)
        self._last_backup.taken(request.finished_at_ms)
        log.info("backup_taken", finished_at_ms=request.finished_at_ms, peer=context.peer())
        return pb.BackupTakenResponse()

    async def ReplaceMember(
        self, request: pb.ReplaceMemberRequest, context: Any
    ) -> pb.ReplaceMemberResponse:
        await _refuse_unknown(request, context)
        log.info("replacement_asked", lost_node=request.node_id, peer=context.peer())

        def fill(asked: rpc.Request) -> None:
            asked.replace_node.node_id = request.node_id
            asked.replace_node.also_lost = request.also_lost

        response = await self._node.ask_catalog(fill)
        if response is None or response.refusal.code == "unavailable":
            await context.abort(
                NOT_NOW,
                "the catalog has no leader that could decide it: without a majority of the nodes "
                "nothing can be replaced; bring those back whose data directories are there; "
                + LOST_FOR_GOOD,
            )
        elif response.WhichOneof("result") != "replacement":
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, response.refusal.message)
        else:
            return views.replaced(response.replacement)
        raise AssertionError("aborted")

    async def AddMember(
        self, request: pb.AddMemberRequest, context: Context
    ) -> pb.AddMemberResponse:
        await _refuse_unknown(request, context)
        answer = await _told(joining.add_member(self._node, request), context)
        log.info("member_announced", new_node=request.node_id, peer=context.peer())
        return answer

    async def RemoveMember(
        self, request: pb.RemoveMemberRequest, context: Context
    ) -> pb.RemoveMemberResponse:
        await _refuse_unknown(request, context)
        answer = await _told(joining.remove_member(self._node, request), context)
        log.info("member_removed", removed_node=request.node_id, peer=context.peer())
        return answer

    async def Cluster(self, request: pb.ClusterRequest, context: Context) -> pb.ClusterResponse:
        await _refuse_unknown(request, context)
        return await cluster_calls.cluster(self._node)

    async def Basin(self, request: pb.BasinRequest, context: Context) -> pb.BasinResponse:
        await _refuse_unknown(request, context)
        return await _told(cluster_calls.group(self._node, request), context)

    async def ClusterLeaders(
        self, request: pb.LeadersRequest, context: Context
    ) -> pb.LeadersResponse:
        await _refuse_unknown(request, context)
        await _check_limit(request, context)
        limit = request.limit or views.GROUPS_MAX
        return await cluster_calls.leaders(self._node, request.start_after, limit)

    async def TransferLeader(
        self, request: pb.TransferLeaderRequest, context: Context
    ) -> pb.TransferLeaderResponse:
        await _refuse_unknown(request, context)
        log.info(
            "lead_transfer_asked",
            basin=request.basin,
            group=request.group_id,
            to_node=request.to,
            peer=context.peer(),
        )
        return await _told(cluster_calls.transfer(self._node, request), context)

    async def BalanceLeaders(
        self, request: pb.BalanceLeadersRequest, context: Context
    ) -> pb.BalanceLeadersResponse:
        await _refuse_unknown(request, context)
        if not request.dry_run:
            log.info("lead_balance_asked", peer=context.peer())
        return await _told(cluster_calls.balance(self._node, dry_run=request.dry_run), context)

    async def MoveBasin(
        self, request: pb.MoveBasinRequest, context: Context
    ) -> pb.MoveBasinResponse:
        await _refuse_unknown(request, context)
        answer = await _told(moved_basins.move(self._node, request), context)
        log.info(
            "basin_move_asked" if request.to else "basin_move_given_up",
            basin=CATALOG_NAME if request.catalog else request.basin,
            to=list(request.to),
            reason=request.reason,
            peer=context.peer(),
        )
        return answer

    async def FreezeBasin(
        self, request: pb.FreezeBasinRequest, context: Context
    ) -> pb.FreezeBasinResponse:
        await _refuse_unknown(request, context)
        answer = await _told(frozen_basins.freeze(self._node, request), context)
        log.info(
            "basin_frozen" if request.reason else "basin_thawed",
            basin=request.basin,
            reason=request.reason,
            peer=context.peer(),
        )
        return answer

    async def DrainNode(
        self, request: pb.DrainNodeRequest, context: Context
    ) -> pb.DrainNodeResponse:
        await _refuse_unknown(request, context)
        answer = await _told(node_drains.drain_node(self._node, request), context)
        if request.verb != "status":
            log.info(
                "node_drain_asked",
                verb=request.verb,
                drained_node=request.node_id,
                force=request.force,
                peer=context.peer(),
            )
        return answer

    async def PlanPlacement(
        self, request: pb.PlanPlacementRequest, context: Context
    ) -> pb.PlanPlacementResponse:
        await _refuse_unknown(request, context)
        if request.carry_out:
            log.info("rebalance_asked", peer=context.peer())
        return await _told(placement_plans.plan_placement(self._node, request), context)


async def _check_limit(request: pb.LeadersRequest, context: Context) -> None:
    if request.limit > views.GROUPS_MAX:
        await context.abort(
            grpc.StatusCode.INVALID_ARGUMENT,
            f"limit is {request.limit}: use 1 to {views.GROUPS_MAX}",
        )


async def _told(answer: Awaitable[Answer], context: Context) -> Answer:
    try:
        return await answer
    except RefusedCallError as refusal:
        await context.abort(refusal.code, str(refusal))
        raise


async def _refuse_unknown(request: Message, context: Context) -> None:
    """A caller of a later release must not believe that what it asked for was done."""
    if len(UnknownFieldSet(request)):
        await context.abort(
            grpc.StatusCode.INVALID_ARGUMENT,
            "the request has fields that this release does not know; nothing was done",
        )
