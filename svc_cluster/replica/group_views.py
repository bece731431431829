"""What a node has of one group, for an operator who looks at all of its replicas."""

from __future__ import annotations

from typing import Final

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import GroupId
from svc_cluster.replica.basin import BasinReplica
from svc_cluster.replica.host import Host
from svc_cluster.replica.repeatable import Fill, Operation

REASON_CHARACTERS_MAX: Final = 400


class GroupViews:
    """The operation `view_group` of a node."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.operations: dict[str, Operation] = {"view_group": self._view}

    async def _view(self, request: pb.Request) -> Fill:
        told = view(self._host, GroupId(request.group_id))
        return lambda response: response.group_view.CopyFrom(told)


def view(host: Host, group_id: GroupId) -> pb.GroupView:
    """Without a role where there is no replica here."""
    replica = host.replica(group_id)
    if replica is None:
        unopened = host.held_groups.why_unopened(group_id)
        return pb.GroupView(
            role="stopped" if unopened else "", reason=unopened[:REASON_CHARACTERS_MAX]
        )
    group = replica.group
    engine = group.engine
    held = "stopped" if group.fault else "parked" if group.parked else ""
    told = pb.GroupView(
        role=held or engine.role.value,
        reason=(group.fault or group.parked or "")[:REASON_CHARACTERS_MAX],
        term=engine.term,
        leader=engine.leader or 0,
        commit_index=engine.commit_index,
        applied_index=group.applied_index,
        last_index=engine.last_index,
        base_index=engine.base_index,
        log_bytes=engine.log_bytes,
        digest=group.machine.digest,
        recovering=bool(engine.recovery),
    )
    if isinstance(replica, BasinReplica) and replica.state.basin is not None:
        told.frozen = replica.state.basin.frozen
    changes = host.changes
    told.change_waits = changes.reasons.get(group_id) or changes.ended.get(group_id, "")
    if isinstance(replica, BasinReplica) and (reading := replica.state.usage.reading) is not None:
        told.streams, told.stored_bytes = reading[1].streams, reading[1].stored_bytes
    return told
