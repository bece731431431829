"""Usage outlives every process: three nodes and a gateway are killed, and tell the same again."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from svc_cluster.lab.api_client import ApiClient, AppendRecord
from tests.e2e.cluster import running
from tests.e2e.load import CLOCK, SETTLE_S, set_up

BASIN = "usage-outlives-basin"
STREAM = "counted"
APPENDS = 7
READS = 3
METERED = 8 + 92
SETS = (
    *("append-ops", "append-throughput", "read-ops", "read-throughput", "basin-ops"),
    "storage",
)


@pytest.mark.timeout(300)
def test_what_was_used_is_told_after_every_process_was_killed(tmp_path: Path) -> None:
    """All sets of the basin, and the operations on the account that are not queries, are the same
    before SIGKILL of all at one time and after a new start from the same directories."""

    async def main() -> None:
        async with running(tmp_path / "cluster") as cluster:
            begun = int(time.time())
            await set_up(cluster.url, BASIN, [STREAM])
            api = ApiClient(cluster.url)
            for _ in range(APPENDS):
                answer = await api.append(BASIN, STREAM, [AppendRecord(b"x" * 92)])
                assert answer.status == 200, answer
            for _ in range(READS):
                assert (await api.read(BASIN, STREAM, "seq_num=0")).status == 200
            before = await usage(api, begun)
            api.close()
            assert before["append-throughput"]["standard"] == APPENDS * METERED
            assert before["append-ops"]["standard"] >= 1
            assert before["read-ops"]["unary"] == READS
            assert before["read-throughput"]["read"] == READS * APPENDS * METERED
            assert before["storage"]["storage"] == APPENDS * METERED
            cluster.kill_all()
            cluster.start()
            await cluster.wait_ready(60.0)
            api = ApiClient(cluster.url)
            after = await usage(api, begun)
            api.close()
            assert after == before

    asyncio.run(main())


async def usage(api: ApiClient, begun: int) -> dict[str, dict[str, float]]:
    """By set and series: the sum, or the last reading. Without the queries themselves."""
    found = {of: await series(api, f"/{BASIN}", of, begun) for of in SETS}
    found["account-ops"] = await series(api, "", "account-ops", begun)
    return found


async def series(api: ApiClient, path: str, of: str, begun: int) -> dict[str, float]:
    target = f"/v1/metrics{path}?set={of}&start={begun}&end={int(time.time())}"
    answer = await api.insist(
        CLOCK,
        lambda: api.http.request("GET", target),
        accept=frozenset({200}),
        deadline_s=SETTLE_S,
    )
    told: list[dict[str, Any]] = [
        body for metric in answer.json()["values"] for body in metric.values()
    ]
    return {
        body["name"]: body["values"][-1][1]
        if of == "storage"
        else sum(value for _, value in body["values"])
        for body in told
        if not body["name"].endswith("-metrics")
    }
