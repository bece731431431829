"""Giving leadership away on purpose: before a planned end, and when the own disk is slow."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from svc_cluster.base.ids import GroupId
from svc_cluster.base.tasks import Tasks
from svc_cluster.raft.engine import EngineGroup
from svc_cluster.replica.host import Host, Replica

ASK_SECONDS: Final = 0.05
"""How often the best follower is asked until it has taken over."""

LOOK_SECONDS: Final = 0.05
SLOW_SECONDS: Final = 2.0
"""A leader whose disk is behind a quorum of the others for this long gives its place away."""

FORGIVENESS: Final = 3.0
"""A look at which the disk is not behind takes back so many looks at which it was."""

TRY_SECONDS: Final = 1.0
"""Longest pause of writes for one attempt; the next comes only after `AGAIN_SECONDS`."""

AGAIN_SECONDS: Final = 30.0


async def hand_over(replica: Replica) -> None:
    """Stop proposing and ask the best follower to lead, until it does; the caller sets a limit.

    Writes wait meanwhile. The follower is asked only when it has the whole log: the library
    refuses a transfer under load, as there is always an entry on its way.
    """
    engine = replica.group.engine
    others = [peer for peer in engine.members if peer != engine.node_id]
    if not others:
        return
    replica.proposer.paused = True
    while replica.group.is_serving:
        best = max(others, key=lambda peer: (engine.match_index(peer), -peer))
        if engine.match_index(best) == engine.last_index:
            replica.group.transfer_leadership(best)
        await asyncio.sleep(ASK_SECONDS)


def is_behind(engine: EngineGroup) -> bool:
    """Whether a quorum of the other replicas has on disk what this one has not yet."""
    quorum = len(engine.members) // 2 + 1
    durable_index = engine.durable_index
    ahead = sum(
        engine.match_index(peer) > durable_index
        for peer in engine.members
        if peer != engine.node_id
    )
    return ahead >= quorum


@dataclass(slots=True)
class _Score:
    looked_at: float
    behind_seconds: float = 0.0
    not_before: float = 0.0


class SlowDiskWatch:
    """Hands leaderships over whose log is held up by this node's disk alone.

    An append waits for the leader's own disk even when a quorum of others has it already. Disks
    that are all as slow are not behind one another, and nothing happens.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._services = host.services
        self._scores: dict[GroupId, _Score] = {}
        self._tasks = Tasks()
        self._handle: asyncio.TimerHandle | None = None
        self.handed_over = 0

    def start(self) -> None:
        self._handle = self._services.loop.call_later(LOOK_SECONDS, self._look)

    async def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        await self._tasks.cancel_all()

    def _look(self) -> None:
        now = self._services.clock.monotonic()
        leading = [replica for replica in self._host.replicas() if replica.group.is_serving]
        groups = {replica.group.group_id for replica in leading}
        self._scores = {group: score for group, score in self._scores.items() if group in groups}
        for replica in leading:
            self._judge(replica, now)
        self._handle = self._services.loop.call_later(LOOK_SECONDS, self._look)

    def _judge(self, replica: Replica, now: float) -> None:
        group = replica.group
        score = self._scores.setdefault(group.group_id, _Score(now))
        passed = now - score.looked_at
        score.looked_at = now
        if not is_behind(group.engine):
            score.behind_seconds = max(0.0, score.behind_seconds - FORGIVENESS * passed)
            return
        # A late look says nothing of the time before it: this process may have been stopped.
        score.behind_seconds += min(passed, 2 * LOOK_SECONDS)
        if score.behind_seconds >= SLOW_SECONDS and now >= score.not_before:
            score.not_before = now + AGAIN_SECONDS
            score.behind_seconds = 0.0
            self._services.log.warning("slow_disk_handover", group=group.group_id)
            self._tasks.spawn(self._give_away(replica), "slow-disk-handover")

    async def _give_away(self, replica: Replica) -> None:
        try:
            async with asyncio.timeout(TRY_SECONDS):
                await hand_over(replica)
            self.handed_over += 1
        except TimeoutError:
            pass  # nobody else can lead now; this node goes on
        finally:
            if not self._host.draining:
                replica.proposer.resume()
