"""The catalog's leader changes, as planned or by a crash, while tokens are shown at every gateway
all the time: whoever has a known one is let in, and nobody whose token was revoked."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from svc_cluster.base.errors import ServiceError, UnauthenticatedError
from svc_cluster.catalog.leases import LEASE_SECONDS_HERE
from svc_cluster.gateway.access.authentication import Caller
from svc_cluster.model.access_secret import secret_text
from tests.simulation.adapters import rpc_address
from tests.simulation.cluster import SimCluster
from tests.simulation.doorkeepers import (
    NOBODY,
    Doorkeeper,
    catalog_leader,
    doorkeeper,
    issue,
    let_in_everywhere,
)
from tests.simulation.node import SimNode
from tests.simulation.options import Options
from tests.simulation.story import play

GATEWAYS = 3
OPTIONS = Options(gateways=GATEWAYS, http=False, basins=1, streams=1)
KEPT = secret_text(b"k" * 32)
REVOKED = secret_text(b"r" * 32)
SEEDS = int(os.environ.get("CATALOG_LEADER_SEEDS", "2"))

Change = Callable[[SimCluster, SimNode], Awaitable[None]]


@dataclass
class Door:
    """What was shown at one gateway, and what came of it."""

    keeper: Doorkeeper
    refused: list[tuple[float, ServiceError]] = field(default_factory=list)
    """Of the token that stays valid."""
    let_in: list[float] = field(default_factory=list)
    """When requests with the other one began that were let in."""
    shown: int = 0
    margin_s: float = LEASE_SECONDS_HERE
    """The least that the lease had left."""

    async def knock(self, cluster: SimCluster, rng: random.Random) -> None:
        while True:
            now = cluster.loop.time()
            kept = await self.keeper.show(KEPT, now)
            if not isinstance(kept, Caller):
                self.refused.append((now, kept))
            if isinstance(await self.keeper.show(REVOKED, now), Caller):
                self.let_in.append(now)
            self.shown += 1
            self.margin_s = min(self.margin_s, self.keeper.directory.seconds_left)
            await asyncio.sleep(rng.uniform(0.0, 0.03))


async def planned(cluster: SimCluster, leader: SimNode) -> None:
    """As a rolling restart does: the leads are given away, then the process ends at once."""
    assert leader.node is not None
    await leader.node.retire()
    cluster.nemesis.crash(leader, random.Random(1), 1.0)


async def crashed(cluster: SimCluster, leader: SimNode) -> None:
    cluster.nemesis.crash(leader, random.Random(1), 1.0)


async def vanished(cluster: SimCluster, leader: SimNode) -> None:
    """No connection is reset: as when its machine has lost its power, or the process stands
    still."""
    for node in cluster.nodes:
        if node is not leader:
            cluster.nemesis.cut(node.node_id, leader.node_id, both=True)
    for number in range(GATEWAYS):
        cluster.network.cut(f"gateway{number}", rpc_address(leader.node_id))


async def revoke_once(keeper: Doorkeeper) -> None:
    await keeper.gateway.ask(lambda _: keeper.tokens.revoke("revoked", NOBODY))


async def revoke_until_done(cluster: SimCluster, keeper: Doorkeeper) -> None:
    while True:
        try:
            await revoke_once(keeper)
        except ServiceError as failure:
            if failure.code.value == "access_token_not_found":
                return
            await asyncio.sleep(0.05)
        else:
            return


def scene(seed: int, change: Change, judge: Callable[[list[Door], float], None]) -> None:
    """`judge` is told what the doors have seen and how long the revocation took that began as soon
    as the catalog had another leader."""

    async def story(cluster: SimCluster) -> None:
        loop = cluster.loop
        rng = random.Random(f"{seed}/doors")
        keepers = [await doorkeeper(cluster, number) for number in range(GATEWAYS)]
        await issue(keepers[0], "kept", KEPT, NOBODY)
        await issue(keepers[0], "revoked", REVOKED, NOBODY)
        for secret in (KEPT, REVOKED):
            await let_in_everywhere(cluster, keepers, secret)
        doors = [Door(keeper) for keeper in keepers]
        knocking = [loop.create_task(door.knock(cluster, rng)) for door in doors]
        await asyncio.sleep(2 * LEASE_SECONDS_HERE + rng.uniform(0.0, 0.5))
        leader = catalog_leader(cluster)
        await change(cluster, leader)
        while not any(led_by(node) for node in cluster.nodes if node is not leader):
            await asyncio.sleep(0.005)
        begun = loop.time()
        await revoke_until_done(cluster, keepers[rng.randrange(GATEWAYS)])
        answered = loop.time()
        for door in doors:
            seen = await door.keeper.show(REVOKED, answered)
            assert isinstance(seen, UnauthenticatedError), seen
        await asyncio.sleep(2 * LEASE_SECONDS_HERE)
        for task in knocking:
            task.cancel()
        for door in doors:
            assert door.shown > 100 and door.let_in, "nothing is shown"
            assert max(door.let_in) <= answered, "accepted after the revocation was answered"
        judge(doors, answered - begun)

    play(seed, OPTIONS, story)


def led_by(node: SimNode) -> bool:
    catalog = None if node.node is None else node.node.host.catalog
    return catalog is not None and catalog.group.is_serving


def nobody_is_refused(doors: list[Door]) -> None:
    assert [door.refused for door in doors] == [[]] * GATEWAYS


@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_a_planned_change_is_not_felt(seed: int) -> None:
    """Nobody is refused, and a revocation right after it is as quick as ever: the successor knows
    whom to wait for."""

    def judge(doors: list[Door], seconds: float) -> None:
        nobody_is_refused(doors)
        assert seconds < 0.6

    scene(seed, planned, judge)


@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_a_revocation_under_way_does_not_feel_a_planned_change(seed: int) -> None:
    """It is asked for once, anywhere between one renewal before the change and the change itself,
    and is done."""

    async def story(cluster: SimCluster) -> None:
        rng = random.Random(f"{seed}/under way")
        keepers = [await doorkeeper(cluster, number) for number in range(GATEWAYS)]
        for number in range(4):
            secret = secret_text(b"%d" % number * 32)
            await issue(keepers[0], "revoked", secret, NOBODY)
            await let_in_everywhere(cluster, keepers, secret)
            if not number:
                await asyncio.sleep(2 * LEASE_SECONDS_HERE)
            leader, keeper = catalog_leader(cluster), keepers[rng.randrange(GATEWAYS)]
            revoking = cluster.loop.create_task(revoke_once(keeper))
            await asyncio.sleep(rng.uniform(0.0, 0.2))
            await planned(cluster, leader)
            await revoking
            for door in keepers:
                seen = await door.show(secret, cluster.loop.time())
                assert isinstance(seen, UnauthenticatedError), seen
            await asyncio.sleep(5.0)

    play(seed, OPTIONS, story)


@pytest.mark.parametrize("change", [crashed, vanished])
@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_after_a_crash_nobody_is_refused(seed: int, change: Change) -> None:
    """The leases last until the successor renews them; a revocation waits for those that nobody
    knows of, and no longer."""

    def judge(doors: list[Door], seconds: float) -> None:
        nobody_is_refused(doors)
        assert min(door.margin_s for door in doors) > 0
        assert seconds < LEASE_SECONDS_HERE + 0.6

    scene(seed, change, judge)
