"""Whether the log and the state store that a restart found belong together."""

from __future__ import annotations

from svc_cluster.base.ids import LogIndex
from svc_cluster.base.log_ops import RecoveredLog
from svc_cluster.raft.group import EngineFault
from svc_cluster.raft.normalise import is_payload


def usable_commit_index(recovered: RecoveredLog, applied_index: LogIndex) -> LogIndex:
    """What is known committed: only committed entries are ever in a state store.

    Raises EngineFault when the store and the log contradict each other, or the log holds entries
    that the engine would look into. A damaged log may end before what is applied, or begin behind
    it: nothing of it is used before a snapshot has replaced it.
    """
    for entry in recovered.entries:
        if not is_payload(entry.payload, len(entry.payload)):
            raise EngineFault(f"entry {entry.log_index} is of no known type")
    if applied_index < recovered.base_index and not recovered.damaged:
        raise EngineFault(
            f"applied up to {applied_index}, but the log begins behind {recovered.base_index}"
        )
    commit_index = max(recovered.commit_index, applied_index)
    if commit_index > recovered.last_index and not recovered.damaged:
        raise EngineFault(
            f"committed up to {commit_index}, but the log ends at {recovered.last_index}"
        )
    return LogIndex(min(commit_index, recovered.last_index))
