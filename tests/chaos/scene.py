"""What a row of faults works on, and what it reports."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any, Final

from tests.chaos.api import ChaosApi
from tests.chaos.cluster import ChaosCluster
from tests.chaos.members import NODES, Member
from tests.chaos.recorder import ChaosRecorder
from tests.simulation.workload import StreamHistory

RECOVERY_S: Final = 30.0


@dataclass(slots=True)
class Scene:
    """What a row works on."""

    cluster: ChaosCluster
    rng: random.Random
    basin: str
    recorder: ChaosRecorder
    history: StreamHistory
    apis: list[ChaosApi]
    facts: dict[str, Any] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    failover_ms: list[int] = field(default_factory=list)

    async def leader(self) -> int:
        return await self.cluster.wait_leader(self.basin, RECOVERY_S)

    async def follower(self) -> int:
        leader = await self.leader()
        return self.rng.choice([node for node in NODES if node != leader])

    async def successes(self, moment: float) -> float:
        """When the first append begun after `moment` was acknowledged; noted as a failover.

        Asks every 50 ms anew: clients whose requests lie with the lost leader wait for longer.
        """
        probes: set[asyncio.Task[Any]] = set()
        try:
            async with asyncio.timeout(RECOVERY_S):
                while (first := self.recorder.first_success_after(moment)) is None:
                    probes.add(asyncio.ensure_future(self._probe()))
                    await asyncio.sleep(0.05)
        finally:
            await asyncio.gather(*probes)
        self.failover_ms.append(round((first - moment) * 1000))
        return first

    async def _probe(self) -> None:
        recorder = self.recorder
        client = recorder.new_client()
        items = recorder.items(self.rng, client, 1, 0)
        await recorder.append(self.rng.choice(self.apis), self.history, client, items)

    async def for_a_while(self, low_s: float, high_s: float) -> None:
        await asyncio.sleep(self.rng.uniform(low_s, high_s))

    async def restart(self, *members: Member) -> None:
        """Start those that are down and wait until everything is ready."""
        for member in members:
            if not member.is_up:
                member.start()
        await self.cluster.ready()
