"""What is answered between the deletion of a basin and its end, which is short otherwise."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from svc_cluster.catalog.basin_record import BasinRecord
from svc_cluster.http.message import BytesBody, Request, Response
from tests.simulation.checkers.raft import InvariantError
from tests.simulation.cluster import LIVENESS_S, SimCluster, in_simulation
from tests.simulation.options import Options

OPTIONS = Options(gateways=1, http=True, basins=0, streams=0, tick_seconds=0.05)
BASIN = "basin-to-go"
IN_BASIN = ("svc-basin", BASIN)
RECORDS = {"records": [{"body": ""}]}


def test_a_basin_that_is_being_deleted_refuses_everything() -> None:
    """409 for what would create, ensure or change it or its streams, also by an append or a read;
    202 for another DELETE, 200 for its configuration; the list shows it. Then it is gone, and its
    name makes a new one."""

    async def main(cluster: SimCluster) -> None:
        watch = cluster.start()
        await cluster.guarded(_main(cluster), watch)
        watch.cancel()
        cluster.look()

    in_simulation(1, OPTIONS, main)


async def _main(cluster: SimCluster) -> None:
    release = [_held(node.node.host) for node in cluster.nodes if node.node is not None]
    assert len(release) == 3
    config = {"create_stream_on_append": True, "create_stream_on_read": True}
    create = {"basin": BASIN, "config": config}
    token = ("s2-request-token", "t")
    await _until(cluster, 201, "POST", "/v1/basins", create, token)
    assert await _ask(cluster, "POST", "/v1/streams", {"stream": "s"}, IN_BASIN) == (201, None)
    assert await _ask(cluster, "DELETE", f"/v1/basins/{BASIN}") == (202, None)
    pending = (409, "basin_deletion_pending")
    for method, path, body, headers in (
        ("POST", "/v1/basins", create, [token]),
        ("PUT", f"/v1/basins/{BASIN}", None, []),
        ("PATCH", f"/v1/basins/{BASIN}", {}, []),
        ("POST", "/v1/streams", {"stream": "n"}, [IN_BASIN]),
        ("PUT", "/v1/streams/s", None, [IN_BASIN]),
        ("PUT", "/v1/streams/n", None, [IN_BASIN]),
        ("PATCH", "/v1/streams/s", {}, [IN_BASIN]),
        ("DELETE", "/v1/streams/s", None, [IN_BASIN]),
        ("POST", "/v1/streams/s/records", RECORDS, [IN_BASIN]),
        ("POST", "/v1/streams/n/records", RECORDS, [IN_BASIN]),
        ("GET", "/v1/streams/n/records", None, [IN_BASIN]),
    ):
        assert await _ask(cluster, method, path, body, *headers) == pending, (method, path)
    assert await _ask(cluster, "DELETE", f"/v1/basins/{BASIN}") == (202, None)
    assert await _ask(cluster, "GET", f"/v1/basins/{BASIN}") == (200, None)
    listed = json.loads(_body(await _response(cluster, "GET", "/v1/basins")))["basins"]
    assert [(info["name"], info["state"]) for info in listed] == [(BASIN, "deleting")]
    assert listed[0]["deleted_at"] is not None
    for let_go in release:
        let_go()
    await _until(cluster, 404, "GET", f"/v1/basins/{BASIN}")
    await _until(cluster, 201, "POST", "/v1/basins", create, token)
    assert await _ask(cluster, "PATCH", "/v1/streams/s", {}, IN_BASIN) == (404, "stream_not_found")


def _held(host: Any) -> Callable[[], None]:
    """Keep a node from taking the record of a deleted basin away, until the answer is called."""
    remove: Callable[[BasinRecord], None] = host._remove_basin
    held = [True]
    host._remove_basin = lambda record: None if held else remove(record)
    return held.clear


async def _response(
    cluster: SimCluster, method: str, path: str, body: Any = None, *headers: tuple[str, str]
) -> Response:
    data = b"" if body is None else json.dumps(body).encode()
    given = list(headers)
    if body is not None:
        given += [("content-type", "application/json"), ("content-length", str(len(data)))]
    request = Request(method, path, "", given, BytesBody(data))
    return await cluster.gateways[0].ask(lambda process: process.app.handle(request))


async def _ask(
    cluster: SimCluster, method: str, path: str, body: Any = None, *headers: tuple[str, str]
) -> tuple[int, str | None]:
    """Status and code."""
    response = await _response(cluster, method, path, body, *headers)
    code = json.loads(_body(response)).get("code") if response.status >= 400 else None
    return response.status, code


async def _until(
    cluster: SimCluster,
    status: int,
    method: str,
    path: str,
    body: Any = None,
    *headers: tuple[str, str],
) -> None:
    deadline = cluster.loop.time() + LIVENESS_S
    while (await _ask(cluster, method, path, body, *headers))[0] != status:
        if cluster.loop.time() > deadline:
            raise InvariantError(f"liveness: {method} {path} is not {status}")
        await asyncio.sleep(0.1)


def _body(response: Response) -> bytes:
    assert isinstance(response.body, bytes)
    return response.body
