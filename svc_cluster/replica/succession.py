"""How a replica goes from one configuration of its group to the next, on this node."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from svc_cluster.base.configuration import Configuration
from svc_cluster.base.ids import CATALOG_GROUP
from svc_cluster.base.log_ops import RecoveredLog
from svc_cluster.raft.engine import EngineGroup
from svc_cluster.raft.group import Role
from svc_cluster.raft.learner_group import LearnerGroup
from svc_cluster.replica.basin import BasinReplica
from svc_cluster.replica.catalog import CatalogReplica
from svc_cluster.replica.head_starts import standing

if TYPE_CHECKING:
    from svc_cluster.replica.host import Host


class Succession:
    """The ends and beginnings of configurations on one node."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def ended(self, replica: CatalogReplica | BasinReplica, next_one: Configuration) -> None:
        """The configuration of a replica here has ended. Its next one begins when that is on the
        disk: until then the replica says nothing, and nothing of the one before follows."""
        host, group = self._host, replica.group
        engine = group.engine
        assert isinstance(engine, EngineGroup | LearnerGroup), "others have no end"
        led = engine.role is Role.LEADER
        ending = engine.end(next_one)
        replica.stop()
        begin = partial(self._begin_next, replica, ending.recovered, led=led)
        host.services.wal.append(group.group_id, [ending.op], host.guarded(begin))
        host.services.log_of(group.group_id).info(
            "configuration_ended",
            next_configuration=next_one.number,
            members=list(next_one.nodes),
            seal_index=next_one.seal_index,
        )

    def _begin_next(
        self, before: CatalogReplica | BasinReplica, log: RecoveredLog, *, led: bool
    ) -> None:
        host = self._host
        if host.is_stopped or host.replica(log.group_id) is not before:
            return  # the next start finds the frame; or it was destroyed meanwhile
        replica: CatalogReplica | BasinReplica | None
        if log.group_id == CATALOG_GROUP:
            replica = host.open_catalog(log, is_flushed=False)
        else:
            replica = host.open_basin(None, log, is_flushed=False)
        known = log.configuration
        assert known is not None, "it has just begun"
        if replica is not None and (led or known.nodes[0] == host.services.node_id):
            host.head_starts.give(standing(replica.group))
