"""What one replica says of itself, for a person or a checker that looks in from outside."""

from __future__ import annotations

from typing import Any

from svc_cluster.replica.group_replica import AnyGroup


def probe_row(group: AnyGroup, basin: str | None) -> dict[str, Any]:
    """`basin` is None for the catalog, and where the name is not known."""
    engine = group.engine
    return {
        "group_id": group.group_id,
        "basin": basin,
        "role": engine.role.value,
        "serving": group.is_serving,
        "recovering": bool(engine.recovery),
        "stopped": group.fault,
        "parked": group.parked,
        "term": engine.term,
        "leader": engine.leader,
        "commit_index": engine.commit_index,
        "applied_index": group.applied_index,
        "last_index": engine.last_index,
        "base_index": engine.base_index,
        "durable_index": engine.durable_index,
        "commands_applied_as_leader": group.commands_applied_as_leader,
        "digest": f"{group.machine.digest:016x}",
    }
