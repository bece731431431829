"""What a node tells of itself to a gateway, for people who look at the cluster as a whole.

It is read off this node as it stands: nothing is asked of others, and nothing is linearizable.
"""

from __future__ import annotations

import asyncio
from heapq import nsmallest
from typing import Final

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import CATALOG_GROUP
from svc_cluster.model.versions import NEWEST, release_of
from svc_cluster.raft.group import Role
from svc_cluster.replica.host import Host, Replica
from svc_cluster.replica.lost_replicas import is_lost_for_good
from svc_cluster.replica.repeatable import Fill, Operation

LEADS_MAX: Final = 1000
"""Names of basins in one answer, about 50 KiB of them."""
GATEWAYS_TOLD_MAX: Final = 1000
"""Gateways in one answer, those that speak the least first."""
GROUPS_PER_TURN: Final = 256
"""Groups looked at before others have the event loop: well below a millisecond."""


class Overview:
    """The operation `overview` of a node."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.operations: dict[str, Operation] = {"overview": self._overview}

    async def _overview(self, request: pb.Request) -> Fill:
        asked = request.overview
        host = self._host
        wal = host.services.wal
        told = pb.NodeOverview(
            node_id=host.services.node_id,
            version=release_of(NEWEST),
            draining=host.draining,
            wal_bytes=wal.size_bytes,
            free_bytes=wal.free_bytes,
            takes_appends=wal.has_space(),
            avoids_leads=host.avoids_leads(),
            peers_up=sorted(host.news.peers_up),
        )
        now = host.services.clock.monotonic()
        for node_id, asks in host.asking().items():
            told.asking.add(
                node_id=node_id,
                incarnation=asks.incarnation,
                seconds=max(0.0, now - asks.heard_at),
                now=asks.is_now,
                newest=asks.newest,
            )
        led: list[str] = []
        if not asked.without_groups:
            await self._count_all(told, led)
        if not asked.without_lists:
            told.leads.extend(sorted(led)[:LEADS_MAX])
            await self._tell_more(told)
        return lambda response: response.overview.CopyFrom(told)

    async def _tell_more(self, told: pb.NodeOverview) -> None:
        """Adds what is dear and what is long."""
        host = self._host
        told.memory_bytes = host.memory.held_beside({"log": await self._log_bytes()})
        told.memory_bytes_max = host.memory.bytes_max
        told.gateways.extend(
            pb.TalkingGateway(process=process, newest=newest)
            for newest, process in nsmallest(
                GATEWAYS_TOLD_MAX,
                ((newest, process) for process, newest in host.services.version.gateways),
            )
        )

    async def _log_bytes(self) -> int:
        """Return what the logs of all groups hold in memory, some groups a turn."""
        log_bytes = 0
        for number, replica in enumerate(self._host.replicas(), start=1):
            log_bytes += replica.group.engine.log_bytes
            if number % GROUPS_PER_TURN == 0:
                await asyncio.sleep(0)
        return log_bytes

    async def _count_all(self, told: pb.NodeOverview, led: list[str]) -> None:
        """One look at each group serves the counts and the checks, some groups a turn."""
        host = self._host
        ready = host.readiness_look()
        told.groups_held = len(host.held_groups.unopened)
        for number, replica in enumerate(host.replicas()):
            if number % GROUPS_PER_TURN == GROUPS_PER_TURN - 1:
                await asyncio.sleep(0)
            ready.look_at(replica)
            self._count(told, replica, led)
        told.failed_checks.extend(name for name, passed in ready.checks().items() if not passed)

    def _count(self, told: pb.NodeOverview, replica: Replica, led: list[str]) -> None:
        group = replica.group
        told.groups += 1
        told.groups_held += bool(group.fault or group.parked)
        if group.stopped:
            return
        engine = group.engine
        record = self._host.rows.trusted_record(group.group_id)
        if is_lost_for_good(group, record, self._host.services.node_id):
            told.groups_lost += 1
            return
        told.groups_recovering += bool(engine.recovery)
        behind = engine.commit_index - group.applied_index
        told.lag_entries = max(told.lag_entries, behind, 0)
        if engine.leader is None:
            told.groups_without_leader += 1
        if engine.role is Role.LEADER:
            told.groups_led += 1
            name = "" if group.group_id == CATALOG_GROUP else self._name_of(replica)
            if name is not None:
                led.append(name)

    def _name_of(self, replica: Replica) -> str | None:
        """None where this node does not know the basin yet, or any more."""
        catalog = self._host.catalog
        known = None if catalog is None else catalog.state.basins_by_group
        record = None if known is None else known.get(replica.group.group_id)
        return None if record is None else record.name
