"""The operations of the administrative service, as the stubs call them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import grpc
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
from svc_cluster._pb.cluster.v1 import admin_pb2_grpc
from svc_cluster.administration import views
from svc_cluster.administration.draining import Draining
from svc_cluster.administration.masking import shown
from svc_cluster.administration.views import Build, Space
from svc_cluster.base.log import get_logger
from svc_cluster.replica.node import ReplicaNode

log = get_logger("administration")


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
    ) -> None:
        self._node = node
        self._draining = draining
        self._settings = settings
        self._build = build
        self._space = space
        self._began = node.services.clock.monotonic()

    async def Status(self, request: pb.StatusRequest, context: Any) -> pb.StatusResponse:
        await _refuse_unknown(request, context)
        uptime = self._node.services.clock.monotonic() - self._began
        return views.status(self._node, self._build, self._space, uptime)

    async def Members(self, request: pb.MembersRequest, context: Any) -> pb.MembersResponse:
        await _refuse_unknown(request, context)
        return views.members(self._node)

    async def Leaders(self, request: pb.LeadersRequest, context: Any) -> pb.LeadersResponse:
        await _refuse_unknown(request, context)
        if request.limit > views.GROUPS_MAX:
            await context.abort(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"limit is {request.limit}: use 1 to {views.GROUPS_MAX}",
            )
        return views.leaders(self._node, request.start_after, request.limit or views.GROUPS_MAX)

    async def Drain(self, request: pb.DrainRequest, context: Any) -> pb.DrainResponse:
        await _refuse_unknown(request, context)
        log.info("drain_asked", peer=context.peer())
        return await self._draining.run()

    async def Configuration(
        self, request: pb.ConfigurationRequest, context: Any
    ) -> pb.ConfigurationResponse:
        await _refuse_unknown(request, context)
        return pb.ConfigurationResponse(
            settings=[
                pb.Setting(key=each.key, value=each.value, masked=each.masked)
                for each in shown(self._settings)
            ]
        )


async def _refuse_unknown(request: Message, context: Any) -> None:
    """A caller of a later release must not believe that what it asked for was done."""
    if len(UnknownFieldSet(request)):
        await context.abort(
            grpc.StatusCode.INVALID_ARGUMENT,
            "the request has fields that this release does not know; nothing was done",
        )
