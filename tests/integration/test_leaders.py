"""Each basin's appends are sequenced by its leader, and by nobody else."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from svc_cluster.http.client import HttpClient
from svc_cluster.lab.api_client import ApiClient, AppendRecord
from svc_cluster.lab.own_cluster import OwnCluster
from tests.e2e.cluster import running
from tests.e2e.load import set_up

BASINS = ("leader-test-a", "leader-test-b", "leader-test-c")


async def appended(cluster: OwnCluster) -> dict[int, int]:
    """`svc_records_appended_total` of every node: records acknowledged while it led."""
    found: dict[int, int] = {}
    for node in cluster.file()["nodes"]:
        async with HttpClient(f"http://127.0.0.1:{node['admin_port']}") as client:
            text = (await client.request("GET", "/metrics", timeout_s=5)).body.decode()
        match = re.search(r"^svc_records_appended_total (\S+)$", text, re.MULTILINE)
        assert match is not None, text
        found[int(node["id"])] = int(float(match[1]))
    return found


def test_each_basins_appends_reach_its_leader_only(tmp_path: Path) -> None:
    """Three basins are led by three nodes; appends to one basin move one node's counter, by as
    many records as were acknowledged."""

    async def main() -> None:
        async with running(tmp_path / "cluster") as cluster:
            leaders = {}
            for basin in BASINS:
                await set_up(cluster.url, basin, ["s"])
                leaders[basin] = await cluster.wait_leader(basin)
            assert sorted(leaders.values()) == [1, 2, 3]
            api = ApiClient(cluster.url)
            for count, basin in enumerate(BASINS, start=3):
                before = await appended(cluster)
                for number in range(count):
                    answer = await api.append(
                        basin, "s", [AppendRecord(b"%d" % number), AppendRecord(b"x")]
                    )
                    assert answer.status == 200
                after = await appended(cluster)
                moved = {node: after[node] - before[node] for node in after}
                expected = dict.fromkeys(after, 0) | {leaders[basin]: 2 * count}
                assert moved == expected
            api.close()

    asyncio.run(main())
