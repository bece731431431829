"""What checks access tokens in simulated gateways."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from svc_cluster.base.errors import ServiceError
from svc_cluster.gateway.access.authentication import AccessControl, Caller
from svc_cluster.gateway.access.lease import LeaseKeeper
from svc_cluster.gateway.access.token_directory import TokenDirectory
from svc_cluster.gateway.cluster.token_client import TokenClient, TokenNews
from svc_cluster.http.message import Request
from svc_cluster.model.access import EVERYTHING, Op, Scope
from svc_cluster.model.access_secret import secret_hash
from svc_cluster.model.access_token import AskedBy, AuthenticationOff, TokenRequest
from tests.simulation.backend_client import GatewayProcess, SimGateway
from tests.simulation.cluster import LIVENESS_S, SimCluster
from tests.simulation.node import SimNode

NOBODY = AuthenticationOff.OFF


class Client(TokenClient):
    """Counts the pages of the whole table that were asked for."""

    pages = 0

    async def renew(
        self, gateway_id: str, version: int, *, read_all: bool, after_serial: int
    ) -> TokenNews:
        self.pages += read_all
        return await super().renew(
            gateway_id, version, read_all=read_all, after_serial=after_serial
        )


@dataclass
class Doorkeeper:
    """What asks for tokens in one gateway's process, and what became of those that were shown."""

    gateway: SimGateway
    tokens: Client
    directory: TokenDirectory
    keeper: LeaseKeeper
    access: AccessControl
    let_in: list[float] = field(default_factory=list)
    """When requests began that were let in."""

    async def show(self, secret: str, now: float) -> ServiceError | Caller:
        request = Request("GET", "/v1/basins", "", [("authorization", f"Bearer {secret}")])

        async def look(_: GatewayProcess) -> ServiceError | Caller:
            try:
                caller = await self.access.caller_of(request)
            except ServiceError as refusal:
                return refusal
            self.let_in.append(now)
            return caller

        return await self.gateway.ask(look)


async def doorkeeper(cluster: SimCluster, number: int) -> Doorkeeper:
    gateway = cluster.gateways[number]

    async def build(process: GatewayProcess) -> Doorkeeper:
        clock = process.app.clock
        tokens = Client(process.backend.directory, clock)
        directory = TokenDirectory(clock)
        keeper = LeaseKeeper(tokens, directory, clock, f"gateway {number}")
        keeper.start()
        return Doorkeeper(gateway, tokens, directory, keeper, AccessControl(directory, keeper))

    return await gateway.ask(build)


async def issue(keeper: Doorkeeper, token_id: str, secret: str, asked_by: AskedBy) -> None:
    scope = Scope(access_tokens=EVERYTHING, ops=(Op.LIST_BASINS, Op.ISSUE_ACCESS_TOKEN))
    request = TokenRequest(token_id, scope)
    await keeper.gateway.ask(lambda _: keeper.tokens.issue(request, secret_hash(secret), asked_by))


async def let_in_everywhere(cluster: SimCluster, keepers: list[Doorkeeper], secret: str) -> Caller:
    deadline = cluster.loop.time() + LIVENESS_S
    while True:
        seen = [await keeper.show(secret, cluster.loop.time()) for keeper in keepers]
        callers = [one for one in seen if isinstance(one, Caller)]
        if len(callers) == len(keepers):
            return callers[0]
        assert cluster.loop.time() < deadline, seen
        await asyncio.sleep(0.05)


def catalog_leader(cluster: SimCluster) -> SimNode:
    for node in cluster.nodes:
        catalog = None if node.node is None else node.node.host.catalog
        if catalog is not None and catalog.group.is_serving:
            return node
    raise AssertionError("the catalog has no leader")
