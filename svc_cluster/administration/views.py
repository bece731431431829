"""What one node says of itself to an administrator: read off it, nothing is asked of others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
from svc_cluster._pb.cluster.v1 import replica_pb2 as rpc
from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.catalog.node_rows import NodeRecord
from svc_cluster.replica.host import Host, Replica
from svc_cluster.replica.leader_handover import is_led, leads
from svc_cluster.replica.node import ReplicaNode

GROUPS_MAX: Final = 1000
"""The largest number of groups in one answer."""
HELD_MAX: Final = 100
REASON_CHARACTERS_MAX: Final = 400


@dataclass(frozen=True, slots=True)
class Space:
    """This is the space of the file system that a data directory is on, in bytes."""

    free_bytes: int
    capacity_bytes: int


@dataclass(frozen=True, slots=True)
class Build:
    """What runs here; `revision` is empty where it is not known."""

    version: str
    revision: str


def status(
    node: ReplicaNode, build: Build, space: Callable[[], Space], uptime_seconds: float
) -> pb.StatusResponse:
    checks = node.readiness()
    held = node.host.held()
    replicas = node.host.replicas()
    on_disk = space()
    return pb.StatusResponse(
        cluster_id=node.config.cluster_id,
        node_id=node.config.node_id,
        incarnation=node.identity.incarnation,
        version=build.version,
        revision=build.revision,
        uptime_seconds=uptime_seconds,
        ready=all(checks.values()),
        checks=[pb.Check(name=name, passed=passed) for name, passed in checks.items()],
        waits_for=node.why_not_formed() or "",
        draining=node.host.draining,
        groups=len(replicas),
        groups_led=sum(map(is_led, replicas)),
        held=[
            pb.HeldGroup(
                group_id=row.group_id,
                basin=row.basin,
                state=row.state,
                reason=row.reason[:REASON_CHARACTERS_MAX],
            )
            for row in held[:HELD_MAX]
        ],
        held_count=len(held),
        storage=pb.Storage(
            wal_bytes=node.wal.size_bytes,
            free_bytes=on_disk.free_bytes,
            capacity_bytes=on_disk.capacity_bytes,
            takes_appends=node.wal.has_space(),
        ),
    )


def members(node: ReplicaNode) -> pb.MembersResponse:
    catalog = node.host.catalog
    known = {} if catalog is None else dict(catalog.state.nodes)
    return pb.MembersResponse(
        members=[
            _member(node, member, known.get(member))
            for member in sorted({*node.roster.nodes, *known})
        ]
    )


def _member(node: ReplicaNode, member: NodeId, known: NodeRecord | None) -> pb.Member:
    asks = node.former.asking().get(member)
    out = pb.Member(
        node_id=member,
        address=node.roster.address(member),
        standing="self" if member == node.config.node_id else node.standing(member),
        asks=asks is not None and asks.is_now,
    )
    if known is not None:
        facts = known.facts
        out.incarnation = known.incarnation
        out.ordinal, out.replacing = known.ordinal, known.is_replacing
        out.state = known.state.name.lower()
        out.host, out.zone, out.admin_address = facts.host, facts.zone, facts.admin_address
    return out


def replaced(found: rpc.Replacement) -> pb.ReplaceMemberResponse:
    return pb.ReplaceMemberResponse(
        ordinal=found.ordinal,
        incarnation=found.incarnation,
        lost_basins=found.lost_basins,
        lost_basins_count=found.lost_basins_count,
        refused=found.refused,
    )


def leaders(node: ReplicaNode, start_after: int, limit: int) -> pb.LeadersResponse:
    """The `limit` is 1 to GROUPS_MAX."""
    states = {row.group_id: row.state for row in node.host.held()}
    behind = sorted(
        (replica for replica in node.host.replicas() if replica.group.group_id > start_after),
        key=lambda replica: replica.group.group_id,
    )
    return pb.LeadersResponse(
        groups=[_row(node.host, replica, states) for replica in islice(behind, limit)],
        has_more=len(behind) > limit,
    )


def led_by_choice(host: Host) -> set[GroupId]:
    """Groups that are led here and that somebody else could lead."""
    return {replica.group.group_id for replica in host.replicas() if leads(replica)}


def rows(host: Host, groups: set[GroupId]) -> list[pb.GroupLeader]:
    """Return the rows of the first GROUPS_MAX of these groups."""
    found = (host.replica(group) for group in sorted(groups)[:GROUPS_MAX])
    return [_row(host, replica, {}) for replica in found if replica is not None]


def _row(host: Host, replica: Replica, states: dict[GroupId, str]) -> pb.GroupLeader:
    group = replica.group
    engine = group.engine
    known = None if host.catalog is None else host.catalog.state.basins_by_group
    record = None if known is None else known.get(group.group_id)
    return pb.GroupLeader(
        group_id=group.group_id,
        basin="" if record is None else record.name,
        leader=engine.leader or 0,
        term=engine.term,
        role=states.get(group.group_id, engine.role.value),
        members=sorted(engine.members),
    )
