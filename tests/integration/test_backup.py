"""Backups of real clusters, killed on their way, and restored into others of another size."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from svc_cluster.http.client import ConnectionLostError
from svc_cluster.lab.api_client import ApiClient, AppendRecord
from svc_cluster.lab.own_cluster import OwnCluster, get_json
from tests.e2e.cluster import running
from tests.e2e.load import set_up

BASIN = "backup-basin"
STREAMS = ("one", "two")
BATCHES = int(os.environ.get("BACKUP_BATCHES", "40"))
NODES = tuple(map(int, os.environ.get("BACKUP_NODES", "1 3").split()))
"""Of the cluster that is backed up, and of the one that comes up from it."""
KILLS = int(os.environ.get("BACKUP_KILLS", "4"))
END_S = 120.0


def command(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "svc_cluster", "backup", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def told(*arguments: str, status: int = 0) -> str:
    """What the command says; it has to end with this status."""
    process = command(*arguments)
    said, _ = process.communicate(timeout=END_S)
    assert process.returncode == status, said
    return said


def killed(*arguments: str, after_s: float) -> None:
    """Begin the command and end it with SIGKILL, if it has not ended by then."""
    process = command(*arguments)
    try:
        process.wait(after_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    process.communicate()


async def fill(url: str, stream: str, batches: int, rng: random.Random) -> None:
    api = ApiClient(url)
    try:
        for _ in range(batches):
            records = [AppendRecord(rng.randbytes(8000)) for _ in range(32)]
            answer = await api.append(BASIN, stream, records)
            assert answer.status == 200, answer
    finally:
        api.close()


async def content(url: str, stream: str) -> list[bytes]:
    """Every answer of reading the stream from its beginning to its tail, as it came."""
    api = ApiClient(url)
    found: list[bytes] = []
    try:
        tail = int((await api.check_tail(BASIN, stream)).json()["tail"]["seq_num"])
        for first in range(0, tail, 64):
            answer = await api.read(BASIN, stream, f"seq_num={first}&count=64")
            assert answer.status == 200, answer
            found.append(answer.body)
    finally:
        api.close()
    return found


async def configured(directory: Path, nodes: int) -> None:
    """The files that a cluster in `directory` has before it has run with what is restored."""
    cluster = OwnCluster(directory, nodes=nodes)
    cluster.start()
    try:
        async with asyncio.timeout(END_S):
            while not all((directory / f"node-{n + 1}").is_dir() for n in range(nodes)):
                await asyncio.sleep(0.1)
    finally:
        cluster.end()


def restore_all(directory: Path, nodes: int, rest: Sequence[str]) -> None:
    """Each node of a cluster that is configured in `directory`, and has not run with its data."""
    for node in range(1, nodes + 1):
        shutil.rmtree(directory / f"node-{node}")
        said = told("restore", "--config", str(directory / f"node-{node}.yaml"), *rest)
        assert "what came later is not in it" in said


async def is_ready(cluster: OwnCluster) -> bool:
    """Whether the gateway says so."""
    try:
        return (await get_json(cluster.port, "/readyz"))[0] == 200
    except ConnectionLostError:
        return False


def once_more(directory: Path, rest: Sequence[str], kept: list[bytes]) -> None:
    """The last node's directory is restored once more, after the cluster was formed: it is refused,
    and the others serve what they have."""
    last = f"node-{NODES[1]}"
    shutil.rmtree(directory / last)
    (directory / f"{last}.log").unlink()
    told("restore", "--config", str(directory / f"{last}.yaml"), *rest)

    async def main() -> None:
        cluster = OwnCluster(directory, nodes=NODES[1])
        cluster.start()
        try:
            async with asyncio.timeout(END_S):
                log = directory / f"{last}.log"
                while not log.exists() or "node_refused" not in log.read_text():
                    await asyncio.sleep(0.1)
            assert "was restored after the cluster was formed" in log.read_text()
            async with asyncio.timeout(END_S):
                while not await is_ready(cluster):
                    await asyncio.sleep(0.1)
            assert await content(cluster.url, "one") == kept
        finally:
            cluster.stop()

    asyncio.run(main())


def test_a_cluster_comes_back_in_another_size_as_its_backup_has_it(tmp_path: Path) -> None:
    """A cluster is backed up by commands that are killed; a second backup moves what is new; all
    nodes are gone; more come up from the backup, with every byte up to it, and go on. What is
    flipped in a chunk then is found and named."""
    rng = random.Random(17)
    rest = ["--at", str(tmp_path / "backups"), "--key-file", str(tmp_path / "key")]

    async def before() -> dict[str, list[bytes]]:
        async with running(tmp_path / "first", nodes=NODES[0]) as cluster:
            await set_up(cluster.url, BASIN, list(STREAMS))
            await fill(cluster.url, "one", BATCHES, rng)
            create = ["create", "--data-dir", str(tmp_path / "first"), *rest]
            for _ in range(KILLS):
                await asyncio.to_thread(killed, *create, after_s=rng.uniform(0.5, 4))
            await asyncio.to_thread(told, *create)
            await fill(cluster.url, "two", 1, rng)
            kept = {stream: await content(cluster.url, stream) for stream in STREAMS}
            said = await asyncio.to_thread(told, *create)
            added = int(said.rpartition(" bytes added")[0].rpartition(" ")[2])
            assert added < 8000 * 32 * 1.1 + 50_000, said
            await fill(cluster.url, "one", 1, rng)
            return kept

    kept = asyncio.run(before())
    assert "whole" in told("verify", *rest)
    shutil.rmtree(tmp_path / "first")

    async def after() -> None:
        directory = tmp_path / "second"
        await configured(directory, NODES[1])
        await asyncio.to_thread(restore_all, directory, NODES[1], rest)
        async with running(directory, nodes=NODES[1]) as cluster:
            for stream in STREAMS:
                assert await content(cluster.url, stream) == kept[stream]
            await fill(cluster.url, "one", 1, rng)
            kept["one"] = await content(cluster.url, "one")

    asyncio.run(after())
    once_more(tmp_path / "second", rest, kept["one"])
    chunk = next((tmp_path / "backups" / "chunks").iterdir())
    harmed = bytearray(chunk.read_bytes())
    harmed[len(harmed) // 2] ^= 4
    chunk.write_bytes(harmed)
    said = told("verify", *rest, status=1)
    assert f"chunks/{chunk.name} is damaged" in said
