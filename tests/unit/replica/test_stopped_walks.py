"""Whoever walks over all groups and is stopped meanwhile does nothing to those that are left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.replica.group_walks import GROUPS_PER_TURN, GroupWalks
from svc_cluster.replica.housekeeping import Housekeeper, HousekeepingSettings, _Look
from svc_cluster.replica.leader_handover import SlowDiskWatch, _Score
from svc_cluster.replica.leadership_news import GroupNames

GROUPS = 3 * GROUPS_PER_TURN


class Idle:
    """A replica to which nothing is due, and how often it was looked at."""

    def __init__(self, group_id: int) -> None:
        self.looks = 0
        self._group = SimpleNamespace(
            group_id=GroupId(group_id),
            is_serving=False,
            attempt=lambda _: None,
            rest=SimpleNamespace(asleep=False, look=lambda _: None),
            engine=SimpleNamespace(recovery=False, leader=NodeId(1)),
        )

    @property
    def group(self) -> Any:
        self.looks += 1
        return self._group


def _host(replicas: list[Idle]) -> Any:
    loop = asyncio.get_running_loop()
    faults: list[BaseException] = []
    return SimpleNamespace(
        walks=GroupWalks(loop, faults.append),
        draining=False,
        faults=faults,
        replicas=lambda: replicas,
        basins=dict.fromkeys(range(len(replicas))),
        guarded=lambda callback: callback,
        settings=SimpleNamespace(nodes=[NodeId(1)]),
        is_peer_up=lambda _: True,
        services=SimpleNamespace(
            loop=loop,
            node_id=NodeId(1),
            log=None,
            names=GroupNames(),
            rest=SimpleNamespace(awake=lambda: replicas),
            clock=SimpleNamespace(monotonic=lambda: 0.0),
        ),
    )


def _slow_disk(host: Any) -> Callable[[], Any]:
    watch = SlowDiskWatch(host)
    watch._look()
    return watch.stop


def _housekeeping(host: Any) -> Callable[[], Any]:
    keeper = Housekeeper(host, HousekeepingSettings())
    look = _Look(0.0, is_full=False)
    host.walks.start(host.replicas(), partial(keeper._look_at, look), partial(keeper._looked, look))
    return keeper.stop


@pytest.mark.parametrize("begin", [_slow_disk, _housekeeping])
def test_a_walk_does_nothing_behind_the_stop_of_its_owner(
    begin: Callable[[Any], Callable[[], Any]],
) -> None:
    """The host stops a while later: what is started in between would be waited for by nobody."""

    async def main() -> None:
        replicas = [Idle(number) for number in range(GROUPS)]
        host = _host(replicas)
        stop = begin(host)
        await asyncio.sleep(0)
        seen = [replica.looks for replica in replicas]
        assert all(seen[:GROUPS_PER_TURN])
        assert not any(seen[GROUPS_PER_TURN:]), "one turn has passed"
        stopping = stop()
        if stopping is not None:
            await stopping
        for _ in range(GROUPS):
            await asyncio.sleep(0)
        assert [replica.looks for replica in replicas] == seen
        assert not host.faults

    asyncio.run(main())


def test_of_groups_that_are_gone_no_score_is_kept_beyond_as_many_as_there_are() -> None:
    """A node that has had very many groups, one after the other, keeps what it has."""

    async def main() -> None:
        host = _host([])
        here = {1: object(), 2: object()}
        host.basins, host.replica = here, here.get
        host.services.rest.is_quiet = False
        watch = SlowDiskWatch(host)
        for number in range(1, 4):
            watch._scores[GroupId(number)] = _Score(0.0)
        watch._looked()
        assert sorted(watch._scores) == [1, 2, 3], "as many as groups, and the catalog"
        watch._scores[GroupId(4)] = _Score(0.0)
        watch._looked()
        assert sorted(watch._scores) == [1, 2]
        await watch.stop()

    asyncio.run(main())
