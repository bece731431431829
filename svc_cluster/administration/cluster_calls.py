"""What an administrator asks of the cluster as a whole, gathered by the node that is asked."""

from __future__ import annotations

import asyncio
from heapq import nsmallest
from typing import Final

import grpc

from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
from svc_cluster._pb.cluster.v1 import replica_pb2 as rpc
from svc_cluster.administration import catalog_calls
from svc_cluster.administration.catalog_calls import RefusedCallError
from svc_cluster.administration.cluster_health import outstanding, problems
from svc_cluster.administration.views import GROUPS_MAX
from svc_cluster.base.ids import CATALOG_GROUP, GroupId, NodeId
from svc_cluster.catalog.basin_record import BasinRecord
from svc_cluster.catalog.group_change import GroupRow
from svc_cluster.catalog.node_drain import drain_left
from svc_cluster.replica.leadership_news import CATALOG_NAME
from svc_cluster.replica.node import ReplicaNode
from svc_cluster.replica.node_questions import leaders_of_all, members_of, overviews

TAKEN_SECONDS: Final = 2.0
"""How long is waited until it is known who leads behind a hand-over."""
LOOK_SECONDS: Final = 0.02


async def cluster(node: ReplicaNode) -> pb.ClusterResponse:
    """Everything, as far as anybody answers."""
    nodes = node.roster.nodes
    seen, version = await asyncio.gather(overviews(node.host.ask_any, nodes), _version(node))
    catalog = node.host.catalog
    standings = node.peers()
    out = pb.ClusterResponse(
        cluster_id=node.config.cluster_id,
        asked_node=node.config.node_id,
        catalog_leader=0 if catalog is None else catalog.group.engine.leader or 0,
        active_version=version.active,
        newest_version=version.newest,
        basins=0 if catalog is None else len(catalog.state.basins),
    )
    for number in nodes:
        row = out.nodes.add(
            node_id=number,
            address=node.roster.address(number),
            standing=standings.get(number, "up"),
        )
        if number in seen:
            _fill_node(row, seen[number])
        left = None if catalog is None else drain_left(catalog.state, number)
        if left is not None:
            row.state = left.state.name.lower()
            row.replicas = left.replicas
            row.holds_catalog = number in members_of(node.host, CATALOG_GROUP)
    out.problems.extend(problems(out))
    out.outstanding.extend(outstanding(out))
    return out


async def _version(node: ReplicaNode) -> pb.VersionResponse:
    try:
        return await catalog_calls.version(node)
    except RefusedCallError:
        return pb.VersionResponse()  # nobody leads the catalog, which is told beside it


def _fill_node(row: pb.ClusterNode, told: rpc.NodeOverview) -> None:
    row.release = told.version
    row.groups = told.groups
    row.groups_led = told.groups_led
    row.groups_without_leader = told.groups_without_leader
    row.groups_held = told.groups_held
    row.groups_recovering = told.groups_recovering
    row.groups_lost = told.groups_lost
    row.lag_entries = told.lag_entries
    row.draining = told.draining
    row.avoids_leads = told.avoids_leads
    row.wal_bytes = told.wal_bytes
    row.free_bytes = told.free_bytes
    row.takes_appends = told.takes_appends
    row.memory_bytes = told.memory_bytes
    row.memory_bytes_max = told.memory_bytes_max
    row.failed_checks.extend(told.failed_checks)


async def group(node: ReplicaNode, request: pb.BasinRequest) -> pb.BasinResponse:
    """What `basin` tells, or the same of the catalog's own group. Raises RefusedCallError."""
    if not request.catalog:
        return await basin(node, request.basin)
    catalog = node.host.catalog
    if catalog is None:
        raise RefusedCallError(catalog_calls.NOT_NOW, "the node has no catalog yet")
    return await _group(node, CATALOG_NAME, catalog.own_group)


async def basin(node: ReplicaNode, name: str) -> pb.BasinResponse:
    """Raises RefusedCallError."""
    return await _group(node, name, find_basin(node, name))


async def _group(node: ReplicaNode, name: str, record: GroupRow) -> pb.BasinResponse:
    views = await asyncio.gather(
        *(_replica(node, record.group_id, member) for member in sorted(record.replicas))
    )
    rows = [row for row, _ in views]
    out = pb.BasinResponse(
        basin=name,
        group_id=record.group_id,
        replicas=rows,
        diverged=_diverged(rows),
        deleted=record.deleted_at_ms is not None,
    )
    leading = next((row for row in rows if row.role == "leader"), pb.BasinReplica())
    out.leader, out.frozen = leading.node_id, leading.frozen
    out.configuration = record.configuration
    if record.change is not None:
        out.move.to.extend(record.change.replicas)
        out.move.reason = record.change.reason
        out.move.sealing = bool(record.change.sealing_term)
        out.move.given_up = record.change.is_cancelled
    told = next((waits for _, waits in views if waits), "")
    if record.change is not None:
        out.move.waits = told
    else:
        out.last_move = told
    return out


def _diverged(rows: list[pb.BasinReplica]) -> bool:
    """Replicas that have applied the same log have the same digest; one that is being made whole
    is not asked."""
    whole = [row for row in rows if row.digest and not row.recovering]
    by_index = {(row.applied_index, row.digest) for row in whole}
    return len({index for index, _ in by_index}) < len(by_index)


async def _replica(
    node: ReplicaNode, group_id: GroupId, member: NodeId
) -> tuple[pb.BasinReplica, str]:
    """The replica, and why its members are not changed yet."""
    response = await node.host.ask_any(
        member, lambda request: request.view_group.SetInParent(), group_id
    )
    if response is None or response.WhichOneof("result") != "group_view":
        return pb.BasinReplica(node_id=member, role="absent"), ""
    told = response.group_view
    if not told.applied_index and not told.term:
        return pb.BasinReplica(node_id=member, role=told.role or "none", reason=told.reason), ""
    row = pb.BasinReplica(
        node_id=member,
        role=told.role,
        reason=told.reason,
        term=told.term,
        commit_index=told.commit_index,
        applied_index=told.applied_index,
        last_index=told.last_index,
        base_index=told.base_index,
        log_bytes=told.log_bytes,
        digest=f"{told.digest:016x}",
        recovering=told.recovering,
        streams=told.streams,
        stored_bytes=told.stored_bytes,
        frozen=told.frozen,
    )
    return row, told.change_waits


async def leaders(node: ReplicaNode, start_after: int, limit: int) -> pb.LeadersResponse:
    """The `limit` is 1 to GROUPS_MAX. Terms and roles are told by `Leaders` of each node."""
    catalog = node.host.catalog
    known = {} if catalog is None else catalog.state.basins_by_group
    groups = [group for group in (CATALOG_GROUP, *known) if group > start_after]
    page = nsmallest(limit, groups)
    by_group = (await leaders_of_all(node.host.ask_any, node.roster.nodes)).leaders
    return pb.LeadersResponse(
        groups=[
            pb.GroupLeader(
                group_id=group,
                basin=known[group].name if group in known else "",
                leader=by_group.get(group, 0),
                members=sorted(members_of(node.host, group)),
            )
            for group in page
        ],
        has_more=len(groups) > len(page),
    )


async def transfer(
    node: ReplicaNode, request: pb.TransferLeaderRequest
) -> pb.TransferLeaderResponse:
    """Raises RefusedCallError."""
    group_id = GroupId(request.group_id)
    if request.basin:
        group_id = find_basin(node, request.basin).group_id
    members = sorted(members_of(node.host, group_id))
    if not members:
        raise RefusedCallError(grpc.StatusCode.FAILED_PRECONDITION, "there is no such group")
    if request.to and request.to not in members:
        raise RefusedCallError(
            grpc.StatusCode.FAILED_PRECONDITION,
            f"node {request.to} has no replica of it: its members are {members}",
        )
    giver = await find_leader(node, group_id, members, other_than=0)
    if giver == request.to:
        return pb.TransferLeaderResponse(group_id=group_id, from_node=giver, leader=giver)

    def fill(asked: rpc.Request) -> None:
        asked.give_lead.to = request.to

    response = await node.host.ask_any(giver, fill, group_id)
    if response is None or response.WhichOneof("result") != "done":
        said = "it does not answer" if response is None else response.refusal.message
        raise RefusedCallError(
            grpc.StatusCode.ABORTED, f"node {giver} has not given the lead away: {said}"
        )
    leader = await find_leader(node, group_id, members, other_than=giver)
    return pb.TransferLeaderResponse(group_id=group_id, from_node=giver, leader=leader)


async def find_leader(
    node: ReplicaNode, group_id: GroupId, members: list[NodeId], *, other_than: NodeId | int
) -> NodeId:
    """Who leads a group, or comes to within TAKEN_SECONDS. Raises RefusedCallError."""
    clock = node.services.clock
    until = clock.monotonic() + TAKEN_SECONDS
    while True:
        views = await asyncio.gather(*(_replica(node, group_id, member) for member in members))
        leading = [row for row, _ in views if row.role == "leader" and row.node_id != other_than]
        if leading:
            return NodeId(max(leading, key=lambda row: row.term).node_id)
        if clock.monotonic() >= until:
            raise RefusedCallError(grpc.StatusCode.ABORTED, "nobody leads the group now: ask again")
        await asyncio.sleep(LOOK_SECONDS)


async def balance(node: ReplicaNode, *, dry_run: bool) -> pb.BalanceLeadersResponse:
    """Raises RefusedCallError."""

    def fill(request: rpc.Request) -> None:
        request.balance_leads.dry_run = dry_run

    told = (await catalog_calls.ask(node, fill)).lead_balance
    catalog = node.host.catalog
    known = {} if catalog is None else catalog.state.basins_by_group
    return pb.BalanceLeadersResponse(
        counts=[
            pb.LeadCount(node_id=row.node_id, led=row.led, avoids_leads=row.avoids_leads)
            for row in told.counts
        ],
        moves=[
            pb.LeadMove(
                group_id=row.group_id,
                basin=known[GroupId(row.group_id)].name if row.group_id in known else "",
                from_node=row.from_node,
                to_node=row.to_node,
                done=row.done,
            )
            for row in told.moves[:GROUPS_MAX]
        ],
        moved=told.moved,
        has_more=told.has_more,
        without_leader=told.without_leader,
    )


def find_basin(node: ReplicaNode, name: str) -> BasinRecord:
    catalog = node.host.catalog
    record = None if catalog is None else catalog.state.basins.get(name)
    if record is None:
        raise RefusedCallError(
            grpc.StatusCode.FAILED_PRECONDITION, f"node {node.config.node_id} knows no such basin"
        )
    return record
