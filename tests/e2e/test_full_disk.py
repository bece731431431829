"""A node whose disk has less room than its reserve."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from svc_cluster.base.clock import SystemClock
from svc_cluster.cli.api_client import ApiClient, AppendRecord
from tests.e2e.cluster import running
from tests.e2e.load import set_up

BASIN = "full-disk-basin"
MORE_THAN_ANY_DISK_MIB = 2**30


def test_below_the_reserve_appends_are_refused_and_reads_go_on(tmp_path: Path) -> None:
    """With a reserve that no disk has, an append is refused as certainly not done, and the stream
    can still be read and has nothing in it."""

    async def main() -> None:
        overrides = json.dumps({"disk_reserve_mib": MORE_THAN_ANY_DISK_MIB})
        environment = {"SVC_CLUSTER_LOCAL_OVERRIDES": overrides}
        async with running(tmp_path / "cluster", nodes=1, environment=environment) as cluster:
            await set_up(cluster.url, BASIN, ["s"])
            api = ApiClient(cluster.url)
            # a gateway that gives up just as it asks once more cannot know: 408, and again
            refused = await api.insist(
                SystemClock(),
                lambda: api.append(BASIN, "s", [AppendRecord(b"x")]),
                accept=frozenset({200, 503}),
                deadline_s=30.0,
            )
            assert (refused.status, refused.headers["svc-side-effects"]) == (503, "none")
            tail = await api.check_tail(BASIN, "s")
            assert (tail.status, tail.json()["tail"]["seq_num"]) == (200, 0)
            api.close()

    asyncio.run(main())
