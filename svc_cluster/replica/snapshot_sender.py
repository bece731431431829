"""Snapshots that leave a node: to whom, how many at a time, and what follows when one arrived."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.base.memory import MemoryPart
from svc_cluster.base.tasks import Tasks
from svc_cluster.link.features import PIECES
from svc_cluster.raft.group import PeerInstalled
from svc_cluster.replica.group_replica import AnyGroup
from svc_cluster.replica.group_services import GroupServices
from svc_cluster.replica.snapshot_reader import SnapshotDamagedError
from svc_cluster.replica.snapshot_stream import SnapshotRefusedError, send_snapshot
from svc_cluster.replica.transfers import LogHolds, SnapshotPace, TransferQueue

SNAPSHOT_RETRY_SECONDS: Final = 1.0


class SnapshotTransport(Protocol):
    """How snapshot chunks reach another node."""

    async def call(self, peer: NodeId, chunk: bytes) -> bytes:
        """Deliver one chunk and return the reply. Raises ConnectionError."""
        ...


class SnapshotSender:
    """Transfers from this node: few at a time, at most one for each group and peer."""

    def __init__(
        self,
        services: GroupServices,
        transport: SnapshotTransport,
        group: Callable[[GroupId], AnyGroup | None],
        rng: random.Random,
        tasks: Tasks,
        pieces: MemoryPart,
    ) -> None:
        """`pieces`: room for what is on its way."""
        self._pieces = pieces
        self._services = services
        self._transport = transport
        self._group = group
        self._rng = rng
        self._tasks = tasks
        self._queue = TransferQueue()
        self._pace = SnapshotPace(services.clock, lambda: services.wal.unsynced_bytes > 0)
        self.holds = LogHolds()
        self.sent = 0
        self.not_sent = 0
        """Transfers that came to nothing."""

    @property
    def running(self) -> int:
        """Transfers under way."""
        return self._queue.running

    def wanted(self, group_id: GroupId, peer: NodeId) -> None:
        """A group led here has a peer that only a snapshot can help; may be repeated."""
        self._queue.ask((group_id, peer))
        self._begin_next()

    def _begin_next(self) -> None:
        while (transfer := self._queue.begin()) is not None:
            self._tasks.spawn(self._run(*transfer), "send snapshot")

    async def _run(self, group_id: GroupId, peer: NodeId) -> None:
        try:
            is_refused = await self._send(group_id, peer)
        finally:
            self._queue.ended((group_id, peer))
        self._begin_next()
        if is_refused:
            await asyncio.sleep(SNAPSHOT_RETRY_SECONDS)
        self._queue.forget((group_id, peer))

    async def _send(self, group_id: GroupId, peer: NodeId) -> bool:
        """Whether the transfer was broken off: the next attempt is then not made at once."""
        log = self._services.log_of(group_id)
        is_sent = False
        group = self._group(group_id)
        try:
            # a leader that serves nothing yet may need this very peer for its quorum; what it has
            # applied is committed all the same
            if group is None or group.stopped or not group.engine.can_propose:
                return False
            repair = group.engine.repair_of(peer)
            if repair is not None and (
                not repair.confirmed or group.applied_index < repair.least_index
            ):
                return False  # the peer goes on asking
            now = self._services.clock.monotonic()
            self.holds.begin(group_id, peer, group.applied_index, now)
            sent = await send_snapshot(
                group,
                self._services,
                self._rng.getrandbits(63),
                partial(self._transport.call, peer),
                self._pieces,
                self._pace,
                by_pieces=self._services.peers.names(PIECES, peer),
                recovery=0 if repair is None else repair.recovery,
            )
            log.info("snapshot_sent", peer=peer, **sent._asdict())
            is_sent = True
            self.sent += 1
            self._services.figures.on_snapshot_sent(self._services.clock.monotonic() - now)
            if peer in group.engine.members:
                group.step(PeerInstalled(peer, sent.log_index))
        except SnapshotDamagedError as damage:
            self.not_sent += 1
            log.info("snapshot_not_sent", peer=peer, cause=str(damage))
            assert group is not None, "its state was looked at"
            group.on_diverged(str(damage))
            return True
        except (SnapshotRefusedError, ConnectionError) as cause:
            self.not_sent += 1
            log.info("snapshot_not_sent", peer=peer, cause=str(cause))
            return True
        finally:
            if is_sent:
                self.holds.sent(group_id, peer)
            else:
                self.holds.release(group_id, peer)
        return False
