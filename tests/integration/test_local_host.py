"""`svc-cluster local` for others: beyond loopback it asks for access tokens by itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from svc_cluster.http.client import HttpClient
from svc_cluster.lab.own_cluster import OwnCluster

READY_S = 90.0


async def statuses(own: OwnCluster, tokens: list[str | None]) -> list[int]:
    await own.wait_ready(READY_S)
    out = []
    for token in tokens:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        async with HttpClient(own.url) as client:
            out.append((await client.request("GET", "/v1/basins", headers)).status)
    return out


@pytest.mark.parametrize(
    ("options", "expected"), [([], [401, 401, 200]), (["--no-auth"], [200, 200, 200])]
)
def test_a_gateway_for_others_asks_for_tokens_unless_told_not_to(
    tmp_path: Path, options: list[str], expected: list[int]
) -> None:
    """The root token is in the file that was named, for its owner's eyes only; at the second start
    it is still the same."""
    file = tmp_path / "token"
    for _ in range(2 if not options else 1):
        own = OwnCluster(
            tmp_path / "data",
            nodes=1,
            options=["--host", "0.0.0.0", "--root-token-file", str(file), *options],
        )
        own.start()
        try:
            asyncio.run(own.wait_ready(READY_S))
            token = file.read_text().strip() if file.exists() else "none"
            assert asyncio.run(settled(own, [None, "svct_wrong", token], expected)) == expected
            assert file.exists() == (not options)
            assert not file.exists() or file.stat().st_mode & 0o777 == 0o600
        finally:
            assert own.stop() == 0


async def settled(own: OwnCluster, tokens: list[str | None], wanted: list[int]) -> list[int]:
    """The statuses, once they are as wanted or too much time has passed: a new root token is taken
    over a moment after the start."""
    try:
        async with asyncio.timeout(READY_S):
            while True:
                seen = await statuses(own, tokens)
                if seen == wanted:
                    return seen
                await asyncio.sleep(0.2)
    except TimeoutError:
        return await statuses(own, tokens)
