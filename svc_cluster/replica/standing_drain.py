"""A node that is drained by the catalog gives its leads away, for as long as it is.

Nothing is written down but the node's row: whatever it comes to lead meanwhile, behind a start or
an election, it gives away as well. It goes on following, and is ready.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Set
from typing import Final

from svc_cluster.base.ids import NodeId
from svc_cluster.replica.host import Host, Replica
from svc_cluster.replica.lead_places import peers_of, places
from svc_cluster.replica.leader_handover import NEAR_ENTRIES, hand_over, leads
from svc_cluster.replica.node_questions import is_drained

LOOK_SECONDS: Final = 1.0
AT_ONCE_MAX: Final = 8
"""Hand-overs at one time: each lets the writes of its group wait for a moment."""


class StandingDrain:
    """One for each node. Somebody looks each LOOK_SECONDS."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.given_away = 0
        """Leads that were given away because the node is drained."""

    async def look(self) -> None:
        """Give away what is led here and others can lead, where the node is drained."""
        host = self._host
        if host.draining or not is_drained(host):
            return
        leading = [replica for replica in host.replicas() if leads(replica)]
        if not leading:
            return
        known = await places(host.ask_any, host.news.peers_up)
        led: Counter[NodeId] = Counter()
        waiting = deque(leading)

        async def work() -> None:
            while waiting and is_drained(host) and not host.draining:
                await self._give(waiting.popleft(), known.taking, led)

        await asyncio.gather(*(work() for _ in range(min(AT_ONCE_MAX, len(leading)))))

    async def _give(self, replica: Replica, taking: Set[NodeId], led: Counter[NodeId]) -> None:
        """One attempt; the next look has what is left. Only to who takes leads: two nodes that are
        both drained would give them to one another for ever."""
        engine = replica.group.engine
        able = [
            peer
            for peer in peers_of(self._host, engine)
            if peer in taking and engine.last_index - engine.match_index(peer) <= NEAR_ENTRIES
        ]
        if not able or replica.proposer.paused:
            return
        to = min(able, key=lambda peer: (led[peer], peer))
        led[to] += 1
        try:
            await hand_over(replica, self._host.services.figures, to)
        except TimeoutError:
            return
        self.given_away += not leads(replica)
