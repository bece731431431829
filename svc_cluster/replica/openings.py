"""What kind of replica is made of a log: a member with an engine, or one that learns."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from svc_cluster.base.configuration import first_configuration
from svc_cluster.base.ids import LogIndex, NodeId
from svc_cluster.base.log_ops import RecoveredLog
from svc_cluster.catalog.basin_record import BasinRecord
from svc_cluster.raft.engine import EngineGroup
from svc_cluster.raft.group import RaftGroup
from svc_cluster.raft.learner_group import LearnerGroup
from svc_cluster.raft.raft_settings import RaftSettings


def made_engine(
    node_id: NodeId,
    first_nodes: Sequence[NodeId] | None,
    log: RecoveredLog,
    applied_index: LogIndex,
    rng: random.Random,
    settings: RaftSettings,
    has_room: Callable[[NodeId], bool],
) -> RaftGroup:
    """Make the replica of a log. `first_nodes`: the members of configuration 0; None: they are not
    known any more, because the group has later ones."""
    # either the store was lost and what led to its state is no longer in the log, or the end of
    # the log was lost
    if not log.base_index <= applied_index <= log.last_index:
        log = replace(log, damaged=True)
    if log.configuration is None and (first_nodes is None or node_id not in first_nodes):
        if first_nodes is None or log.damaged:
            # it may have been a member of what has ended, and says nothing before it is told of a
            # later one: what was never decided there must not pass for what is
            log = decided(log, applied_index)
        if first_nodes is not None:
            log = replace(log, configuration=first_configuration(first_nodes))
    known = log.configuration
    nodes = first_nodes if known is None else known.nodes
    if nodes is None or node_id not in nodes:
        return LearnerGroup(
            node_id=node_id, recovered=log, applied_index=applied_index, settings=settings
        )
    return EngineGroup(
        group_id=log.group_id,
        node_id=node_id,
        members=nodes,
        recovered=log,
        applied_index=applied_index,
        rng=rng,
        settings=settings,
        has_room=has_room,
    )


def decided(log: RecoveredLog, applied_index: LogIndex) -> RecoveredLog:
    """Return the log without what is not known to be decided. On the disk it goes with the frame of
    the next configuration."""
    last_index = min(log.last_index, max(log.commit_index, applied_index))
    return replace(log, entries=log.entries[: last_index - log.base_index])


def first_nodes_of(record: BasinRecord) -> tuple[NodeId, ...] | None:
    """The members of a group's configuration 0, as long as the catalog knows no later one."""
    return None if record.configuration else record.replicas


def is_named(record: BasinRecord, node_id: NodeId) -> bool:
    """Whether a replica of the group belongs on the node, or is to."""
    change = record.change
    return node_id in record.replicas or (change is not None and node_id in change.replicas)


def is_over(record: BasinRecord, node_id: NodeId, number: int) -> bool:
    """Whether a replica that is in configuration `number` is of no use any more. The row is of a
    configuration that has begun with a quorum of its own, and that one feeds all others."""
    return not is_named(record, node_id) and number <= record.configuration
