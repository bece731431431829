"""A quorum is lost for good: what is left becomes a backup, which tells what may be missing."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from base64 import b64decode
from dataclasses import dataclass
from pathlib import Path

import pytest

from svc_cluster.base.ids import CATALOG_GROUP, Generation
from svc_cluster.base.log_ops import CreateReplica, LogOp
from svc_cluster.lab.api_client import ApiClient, AppendRecord
from tests.e2e.cluster import running
from tests.e2e.load import set_up
from tests.e2e.small_disk import MIB, mounted, unavailable
from tests.integration.test_backup import configured, restore_all
from tests.unit.backup.left_directory import leave, noops, tear

BASIN, STREAM = "recovered-basin", "orders"
EARLY, LATE = 60, 40
LARGE, LARGE_BYTES = 20, 100_000
"""Each so many-th record is so long that its bytes go into a payload file."""
END_S = 120.0
PAYLOAD = {"SVC_CLUSTER_PAYLOAD_FILES": "true"}


COMMAND = [sys.executable, "-m", "svc_cluster", "admin", "recover"]


def recover(*arguments: str, status: int = 0) -> str:
    done = subprocess.run(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=END_S,
        check=False,
    )
    assert done.returncode == status, done.stdout
    assert "Traceback" not in done.stdout
    return done.stdout


async def append(url: str, first: int, count: int) -> None:
    api = ApiClient(url)
    try:
        for number in range(first, first + count):
            body = b"%d" % number
            record = AppendRecord(body.rjust(LARGE_BYTES if number % LARGE == 0 else 0))
            answer = await api.append(BASIN, STREAM, [record])
            assert answer.status == 200, answer
    finally:
        api.close()


async def numbers(url: str) -> list[int]:
    api = ApiClient(url)
    try:
        found: list[int] = []
        while True:
            answer = await api.read(BASIN, STREAM, f"seq_num={len(found)}&clamp=true&count=1000")
            if answer.status != 200 or not answer.json()["records"]:
                return found
            found += [int(b64decode(record["body"])) for record in answer.json()["records"]]
    finally:
        api.close()


@dataclass(frozen=True, slots=True)
class Lost:
    """A cluster of three whose processes are all gone. `behind` was frozen when the late records
    were acknowledged; `ahead` has all of them."""

    directory: Path
    behind: int
    ahead: int

    def of(self, *nodes: int) -> list[str]:
        return [str(self.directory / f"node-{node}") for node in nodes]


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Lost:
    directory = tmp_path_factory.mktemp("recover") / "old"

    async def main() -> Lost:
        async with running(directory, environment=PAYLOAD) as cluster:
            await set_up(cluster.url, BASIN, [STREAM])
            await append(cluster.url, 0, EARLY)
            leader = await cluster.wait_leader(BASIN)
            behind = next(node for node in (3, 2) if node != leader)
            cluster.kill_node(behind, signal.SIGSTOP)
            await append(cluster.url, EARLY, LATE)
            return Lost(directory, behind, leader)

    return asyncio.run(main())


@pytest.mark.timeout(300)
def test_with_a_quorum_of_directories_nothing_is_missing(lost: Lost, tmp_path: Path) -> None:
    """Two of three are left, one of them behind: the other's log is taken, and a new cluster has
    every record that was acknowledged, and takes more."""
    rest = ["--at", str(tmp_path / "place"), "--key-file", str(tmp_path / "key")]
    left = lost.of(lost.behind, lost.ahead)
    before = {path: path.read_bytes() for path in Path(left[0]).rglob("*") if path.is_file()}
    told = recover(*left, *rest, "--force-new-cluster", status=1)
    assert f"{BASIN}: as node {lost.ahead} has it" in told
    assert "MAY HAVE BEEN" not in told
    assert f"   {STREAM}: ends before record {EARLY + LATE}\n" in told
    assert "say --yes" in told
    assert not (tmp_path / "place").exists(), "nothing was made"
    told = recover(*left, *rest, "--force-new-cluster", "--yes")
    assert "1 basins" in told
    after = {path: path.read_bytes() for path in Path(left[0]).rglob("*") if path.is_file()}
    assert after == before, "the directories stay as they are"
    assert not list(lost.directory.glob(".recover-*")), "and no copy is left"

    async def anew() -> None:
        directory = tmp_path / "new"
        await configured(directory, 3)
        await asyncio.to_thread(restore_all, directory, 3, rest)
        async with running(directory) as cluster:
            assert await numbers(cluster.url) == list(range(EARLY + LATE))
            await append(cluster.url, EARLY + LATE, 1)
            assert (await numbers(cluster.url))[-1] == EARLY + LATE

    asyncio.run(anew())


@pytest.mark.timeout(300)
def test_with_one_of_three_it_is_said_that_more_may_have_been_there(
    lost: Lost, tmp_path: Path
) -> None:
    """The one that was frozen has the early records, all of them, and none that came later."""
    rest = ["--at", str(tmp_path / "place"), "--key-file", str(tmp_path / "key")]
    told = recover(*lost.of(lost.behind), *rest, "--force-new-cluster", "--yes")
    assert f"{BASIN}: as node {lost.behind} has it" in told
    doubt = f"of its 3 replicas only these are here and whole: {lost.behind}"
    assert told.count(f"LATER RECORDS MAY HAVE BEEN ACKNOWLEDGED: {doubt}") == 2, "basin, catalog"

    async def anew() -> None:
        directory = tmp_path / "new"
        await configured(directory, 3)
        await asyncio.to_thread(restore_all, directory, 3, rest)
        async with running(directory) as cluster:
            found = await numbers(cluster.url)
            assert found == list(range(len(found)))
            assert EARLY <= len(found) < EARLY + LATE

    asyncio.run(anew())


@pytest.mark.timeout(120)
def test_what_is_no_lost_cluster_is_refused(lost: Lost, tmp_path: Path) -> None:
    """Without the word for it, of no node, of one node twice, and of one that runs."""
    rest = ["--at", str(tmp_path / "place"), "--key-file", str(tmp_path / "key")]
    left = lost.of(lost.ahead)
    assert "say --force-new-cluster" in recover(*left, *rest, status=2)
    forced = [*rest, "--force-new-cluster", "--yes"]
    assert "not the data directory of a node" in recover(str(tmp_path), *forced, status=1)
    twice = tmp_path / "twice"
    shutil.copytree(left[0], twice)
    assert "two directories are of one node" in recover(*left, str(twice), *forced, status=1)
    (twice / "wal" / "identity").unlink()
    assert "does not say whose it is" in recover(str(twice), *forced, status=1)

    async def in_use() -> str:
        async with running(tmp_path / "runs", nodes=1):
            return await asyncio.to_thread(
                recover, str(tmp_path / "runs" / "node-1"), *forced, status=1
            )

    assert "in use by another process" in asyncio.run(in_use())
    assert not (tmp_path / "place").exists()


@pytest.mark.timeout(60)
def test_damage_in_a_directory_neither_ends_the_command_nor_leaves_a_copy(tmp_path: Path) -> None:
    """The other one is taken; with the damaged one alone there is nothing to go on with."""
    rest = ["--at", str(tmp_path / "place"), "--key-file", str(tmp_path / "key")]
    forced = [*rest, "--force-new-cluster"]

    async def main() -> None:
        logs: dict[int, list[LogOp]] = {
            CATALOG_GROUP: [CreateReplica(Generation(1)), noops(1, 4, 3)]
        }
        filled = {b"\xf0%06d" % number: b"x" * 100 for number in range(2_000)}
        for node in (1, 2):
            await leave(tmp_path / f"node-{node}", node, logs, rows={1: filled})

    asyncio.run(main())
    tear(tmp_path / "node-1")
    both = [str(tmp_path / "node-1"), str(tmp_path / "node-2")]
    told = recover(*both, *forced, status=1)
    assert "catalog: as node 2 has it" in told
    assert f"the replica in {both[0]}, of node 1, cannot be read" in told
    assert "none of the directories has the catalog" in recover(both[0], *forced, status=1)
    assert not list(tmp_path.glob(".recover-*"))


async def small(directory: Path) -> None:
    """A directory whose catalog has four entries."""
    logs: dict[int, list[LogOp]] = {CATALOG_GROUP: [CreateReplica(Generation(1)), noops(1, 4, 3)]}
    await leave(directory, 1, logs)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("under", ["the copying", "the log"])
def test_a_disk_that_fills_up_is_told_with_the_room_that_is_wanted(
    under: str, tmp_path: Path
) -> None:
    """The log that is opened in the copy makes a segment where there is no free one. No copy is
    left."""
    work = tmp_path / "work"
    why_not = unavailable(work)
    if why_not is not None:
        pytest.skip(f"no file system can be mounted: {why_not}")
    place = tmp_path / "node-1"
    asyncio.run(small(place))
    if under == "the copying":
        (place / "state" / "more").write_bytes(b"x" * 10 * MIB)
    else:
        (place / "wal" / "wal-00000002.segment").unlink()
    taken = sum(path.stat().st_blocks * 512 for path in place.rglob("*") if path.is_file())
    rest = ["--at", str(tmp_path / "place"), "--work-dir", str(work), "--force-new-cluster"]
    with mounted(work, 8):
        told = recover(str(place), *rest, status=74)
        assert f"they take {taken / MIB:.1f} MiB" in told
        assert "the copies" in told
        assert "--work-dir" in told
        assert not list(work.iterdir())


@pytest.mark.timeout(60)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_recovery_that_is_ended_by_a_signal_leaves_no_copy(
    number: signal.Signals, tmp_path: Path
) -> None:
    """It hangs over a file that gives nothing, in the middle of the copying."""
    place = tmp_path / "node-1"
    asyncio.run(small(place))
    os.mkfifo(place / "wal" / "hangs")
    rest = ["--at", str(tmp_path / "place"), "--force-new-cluster"]
    runs = subprocess.Popen(
        [*COMMAND, str(place), *rest], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    writer = os.open(place / "wal" / "hangs", os.O_WRONLY)  # once the other end is open
    try:
        assert list(tmp_path.glob(".recover-*"))
        os.killpg(runs.pid, number)  # as a terminal does
        _, said = runs.communicate(timeout=30)
    finally:
        runs.kill()
        os.close(writer)
    assert runs.returncode == 128 + number
    assert said == f"svc-cluster: ended by a signal; the copies in {tmp_path} were removed\n"
    assert not list(tmp_path.glob(".recover-*"))
