"""Disks with less room than the reserve, and with none at all."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from svc_cluster.base.clock import SystemClock
from svc_cluster.cli.cluster_file import read_cluster_file
from svc_cluster.lab.api_client import ApiClient, AppendRecord, decode_batch
from svc_cluster.lab.own_cluster import OwnCluster
from svc_cluster.settings_errors import EXIT_DIRECTORY
from svc_cluster.storage.worker import EXIT_STORAGE
from tests.e2e.cluster import SameCommand, running
from tests.e2e.load import set_up
from tests.e2e.small_disk import ADVICE_TO_DESTROY, fill, mounted, unavailable
from tests.own_processes import node_pids

BASIN = "full-disk-basin"
MORE_THAN_ANY_DISK_MIB = 2**30
DISK_MIB = 160
NODES = (1, 2, 3)
DEADLINE_S = 60.0
ROOM_FOR_SETTINGS = 24 * 1024
OVERRIDES = {"wal_segment_mib": 8, "disk_reserve_mib": 16, "flush_seconds": 1.0}


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


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of DISK_MIB."""
    place = tmp_path / "disk"
    place.mkdir()
    why = unavailable(place)
    if why is not None:
        pytest.skip(f"nothing can be mounted here ({why}): a disk that is really full is not tried")
    with mounted(place, DISK_MIB) as disk:
        yield disk


@contextlib.asynccontextmanager
async def on_small_disk(disk: Path, logs: Path) -> AsyncIterator[OwnCluster]:
    """Three nodes with all they have on one small disk, but for what they say, which is in `logs`:
    a test has to read it."""
    directory = disk / "cluster"
    directory.mkdir()
    logs.mkdir()
    for name in ("node-1", "node-2", "node-3", "gateway"):
        (directory / f"{name}.log").symlink_to(logs / f"{name}.log")
    environment = {"SVC_CLUSTER_LOCAL_OVERRIDES": json.dumps(OVERRIDES)}
    cluster = OwnCluster(directory, environment=environment)
    cluster.log_path = logs / "supervisor.log"
    cluster.start()
    try:
        await cluster.wait_ready(DEADLINE_S)
        yield cluster
    except BaseException:
        print(cluster.log_tail(60))
        raise
    finally:
        cluster.stop()


def said(logs: Path) -> str:
    """Everything that the supervisor and its processes have said."""
    return "".join(path.read_text(errors="replace") for path in sorted(logs.glob("*.log")))


async def until_said(path: Path, words: str) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not path.exists() or words not in path.read_text(errors="replace"):
            await asyncio.sleep(0.05)


async def bodies(api: ApiClient) -> list[bytes]:
    read = await api.read(BASIN, "s", "seq_num=0&count=1000")
    assert read.status == 200, read.body
    return [record.body for record in decode_batch(read.body)]


async def refused(api: ApiClient, body: bytes) -> None:
    """An append that has certainly not happened, and says so."""
    answer = await api.append(BASIN, "s", [AppendRecord(body)], timeout_s=30.0)
    assert (answer.status, answer.headers["svc-side-effects"]) == (503, "none"), answer.body


async def appended(api: ApiClient, body: bytes) -> None:
    """Until it is acknowledged; every refusal before says that it has had no effect."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            answer = await api.append(BASIN, "s", [AppendRecord(body)], timeout_s=30.0)
            if answer.status == 200:
                return
            assert answer.headers["svc-side-effects"] == "none", answer.body


@pytest.mark.timeout(240)
def test_full_disks_refuse_appends_and_all_goes_on_once_there_is_room(
    small_disk: Path, tmp_path: Path
) -> None:
    """With not one byte left, appends are refused as certainly not done, and reads go on past the
    regular flushes. Nodes that are killed then are refused their start and told how full the disk
    is; the supervisor, which cannot write its own file, starts them until there is room. From then
    on all works, with what was acknowledged and nothing else, and nobody has restarted anything.
    No sentence of all that advises to take files of a node away."""
    logs = tmp_path / "logs"

    async def main() -> None:
        async with on_small_disk(small_disk, logs) as cluster:
            await set_up(cluster.url, BASIN, ["s"])
            api = ApiClient(cluster.url)
            kept = [b"%d" % number * 100 for number in range(20)]
            for body in kept:
                await appended(api, body)
            filler = fill(small_disk)
            before = node_pids(cluster)
            for node in NODES:
                await until_said(logs / f"node-{node}.log", "flush_postponed")
            await refused(api, b"none")
            assert await bodies(api) == kept
            assert node_pids(cluster) == before and "ended with" not in said(logs)

            cluster.kill_node(1)
            await until_said(cluster.log_path, f"node-1 ended with status {EXIT_DIRECTORY}")
            await until_said(cluster.log_path, "cluster.json is out of date")
            await refused(api, b"none")
            assert await bodies(api) == kept, "two of three still answer"
            for node in (2, 3):
                cluster.kill_node(node)
                await until_said(
                    cluster.log_path, f"node-{node} ended with status {EXIT_DIRECTORY}"
                )
            await refused(api, b"none")

            filler.unlink()
            await appended(api, b"after")
            assert await bodies(api) == [*kept, b"after"]
            await cluster.wait_ready(DEADLINE_S)
            pids = node_pids(cluster)
            assert len(pids) == len(NODES) and not set(pids.values()) & set(before.values())
            api.close()

    asyncio.run(main())
    check_told(logs, small_disk)


@pytest.mark.timeout(240)
def test_what_a_full_disk_stops_says_so_and_advises_to_destroy_nothing(
    small_disk: Path, tmp_path: Path
) -> None:
    """A stop while the disk is full, the start of a node there, and that of the whole command: each
    ends with a status that is tried again, and each sentence names the disk and what to do. A whole
    start for which only the nodes lack room goes on as soon as they have it."""
    logs = tmp_path / "logs"

    async def main() -> None:
        async with on_small_disk(small_disk, logs) as cluster:
            await set_up(cluster.url, BASIN, ["s"])
            api = ApiClient(cluster.url)
            await appended(api, b"kept")
            api.close()
            node = SameCommand(node_pids(cluster)[1])
            filler = fill(small_disk)
            await until_said(logs / "node-1.log", "flush_postponed")
            supervisor_pid = int(read_cluster_file(cluster.directory)["supervisor_pid"])
            whole = SameCommand(supervisor_pid)
            cluster.stop()
            for command in (node, whole):
                status, sentence = await asyncio.to_thread(command.refusal)
                assert status in (EXIT_DIRECTORY, EXIT_STORAGE), sentence
                assert f"file system {small_disk}" in sentence and "make room" in sentence
                assert not ADVICE_TO_DESTROY.search(sentence), sentence
            os.truncate(filler, filler.stat().st_size - ROOM_FOR_SETTINGS)
            cluster.start()
            await until_said(cluster.log_path, "it again in 0.2 s")
            filler.unlink()
            await cluster.wait_ready(DEADLINE_S)
            api = ApiClient(cluster.url)
            assert await bodies(api) == [b"kept"]
            api.close()

    asyncio.run(main())
    check_told(logs, small_disk)


def check_told(logs: Path, disk: Path) -> None:
    """Sentences about the disk are there, and in none of all is advice to destroy."""
    lines = said(logs).splitlines()
    for line in lines:
        assert not ADVICE_TO_DESTROY.search(line), line
    about = [line for line in lines if "No space left" in line]
    assert about
    for line in about:
        assert f"file system {disk} with " in line and "make room" in line, line


def test_the_pattern_finds_the_advice_that_was_once_given() -> None:
    """The check of the sentences above is one that can fail."""
    assert ADVICE_TO_DESTROY.search("or remove it together with the WAL and rejoin as a new node")
    assert not ADVICE_TO_DESTROY.search("make room on it; leave the node's own files as they are")
