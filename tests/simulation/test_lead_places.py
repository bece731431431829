"""What nodes tell of themselves to those that place leads, and who is asked to take one over."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import NodeId
from svc_cluster.raft.group import Role
from svc_cluster.replica.group_replica import GroupReplica
from svc_cluster.replica.host import Replica
from svc_cluster.replica.leader_handover import BACKLOG_ENTRIES_MAX
from svc_cluster.replica.node_questions import EVERYTHING, FIGURES, PLACE, overviews
from svc_cluster.replica.readiness_look import ReadinessLook
from tests.simulation.cluster import SimCluster, in_simulation
from tests.simulation.node import SimNode
from tests.simulation.test_lead_balance import BASINS, OPTIONS, Balancing

PER_TURN = 3
FEW_A_TURN = replace(OPTIONS, constants=(("overview.GROUPS_PER_TURN", PER_TURN),))


class Counting:
    """A look that counts the groups of each turn of the event loop."""

    def __init__(self, real: ReadinessLook, seen: Counter[int], turn: list[int]) -> None:
        self._real = real
        self._seen = seen
        self._turn = turn

    def look_at(self, replica: Replica) -> None:
        self._seen[self._turn[0]] += 1
        self._real.look_at(replica)

    def checks(self) -> Mapping[str, bool]:
        return self._real.checks()


class Places(Balancing):
    """One node leads everything; another one is asked, or is no place for leads."""

    async def told(self, node: SimNode, asked_for: pb.OverviewRequest) -> pb.NodeOverview:
        seen = await overviews(self.host(node).ask_any, [NodeId(node.node_id)], asked_for)
        return seen[NodeId(node.node_id)]

    async def what_is_asked_for(self) -> None:
        """Counts are the same however they are asked for; what is long or dear is for those who
        ask for it; nobody else's turn waits for all groups."""
        leading = await self.started()
        host = self.host(leading)
        group = sorted(self.led_by(leading))[0]
        host.basins[group].group.parked = "entry 9: only a newer release reads it"
        host.memory.add("test", lambda: 7)
        seen: Counter[int] = Counter()
        turn = [0]
        real = host.readiness_look
        host.readiness_look = lambda: Counting(real(), seen, turn)

        async def count_turns() -> None:
            while True:
                turn[0] += 1
                await asyncio.sleep(0)

        counting = self.cluster.loop.create_task(count_turns())
        place = await self.told(leading, PLACE)
        assert not seen and not place.groups
        figures = await self.told(leading, FIGURES)
        assert seen.total() == BASINS + 1
        assert max(seen.values()) <= PER_TURN
        whole = await self.told(leading, EVERYTHING)
        counting.cancel()
        assert (figures.groups, figures.groups_led, figures.groups_held) == (10, 9, 1)
        assert len(whole.leads) == BASINS
        assert whole.memory_bytes >= 7
        for field in ("leads", "gateways", "memory_bytes", "memory_bytes_max"):
            whole.ClearField(field)
        assert figures == whole

    async def full_at_once(self) -> None:
        """A node says that its disk is full before anything else has found out."""
        await self.started()
        full = self.cluster.nodes[2]
        assert not (await self.told(full, PLACE)).avoids_leads
        full.disk.switches.full = True
        assert (await self.told(full, PLACE)).avoids_leads
        full.disk.switches.full = False
        await self.finish()

    async def much_to_apply(self) -> None:
        """A node whose replica has many entries before it, as behind a start, is no place for a
        lead until it has applied them; a few are none of it. Neither is what it leads itself, nor
        what a parked replica will not apply before an upgrade."""
        leading = await self.started()
        behind = self.cluster.nodes[2]
        much = BACKLOG_ENTRIES_MAX + 1
        assert len(self.led_by(leading)) == BASINS
        where_it_leads = property(lambda group: much * (group.engine.role is Role.LEADER))
        with patch.object(GroupReplica, "backlog_entries", where_it_leads):
            assert not (await self.told(leading, PLACE)).avoids_leads
        with patch.object(GroupReplica, "backlog_entries", much):
            for replica in self.host(behind).replicas():
                replica.group.parked = "entry 9: only a newer release reads it"
            assert not (await self.told(behind, PLACE)).avoids_leads
            for replica in self.host(behind).replicas():
                replica.group.parked = ""
        for entries in (BACKLOG_ENTRIES_MAX, BACKLOG_ENTRIES_MAX + 1, 0):
            with patch.object(GroupReplica, "backlog_entries", entries):
                told = await self.told(behind, PLACE)
            assert told.avoids_leads == (entries > BACKLOG_ENTRIES_MAX)
        await self.finish()

    async def past_who_drains(self) -> None:
        """A full node asks its members in turn: the first one drains, and takes nothing."""
        leading = await self.started()
        drained = self.cluster.nodes[1]
        assert drained.node is not None
        await drained.node.retire()
        leading.disk.switches.full = True
        await self.until("the third leads all", lambda: self.leads()[3] == BASINS + 1, 15.0)
        leading.disk.switches.full = False
        await self.write_everywhere()
        await self.finish()

    async def to_anybody(self) -> None:
        """Where no member is named, one that takes leads is found."""
        leading = await self.started()
        drained = self.cluster.nodes[1]
        assert drained.node is not None
        await drained.node.retire()
        group = sorted(self.led_by(leading))[0]
        assert await self.give(leading, group, 0) == ""
        third = self.cluster.nodes[2]
        await self.until("it leads", lambda: group in self.led_by(third), 5.0)
        await self.write_everywhere()


@pytest.mark.parametrize(
    ("options", "play"),
    [
        (FEW_A_TURN, Places.what_is_asked_for),
        (OPTIONS, Places.full_at_once),
        (OPTIONS, Places.much_to_apply),
        (OPTIONS, Places.past_who_drains),
        (OPTIONS, Places.to_anybody),
    ],
    ids=["asked-for", "full-at-once", "much-to-apply", "past-who-drains", "to-anybody"],
)
def test_places_for_leads(
    options: Any, play: Callable[[Places], Coroutine[Any, Any, None]]
) -> None:
    async def run(cluster: SimCluster) -> None:
        await play(Places(cluster))

    in_simulation(7, options, run)
