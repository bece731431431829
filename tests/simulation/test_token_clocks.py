"""A catalog leader whose wall clock is wrong drops no access token before its time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from svc_cluster.base.errors import AlreadyExistsError
from svc_cluster.model.access import EVERYTHING, Op, Scope
from svc_cluster.model.access_secret import secret_hash
from svc_cluster.model.access_token import Expiry, TokenRequest
from svc_cluster.raft.group import Role
from tests.simulation.cluster import SimCluster, in_simulation
from tests.simulation.doorkeepers import NOBODY, Doorkeeper, doorkeeper
from tests.simulation.node import SimNode
from tests.simulation.options import Options

OPTIONS = Options(gateways=1, http=False, basins=1, streams=1)
HOUR_MS = 3_600_000
TEN_YEARS_MS = 10 * 365 * 24 * HOUR_MS


def catalog_leader(cluster: SimCluster) -> SimNode:
    for node in cluster.nodes:
        assert node.node is not None and node.node.host.catalog is not None
        if node.node.host.catalog.group.engine.role is Role.LEADER:
            return node
    raise AssertionError("nobody leads the catalog")


def held(cluster: SimCluster) -> list[set[str]]:
    out = []
    for node in cluster.nodes:
        assert node.node is not None and node.node.host.catalog is not None
        tokens = node.node.host.catalog.state.tokens
        out.append({token.token_id for token in tokens.by_serial.values()})
    return out


async def issue(
    keeper: Doorkeeper, token_id: str, expires_at_ms: int, secret_of: str | None = None
) -> None:
    text = datetime.fromtimestamp(expires_at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    request = TokenRequest(
        token_id,
        Scope(access_tokens=EVERYTHING, ops=(Op.LIST_BASINS,)),
        expires_at=Expiry.parse(text),
    )
    hashed = secret_hash((secret_of or token_id).ljust(32).encode().hex())
    await keeper.gateway.ask(lambda _: keeper.tokens.issue(request, hashed, NOBODY))


async def trial(cluster: SimCluster, by_ms: int) -> None:
    _ = cluster.start()
    right = cluster.gateways[0]._clock.wall_ms()
    for node in cluster.nodes:
        node.clock.step_wall(right - node.clock.wall_ms())
    await cluster.set_up()
    keeper = await doorkeeper(cluster, 0)
    now_ms = cluster.nodes[0].clock.wall_ms()
    await issue(keeper, "lives-on", now_ms + HOUR_MS // 2)
    wrong = catalog_leader(cluster)
    wrong.clock.step_wall(by_ms)
    await issue(keeper, "new", now_ms + 2 * TEN_YEARS_MS)
    with pytest.raises(AlreadyExistsError):
        await issue(keeper, "lives-on", now_ms + 2 * TEN_YEARS_MS)
    with pytest.raises(AlreadyExistsError, match="has this secret"):
        await issue(keeper, "twin", now_ms + 2 * TEN_YEARS_MS, secret_of="lives-on")
    await asyncio.sleep(3)
    assert catalog_leader(cluster) is wrong
    assert all({"lives-on", "new"} <= tokens for tokens in held(cluster)), held(cluster)
    wrong.clock.step_wall(HOUR_MS - by_ms)
    for node in cluster.nodes:
        if node is not wrong:
            node.clock.step_wall(HOUR_MS)
    await asyncio.sleep(3)
    await issue(keeper, "heir", now_ms + 2 * TEN_YEARS_MS, secret_of="lives-on")
    await issue(keeper, "lives-on", now_ms + 2 * TEN_YEARS_MS, secret_of="another")
    await asyncio.sleep(3)
    assert all(tokens == {"lives-on", "new", "heir"} for tokens in held(cluster)), held(cluster)


@pytest.mark.parametrize("by_ms", [HOUR_MS, TEN_YEARS_MS])
def test_a_wrong_clock_drops_no_token(by_ms: int) -> None:
    """A token that is valid for half an hour more is kept on every replica, and its id stays
    taken, and so does its secret, while the catalog's leader is an hour or ten years ahead; once
    the clocks agree that it is over, both are free again."""
    in_simulation(1, OPTIONS, lambda cluster: trial(cluster, by_ms))
