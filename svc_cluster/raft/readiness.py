"""Whether the next members of a group are ready to take over: decided before a seal is proposed.

Behind a seal there is no way back: a configuration whose members lack the log, or that has no
quorum, is stuck as any group without one is. So a seal is proposed only when the next members are
known to be nearly there, and the old members that stay could begin the next configuration alone.

And the copies of who leaves go behind it. So it leaves as many copies as there were, or as many as
there are to be: who comes has to be copied before somebody goes who is there and whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from svc_cluster.base.configuration import Configuration, Members, are_members
from svc_cluster.base.ids import LogIndex, ReplicaId
from svc_cluster.model import versions

LAG_ENTRIES_MAX: Final = 64
"""Entries that a ready member may lack."""

HEARD_SECONDS_MAX: Final = 1.0
"""So long ago at most did a ready member say what it holds."""


COPY_LAG_ENTRIES_MAX: Final = 4096
"""Entries that a copy may lack to count as one: who learns asks now and then, and not at each."""

COPY_SECONDS_MAX: Final = 5.0
"""So long ago at most was it heard of."""


@dataclass(frozen=True, slots=True)
class ReplicaWord:
    """A replica has said of itself that it holds all up to `log_index` durably, and whether it
    recovers. `heard_at`: when it said so, in monotonic seconds."""

    log_index: LogIndex
    heard_at: float
    recovers: bool = False


@dataclass(frozen=True, slots=True)
class Sealing:
    """Everything that the decision needs to know. `held` has this leader itself, too. `there` are
    the members of whose nodes it is not known that they are away."""

    active_version: int
    configuration: Configuration
    next_members: Members
    last_index: LogIndex
    now: float
    held: Mapping[ReplicaId, ReplicaWord]
    there: frozenset[ReplicaId] = frozenset()


def is_ready(view: Sealing, replica_id: ReplicaId) -> bool:
    """Whether a replica holds nearly all, and said so a moment ago."""
    held = view.held.get(replica_id)
    if held is None or held.recovers or view.now - held.heard_at > HEARD_SECONDS_MAX:
        return False
    return held.log_index + LAG_ENTRIES_MAX >= view.last_index


def _is_copy(view: Sealing, replica_id: ReplicaId) -> bool:
    """Whether a replica of the next members has what those have who leave, but for the last."""
    held = view.held.get(replica_id)
    if held is None or held.recovers or view.now - held.heard_at > COPY_SECONDS_MAX:
        return False
    return held.log_index + COPY_LAG_ENTRIES_MAX >= view.last_index


def _has_copy(view: Sealing, replica_id: ReplicaId) -> bool:
    """Whether a member of today may well have a whole copy."""
    held = view.held.get(replica_id)
    return replica_id in view.there and not (held is not None and held.recovers)


def refusal(view: Sealing) -> str | None:
    """Why the configuration cannot be sealed for the next members now; None: it can."""
    if view.active_version < versions.SEALED_CONFIGURATIONS:
        return f"the cluster's active version is {view.active_version}: finalize the upgrade first"
    members = view.next_members
    if not are_members(members):
        return "these cannot be the members of a group"
    if members == view.configuration.members:
        return "these are the members already"
    quorum = len(members) // 2 + 1
    ready = [member for member in members if is_ready(view, member.replica_id)]
    if len(ready) < quorum:
        return f"{len(ready)} of the next {len(members)} members are ready, {quorum} are needed"
    staying = [member for member in ready if view.configuration.includes(member.replica_id)]
    if len(staying) >= quorum:
        return _too_few_copies(view)
    grows_from_one = len(view.configuration.members) == 1 and len(members) == 3
    if grows_from_one and staying and len(ready) == len(members):
        return None
    return f"{len(staying)} of the members that stay are ready, {quorum} are needed"


def _too_few_copies(view: Sealing) -> str | None:
    members = view.next_members
    now = sum(_has_copy(view, member.replica_id) for member in view.configuration.members)
    then = sum(_is_copy(view, member.replica_id) for member in members)
    if then >= min(now, len(members)):
        return None
    return f"{then} of the next {len(members)} members have a copy, and {now} have one today"
