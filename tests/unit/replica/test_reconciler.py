"""Which groups a node looks at behind a change of its catalog."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from svc_cluster.base.ids import GroupId, LogIndex, NodeId
from svc_cluster.replica.group_walks import GroupWalks
from svc_cluster.replica.reconciler import Reconciler
from tests.simulation.loop import run

HERE = [GroupId(7), GroupId(8)]
WANTED = {
    f"basin-{n}": SimpleNamespace(group_id=GroupId(n), replicas=(1,), change=None) for n in (2, 3)
}


class World:
    """A node, which notes what is visited, and its catalog."""

    def __init__(self, loop: Any) -> None:
        self.visited: list[int] = []
        self.whole = 0
        engine = SimpleNamespace(recovery=0)
        self.group = SimpleNamespace(engine=engine, applied_index=LogIndex(5))
        self.catalog: Any = SimpleNamespace(group=self.group, state=SimpleNamespace(basins=WANTED))
        services: Any = SimpleNamespace(
            node_id=NodeId(1),
            loop=loop,
            version=SimpleNamespace(on_active=None),
            wal=SimpleNamespace(destroyed=frozenset),
        )
        self.reconciler = Reconciler(
            services,
            GroupWalks(loop, self.fatal),
            catalog=lambda: self.catalog,
            here=lambda: HERE,
            visit=lambda group_id: self.visited.append(int(group_id)),
            on_whole=self._note_whole,
            on_fatal=self.fatal,
        )
        self.reconciler.known = LogIndex(5)

    def fatal(self, fault: BaseException) -> None:
        raise fault

    def _note_whole(self) -> None:
        self.whole += 1

    async def seen(self) -> list[int]:
        """What was visited since it was asked last."""
        for _ in range(20):
            await asyncio.sleep(0)
        found, self.visited = self.visited, []
        return found


def test_an_entry_has_the_groups_of_its_rows_looked_at_and_no_others() -> None:
    """Several entries of one turn are looked at together, each group once. One that changes no row
    of a basin has nothing looked at."""

    async def main(loop: Any) -> None:
        world = World(loop)
        world.reconciler.run()
        assert await world.seen() == [2, 3, 7, 8]
        world.reconciler.schedule([GroupId(3)])
        world.reconciler.schedule([GroupId(9), GroupId(3)])
        assert await world.seen() == [3, 9]
        world.reconciler.schedule([])
        assert await world.seen() == []
        assert world.whole == 1, "a look at some says nothing of all"

    run(main)


def test_anything_else_has_all_looked_at() -> None:
    """Also what has changed meanwhile; and the first look is at all, whatever it is asked for."""

    async def main(loop: Any) -> None:
        world = World(loop)
        world.reconciler.schedule([GroupId(3)])
        assert await world.seen() == [2, 3, 7, 8]
        world.reconciler.schedule([GroupId(3)])
        world.reconciler.schedule()
        world.reconciler.schedule([GroupId(2)])
        assert await world.seen() == [2, 3, 7, 8]
        assert await world.seen() == []

    run(main)


def test_behind_a_catalog_that_was_damaged_or_is_behind_all_are_looked_at() -> None:
    """Nothing is done by the word of a damaged one; what changed then is found by the next look."""

    async def main(loop: Any) -> None:
        world = World(loop)
        world.reconciler.run()
        await world.seen()
        world.group.engine.recovery = 1
        world.reconciler.schedule([GroupId(3)])
        assert await world.seen() == []
        world.group.engine.recovery = 0
        world.reconciler.schedule([GroupId(2)])
        assert await world.seen() == [2, 3, 7, 8]
        world.group.applied_index = LogIndex(4)
        world.reconciler.schedule([GroupId(2)])
        assert await world.seen() == [2, 3, 7, 8]

    run(main)


def test_what_changes_during_a_look_is_looked_at_behind_it() -> None:
    async def main(loop: Any) -> None:
        world = World(loop)
        world.reconciler.run()
        await world.seen()
        many = [GroupId(n) for n in range(100, 200)]
        world.reconciler.schedule(many)
        await asyncio.sleep(0)
        world.reconciler.schedule([GroupId(150)])
        assert await world.seen() == [*range(100, 200), 150]

    run(main)
