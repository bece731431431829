"""A cluster that strangers talk to, and what it must still do afterwards."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from svc_cluster.base.clock import SystemClock
from svc_cluster.lab.api_client import ApiClient, AppendRecord, decode_batch
from svc_cluster.lab.own_cluster import OwnCluster
from tests.e2e.load import set_up
from tests.hostile.peers import words as hostile
from tests.hostile.peers.words import Facts

BASIN = "hostile-basin"
STREAM = "s"
READY_S = 90.0
SERVES_S = 60.0


class Victim:
    """A cluster, what was acknowledged on it, and the processes it began with."""

    def __init__(self, cluster: OwnCluster, directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory
        self.facts: Facts = hostile.facts_of(cluster)
        self.pids = cluster.pids()
        self.bodies: list[bytes] = []

    async def still_serves(self) -> None:
        """No process ended, an append is acknowledged, everything acknowledged is read back, and
        the replicas are equal."""
        assert self.cluster.pids() == self.pids, self.cluster.log_tail()
        api = ApiClient(self.cluster.url)
        try:
            await self._append(api, b"after the attack %d" % len(self.bodies))
            answer = await api.insist(
                SystemClock(),
                lambda: api.read(BASIN, STREAM, "seq_num=0&count=1000"),
                accept=frozenset({200}),
                deadline_s=SERVES_S,
            )
            assert [record.body for record in decode_batch(answer.body)] == self.bodies
        finally:
            api.close()
        await self._equal()
        assert self.cluster.pids() == self.pids, self.cluster.log_tail()
        assert b"refused to unpickle" not in b"".join(
            path.read_bytes() for path in self.cluster.directory.glob("*.log")
        ), "somebody tried to unpickle"

    async def fill(self, stream: str, byte_count: int) -> None:
        """A stream with at least so many bytes of records."""
        await set_up(self.cluster.url, BASIN, [stream])
        api = ApiClient(self.cluster.url)
        body = bytes(256 * 1024)
        try:
            for place in range(byte_count // len(body)):
                await api.insist(
                    SystemClock(),
                    lambda place=place: api.append(
                        BASIN, stream, [AppendRecord(body)], match_seq_num=place
                    ),
                    accept=frozenset({200, 412}),
                    deadline_s=SERVES_S,
                )
        finally:
            api.close()

    async def _append(self, api: ApiClient, body: bytes) -> None:
        """Exactly once, whatever became of the first tries."""
        expected = len(self.bodies)
        answer = await api.insist(
            SystemClock(),
            lambda: api.append(BASIN, STREAM, [AppendRecord(body)], match_seq_num=expected),
            accept=frozenset({200, 412}),
            deadline_s=SERVES_S,
        )
        if answer.status == 200:
            assert answer.json()["start"]["seq_num"] == expected
        else:
            assert answer.json()["seq_num_mismatch"] == expected + 1
        self.bodies.append(body)

    async def _equal(self) -> None:
        async with asyncio.timeout(SERVES_S):
            while True:
                rows: dict[int, list[tuple[int, str]]] = {}
                for groups in (await self.cluster.groups()).values():
                    for group in groups:
                        rows.setdefault(group["group_id"], []).append(
                            (group["applied_index"], group["digest"])
                        )
                if rows and all(len(seen) == 3 and len(set(seen)) == 1 for seen in rows.values()):
                    return
                await asyncio.sleep(0.05)

    async def groups_of(self, node: int) -> list[dict[str, Any]]:
        return (await self.cluster.groups())[node]

    async def basin_group(self) -> tuple[int, dict[str, Any]]:
        """The basin's leader and its row."""
        leader = await self.cluster.wait_leader(BASIN)
        rows = await self.groups_of(leader)
        return leader, next(row for row in rows if row["basin"] == BASIN)
