"""Nodes come to a cluster of processes with join tokens, serve basins there, and leave it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from svc_cluster.base.clock import SystemClock
from svc_cluster.lab.api_client import ApiClient
from svc_cluster.model.join_token import JoinToken
from svc_cluster.settings_errors import EXIT_CONFIGURATION
from tests.integration.processes import READY_S, in_loop
from tests.own_nodes import OwnNodes, until

BASINS = [f"spread-{number}" for number in range(5)]


def comes(own: OwnNodes, node: int, seeds: dict[str, str]) -> Path:
    """A node that is told of some of the others; the file for its join token."""
    place = f"127.0.0.1:{own.ports[node - 1][0]}"
    token = own.directory / f"token-{node}"
    nodes = {**seeds, str(node): place}
    own.add(node, node_id=node, nodes=nodes, join_token_file=str(token))
    return token


async def standing(own: OwnNodes, node: int) -> str:
    return str((await own.members()).get(node, {}).get("standing", ""))


async def let_in(own: OwnNodes, node: int, seeds: dict[str, str]) -> None:
    token = comes(own, node, seeds)
    status, said = await own.admin("member", "add", str(node), "--token-file", str(token))
    assert status == 0, said
    assert "svc-join" not in said, "it is in the file alone"
    assert token.stat().st_mode & 0o777 == 0o600
    own.start(f"node-{node}")

    async def is_up() -> bool:
        return await standing(own, node) == "up"

    await until(is_up)


async def make(own: OwnNodes) -> None:
    api = ApiClient(own.url)
    try:
        for basin in BASINS:
            await api.make(SystemClock(), basin, None, READY_S)
            await api.make(SystemClock(), basin, "s", READY_S)
    finally:
        api.close()


async def where(own: OwnNodes, basin: str) -> set[int]:
    _, told = await own.admin("basin", "show", basin, "-o", "json")
    return {row["node_id"] for row in json.loads(told)["replicas"]}


@pytest.mark.timeout(300)
@in_loop
async def test_nodes_come_serve_and_leave(tmp_path: Path) -> None:
    """Nothing of the first three is edited or started again; the fifth is told of the fourth
    alone."""
    own = OwnNodes(tmp_path)
    own.start()
    try:

        async def are_up() -> bool:
            return len(await own.cluster()) == 3 and (await own.admin("cluster", "health"))[0] == 0

        await until(are_up)
        await let_in(own, 4, own.first)
        await let_in(own, 5, {"4": own.settings["node-4"]["nodes"]["4"]})

        async def gateway_knows() -> bool:
            rows = await own.cluster()
            return sorted(rows) == [1, 2, 3, 4, 5] and all(row["is_up"] for row in rows.values())

        await until(gateway_knows)
        await make(own)
        places = [await where(own, basin) for basin in BASINS]
        assert all(any(node in place for place in places) for node in (4, 5)), places
        status, said = await own.admin("member", "remove", "4")
        assert (status, "drain it first" in said) == (1, True), said
        await leaves(own, 5)
        wrong = comes(own, 6, own.first)
        wrong.write_text(JoinToken(6, b"w" * 32).text)
        own.start("node-6")
        await ends(own, "node-6", "the join token is good no more, or never was")
    except BaseException:
        print(own.said())
        raise
    finally:
        own.end()


async def leaves(own: OwnNodes, node: int) -> None:
    """Its basins are deleted, it is removed, and refused when it comes back."""
    api = ApiClient(own.url)
    try:
        for basin in BASINS:
            answer = await api.http.request("DELETE", f"/v1/basins/{basin}", timeout_s=10.0)
            assert answer.status in (200, 202, 204), answer.body
    finally:
        api.close()

    async def is_removed() -> bool:
        return (await own.admin("member", "remove", str(node), "--yes"))[0] == 0

    await until(is_removed)
    sentence = (
        f"node {node} was removed from the cluster, which refuses its data directory for ever"
    )
    await ends(own, f"node-{node}", sentence)
    own.start(f"node-{node}")
    await ends(own, f"node-{node}", sentence)
    assert (await own.members())[node]["state"] == "removed"

    async def is_gone() -> Any:
        return sorted(await own.cluster()) == [1, 2, 3, 4]

    await until(is_gone)


async def ends(own: OwnNodes, name: str, sentence: str) -> None:
    """The process ends by itself, and says why in its last line."""
    process = own.processes[name]

    async def has_ended() -> bool:
        return not process.is_running

    await until(has_ended)
    assert process.end() == EXIT_CONFIGURATION
    assert sentence in process.said().splitlines()[-1]
