"""How the state of a replica on this node is replaced by a snapshot, whose parts are all here."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from svc_cluster.base.ids import Generation, GroupId, LogIndex, NodeId, Term
from svc_cluster.base.log_ops import InstallSnapshot, SetHardState, installed_log
from svc_cluster.raft.engine import EngineGroup
from svc_cluster.replica.callbacks import settle
from svc_cluster.replica.group_replica import AnyGroup

if TYPE_CHECKING:
    from svc_cluster.replica.host import Host


class SnapshotInstalls:
    """The installs of one node, and how many there were."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.installed = 0
        self.repaired = 0
        """Recovering replicas that were made whole in this process."""

    async def install(
        self,
        group_id: GroupId,
        log_index: LogIndex,
        term: Term,
        generation: Generation,
        sender: NodeId,
    ) -> None:
        """Replace what the replica has by `generation`, which holds what is applied with
        `log_index`; it serves again behind that."""
        host = self._host
        replica = host.replica(group_id)
        assert replica is not None, "checked by the receiver in this turn of the loop"
        group: AnyGroup = replica.group
        group.drain_now()
        members, recovery = group.engine.members, group.engine.recovery
        # of who is no member, or begun by a seal, the log says what it is
        is_first = group.engine.configuration is None and isinstance(group.engine, EngineGroup)
        # a recovering replica may have forgotten a vote: it has none left in this term
        voted_for = group.voted_for or (group.engine.leader if recovery else None)
        hard_state = SetHardState(group.engine.term, voted_for)
        installed = InstallSnapshot(log_index, term, generation)
        old_generation = group.generation
        # frozen: nothing of the old engine may follow the frame that replaces it
        replica.stop()
        durable: asyncio.Future[None] = host.services.loop.create_future()
        host.services.wal.append(
            group_id,
            [hard_state, installed],
            partial(settle, durable, None),
        )
        await durable
        if host.is_stopped:
            return  # the next start finds the frame
        if host.replica(group_id) is not replica:
            # destroyed meanwhile, and with it what it had before
            host.generations.discard(generation)
            return
        log = installed_log(group_id, installed, hard_state, group.engine.configuration)
        host.open_installed(log, members if is_first else None)
        host.generations.discard(old_generation)
        host.on_copied(group_id, sender)
        self.installed += 1
        line = host.services.log_of(group_id)
        line.info("snapshot_installed", log_index=log_index)
        if recovery:
            self.repaired += 1
            line.info("replica_repaired", log_index=log_index)
