"""What the log forgets is in the flushed state."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from svc_cluster.base.ids import GroupId, LogIndex
from tests.linearizability.history import Outcome
from tests.simulation.cluster import SimCluster, in_simulation
from tests.simulation.node import SimNode
from tests.simulation.options import Options

OPTIONS = Options(gateways=1, http=False, basins=1, streams=1, tick_seconds=0.05, flush_seconds=0.5)
APPENDS = 40


class Watch:
    """What one node's replicas had applied when its flush began, and what its log was told."""

    def __init__(self, node: SimNode) -> None:
        assert node.node is not None
        self.host = node.node.host
        self.at_begin: dict[GroupId, LogIndex] = {}
        self.flushes = self.moved = 0
        services = self.host.services
        self._flush, self._set_flushed = services.store.flush, services.wal.set_flushed
        services.store.flush = self.flush  # type: ignore[method-assign]
        services.wal.set_flushed = self.set_flushed  # type: ignore[method-assign]

    def _applied(self) -> dict[GroupId, LogIndex]:
        return {one.group.group_id: one.group.applied_index for one in self.host.replicas()}

    def flush(self, done: Callable[[], None]) -> None:
        self.at_begin = self._applied()
        self.flushes += 1
        self._flush(done)

    def set_flushed(self, group: GroupId, applied_index: LogIndex) -> None:
        if self.flushes:  # one may have begun before anybody watched
            self.moved += self._applied()[group] > self.at_begin[group]
            assert applied_index <= self.at_begin[group], "only this much is surely flushed"
        self._set_flushed(group, applied_index)


async def _append_through_flushes(cluster: SimCluster) -> list[Watch]:
    watch = cluster.start()
    await cluster.guarded(cluster.set_up(), watch)
    watches = [Watch(node) for node in cluster.nodes]
    rng = random.Random(cluster.seed)
    history, client = cluster.recorder.streams[0], cluster.recorder.new_client()

    async def append() -> None:
        done = 0
        while done < APPENDS:
            items = cluster.recorder.items(rng, client, 3, 500)
            answer = await cluster.recorder.append(cluster.apis[0], history, client, items)
            done += answer.outcome is Outcome.OK
            await asyncio.sleep(0.02)

    await cluster.guarded(append(), watch)
    watch.cancel()
    assert not cluster.errors
    return watches


def test_the_log_is_told_of_what_was_applied_before_the_flush_began() -> None:
    """Entries that are applied while a flush is under way may not be in it: the log keeps them."""
    watches = in_simulation(1, OPTIONS, _append_through_flushes)
    assert sum(watch.flushes for watch in watches) >= 6
    assert sum(watch.moved for watch in watches) >= 3, "entries were applied during flushes"
