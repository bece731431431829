"""A node without its majority: what it refuses, what it says about effects, and whether it lies."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from svc_cluster.http.client import ConnectionLostError
from svc_cluster.lab.api_client import ApiClient, AppendRecord
from tests.e2e.cluster import READY_S, Load, running, whole
from tests.e2e.load import read_all, set_up
from tests.own_processes import node_pids

BASIN = "minority-basin"


async def attempt(api: ApiClient, body: bytes, flags: dict[bytes, str]) -> None:
    """Append to a minority: it must fail, and say consistently whether it may have happened."""
    answer = await api.append(BASIN, "s", [AppendRecord(body)], timeout_s=9)
    assert answer.status in {408, 502, 503}, answer
    flags[body] = answer.headers["svc-side-effects"]
    assert flags[body] in {"none", "possible"}
    assert answer.json()["may_have_taken_effect"] == (flags[body] == "possible")
    assert (answer.status == 408) == (flags[body] == "possible"), answer


def test_a_minority_refuses_and_its_effect_flags_are_true(tmp_path: Path) -> None:
    """With two of three nodes killed, appends fail, tails and reads are refused, and after the
    restart the log holds nothing of an append that was said to have had no effect."""

    async def main() -> None:
        async with running(tmp_path / "cluster", options=["--no-restart"]) as cluster:
            await set_up(cluster.url, BASIN, ["s"])
            await whole(cluster, BASIN, 3)
            api = ApiClient(cluster.url)
            before = await api.append(BASIN, "s", [AppendRecord(b"before")])
            assert before.status == 200
            leader = await cluster.wait_leader(BASIN)
            for node_id in node_pids(cluster):
                if node_id != leader:
                    cluster.kill_node(node_id)
            flags: dict[bytes, str] = {}
            await attempt(api, b"attempt-0", flags)
            await attempt(api, b"attempt-1", flags)
            apis = [ApiClient(cluster.url) for _ in range(6)]
            tail, read = await asyncio.gather(
                apis[0].check_tail(BASIN, "s", timeout_s=9),
                apis[1].read(BASIN, "s", "seq_num=0&count=10", timeout_s=9),
            )
            assert tail.status in {408, 502, 503}, tail
            assert read.status in {408, 502, 503}, read
            await asyncio.gather(*(attempt(apis[i], b"attempt-%d" % i, flags) for i in range(2, 6)))
            for client in [api, *apis]:
                client.close()
            assert flags[b"attempt-5"] == "none", "the leader must have stepped down by then"
            cluster.stop()
            cluster.start()
            await cluster.wait_ready(READY_S)
            found = await read_all(cluster.url, BASIN, "s")
            assert found[0] == b"before"
            assert len(found) == len(set(found))
            assert set(found[1:]) <= {body for body, flag in flags.items() if flag == "possible"}

    asyncio.run(main())


def test_a_stopped_leader_is_replaced_and_serves_nothing_stale_when_it_goes_on(
    tmp_path: Path,
) -> None:
    """SIGSTOP makes a leader miss its own deposition. Others take over, and when it goes on it
    neither acknowledges nor tells an old tail; the tail watchers would see that."""

    async def main() -> None:
        async with running(tmp_path / "cluster") as cluster:
            load = Load(cluster.url, BASIN, writers=3)
            await set_up(cluster.url, BASIN, [writer.stream for writer in load.writers])
            load.start()
            await whole(cluster, BASIN, 3)
            await load.acknowledged(10)
            leader = await cluster.wait_leader(BASIN)
            pid = cluster.kill_node(leader, signal.SIGSTOP)
            try:
                await load.acknowledged(20, deadline_s=30)
            finally:
                os.kill(pid, signal.SIGCONT)
            await load.acknowledged(50, deadline_s=30)
            await whole(cluster, BASIN, 3)
            await load.stop()
            verdict = await load.verify()
            print(f"\n{verdict} {load.errors()}")
            assert verdict.clean, verdict

    asyncio.run(main())


def test_a_killed_gateway_comes_back_and_leaves_no_doubles(tmp_path: Path) -> None:
    """A gateway killed under load leaves its callers in doubt; retries under match_seq_num put
    every record into the log once."""

    async def main() -> None:
        async with running(tmp_path / "cluster") as cluster:
            load = Load(cluster.url, BASIN, writers=3)
            await set_up(cluster.url, BASIN, [writer.stream for writer in load.writers])
            load.start()
            for _ in range(3):
                await load.acknowledged(10)
                os.kill(int(cluster.file()["gateway"]["pid"]), signal.SIGKILL)
            await load.acknowledged(10)
            await load.stop()
            verdict = await load.verify()
            print(f"\n{verdict} ambiguous {load.ambiguous}")
            assert verdict.clean, verdict
            assert load.ambiguous > 0, "the kills hit nothing"

    asyncio.run(main())


def test_nothing_listens_after_stop(tmp_path: Path) -> None:
    """SIGTERM to the supervisor ends every process it started, with status 0."""

    async def main() -> None:
        async with running(tmp_path / "cluster") as cluster:
            pids = cluster.pids()
            assert cluster.stop() == 0
            assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
            api = ApiClient(cluster.url)
            with pytest.raises(ConnectionLostError) as lost:
                await api.check_tail(BASIN, "s")
            assert not lost.value.sent

    asyncio.run(main())
