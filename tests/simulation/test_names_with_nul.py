"""Streams and access tokens whose names have NUL, as they could once be made: they are listed,
read and deleted, and nothing is added to them."""

from __future__ import annotations

import json
import random
from typing import Any
from urllib.parse import quote

from svc_cluster.base.metrics import Metrics
from svc_cluster.gateway.app import GatewayApp
from svc_cluster.gateway.cluster.token_client import TokenClient
from svc_cluster.http.message import BytesBody, Request
from svc_cluster.model.access import Op, Scope
from svc_cluster.model.access_token import AuthenticationOff, TokenRequest
from svc_cluster.model.stream_config import BasinConfig, NewStream
from tests.at_once import build_batch
from tests.simulation.backend_client import GatewayProcess
from tests.simulation.cluster import SimCluster, in_simulation
from tests.simulation.options import Options

OPTIONS = Options(gateways=1, basins=1, streams=1)
BASIN = "basin-nul"
OLD = ["a\0b", "a\0c", "b\0"]
NEW = ["a", "c"]


class Gateway:
    """Asks in the seed dialect."""

    def __init__(self, app: GatewayApp) -> None:
        self._app = app

    async def ask(self, method: str, target: str, body: object = None) -> tuple[int, Any]:
        path, _, query = target.partition("?")
        sent = b"" if body is None else json.dumps(body).encode()
        headers = [("svc-basin", BASIN), ("content-length", str(len(sent)))]
        response = await self._app.handle(Request(method, path, query, headers, BytesBody(sent)))
        assert isinstance(response.body, bytes)
        return response.status, json.loads(response.body) if response.body else None

    async def names(self, path: str, member: str, key: str, limit: int) -> list[str]:
        """All of them, page by page as a client asks."""
        found: list[str] = []
        has_more, after = True, ""
        while has_more:
            status, page = await self.ask("GET", f"{path}?limit={limit}{after}")
            assert status == 200, page
            found += [item[key] for item in page[member]]
            has_more = page["has_more"]
            after = f"&start_after={quote(found[-1], safe='')}"
        return found


async def make_old(process: GatewayProcess, tokens: TokenClient) -> None:
    """Behind the gateway's checks, as an older gateway did."""
    backend = process.backend
    await backend.create_basin(BASIN, BasinConfig())
    for name in (*OLD, *NEW):
        await backend.create_stream(BASIN, name, NewStream())
        await backend.append(BASIN, name, build_batch([(None, (), b"kept")]), None, None)
        request = TokenRequest(name, Scope(ops=(Op.READ,)))
        await tokens.issue(request, name.encode().ljust(32), AuthenticationOff.OFF)


def test_what_exists_with_nul_is_listed_read_and_deleted_and_not_added_to() -> None:
    """Over whole nodes: pages of every size show all names once, records come back, appends and
    changes are refused, and what is deleted is gone."""

    async def main(cluster: SimCluster) -> None:
        watcher = cluster.start()

        async def inside(process: GatewayProcess) -> None:
            clock = process.app.clock
            tokens = TokenClient(process.backend.directory, clock)
            app = GatewayApp(
                process.backend,
                clock=clock,
                rng=random.Random(1),
                metrics=Metrics(),
                tokens=tokens,
            )
            await make_old(process, tokens)
            gateway = Gateway(app)
            for limit in (1, 2, 3, 1000):
                listed = await gateway.names("/v1/streams", "streams", "name", limit)
                assert listed == sorted(OLD + NEW), limit
                listed = await gateway.names("/v1/access-tokens", "access_tokens", "id", limit)
                assert listed == sorted(OLD + NEW), limit
            for name in OLD:
                raw = quote(name, safe="")
                path = f"/v1/streams/{raw}"
                status, told = await gateway.ask("GET", f"{path}/records?seq_num=0")
                assert (status, len(told["records"])) == (200, 1)
                assert (await gateway.ask("GET", f"{path}/records/tail"))[0] == 200
                assert (await gateway.ask("GET", path))[0] == 200
                assert (await gateway.ask("POST", f"{path}/records", {"records": [{}]}))[0] == 400
                assert (await gateway.ask("PATCH", path, {}))[0] == 400
                assert (await gateway.ask("PUT", path, {}))[0] == 400
                status, told = await gateway.ask("GET", f"{path}/records/tail")
                assert told["tail"]["seq_num"] == 1
                assert (await gateway.ask("DELETE", path))[0] == 202
                assert (await gateway.ask("DELETE", f"/v1/access-tokens/{raw}"))[0] == 204
            left = await gateway.names("/v1/access-tokens", "access_tokens", "id", 1000)
            assert left == NEW
            _, page = await gateway.ask("GET", "/v1/streams")
            alive = [item["name"] for item in page["streams"] if item["deleted_at"] is None]
            assert alive == NEW

        await cluster.guarded(cluster.set_up(), watcher)
        await cluster.guarded(cluster.gateways[0].ask(inside), watcher)

    in_simulation(1, OPTIONS, main)
