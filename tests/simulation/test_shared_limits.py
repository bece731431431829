"""The limits of an account are those of all gateways together: each learns how many there are with
its freshness lease."""

from __future__ import annotations

import asyncio
import random

from svc_cluster.base.errors import RateLimitedError
from svc_cluster.base.metrics import Metrics
from svc_cluster.catalog.leases import LEASE_SECONDS_HERE
from svc_cluster.gateway.access.lease import LeaseKeeper
from svc_cluster.gateway.access.token_directory import TokenDirectory
from svc_cluster.gateway.cluster.token_client import TokenClient
from svc_cluster.gateway.limits.rate_limit import Rates
from svc_cluster.gateway.limits.rate_limiter import RateLimiter
from svc_cluster.gateway.request.endpoint import Moves
from svc_cluster.http.message import Connection, Request
from tests.simulation.adapters import rpc_address
from tests.simulation.backend_client import GatewayProcess
from tests.simulation.cluster import LIVENESS_S, SimCluster
from tests.simulation.doorkeepers import catalog_leader
from tests.simulation.options import Options
from tests.simulation.story import play

OPTIONS = Options(gateways=3, http=False, basins=1, streams=1)
RATE = 30.0
SECONDS = 30.0


async def limiter_of(cluster: SimCluster, number: int) -> tuple[LeaseKeeper, RateLimiter]:
    async def build(process: GatewayProcess) -> tuple[LeaseKeeper, RateLimiter]:
        clock = process.app.clock
        keeper = LeaseKeeper(
            TokenClient(process.backend.directory, clock),
            TokenDirectory(clock),
            clock,
            f"gateway {number}",
        )
        keeper.start()
        limiter = RateLimiter(
            Rates(requests=RATE),
            Rates(),
            clock=clock,
            rng=random.Random(number),
            metrics=Metrics(),
            gateways=lambda: keeper.gateways,
        )
        return keeper, limiter

    return await cluster.gateways[number].ask(build)


async def clients(cluster: SimCluster, limiter: RateLimiter, count: int, seconds: float) -> int:
    """Requests of so many clients that were let through; each waits as it is told."""
    loop = cluster.loop
    end_at = loop.time() + seconds
    done = 0

    async def one(number: int) -> None:
        nonlocal done
        connection = Connection(f"10.0.0.{number}")
        while loop.time() < end_at:
            request = Request("GET", "/v1/basins", "", [], connection=connection)
            try:
                limiter.admit(request, Moves.NOTHING, 0, is_stream=False)
            except RateLimitedError as refusal:
                await asyncio.sleep(refusal.retry_after_ms / 1000)
            else:
                done += 1
                await asyncio.sleep(0.001)

    await asyncio.gather(*(one(number) for number in range(count)))
    return done


async def until_all_see(cluster: SimCluster, keepers: list[LeaseKeeper], count: int) -> None:
    deadline = cluster.loop.time() + LIVENESS_S
    while any(keeper.gateways != count for keeper in keepers):
        assert cluster.loop.time() < deadline, [keeper.gateways for keeper in keepers]
        await asyncio.sleep(0.1)


def test_three_gateways_together_let_through_the_limit_of_one_account() -> None:
    """90 to 100 % of it; with one of them cut off, the other two share all of
    it; a change of the catalog's leader gives nobody more meanwhile."""

    async def story(cluster: SimCluster) -> None:
        pairs = [await limiter_of(cluster, number) for number in range(3)]
        keepers = [keeper for keeper, _ in pairs]
        limiters = [limiter for _, limiter in pairs]
        await until_all_see(cluster, keepers, 3)
        done = await asyncio.gather(*(clients(cluster, one, 5, SECONDS) for one in limiters))
        assert 0.90 <= sum(done) / (RATE * SECONDS) <= 1.0, done
        cluster.nemesis.crash(catalog_leader(cluster), random.Random(5), 0.5)
        for _ in range(int(2 * LEASE_SECONDS_HERE / 0.1)):
            assert [keeper.gateways for keeper in keepers] == [3, 3, 3]
            await asyncio.sleep(0.1)
        for node in cluster.nodes:
            cluster.network.cut("gateway2", rpc_address(node.node_id))
        await until_all_see(cluster, keepers[:2], 2)
        done = await asyncio.gather(*(clients(cluster, one, 5, SECONDS) for one in limiters[:2]))
        assert 0.90 <= sum(done) / (RATE * SECONDS) <= 1.0, done
        assert keepers[2].gateways == 3, "it keeps to what it was told"

    play(11, OPTIONS, story)
