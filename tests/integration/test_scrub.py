"""The scrub over real stores: rows that are gone from one node's disk while all else of it is in
order, a table that is lost, and what a turn of the event loop costs."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rocksdict import Options as RocksOptions
from rocksdict import Rdict

from svc_cluster.base.clock import SystemClock
from svc_cluster.base.guarded import guarded
from svc_cluster.base.ids import Generation, StreamId
from svc_cluster.base.log import get_logger
from svc_cluster.base.write_set import WriteSet
from svc_cluster.lab.api_client import ApiClient, decode_batch
from svc_cluster.model.content import Chunk
from svc_cluster.replica.prefixed import PREFIX_BYTES, PrefixedReader, generation_prefix
from svc_cluster.replica.scrub_reader import ScrubReader
from svc_cluster.storage.rocks_settings import RocksSettings
from svc_cluster.storage.rocks_store import RocksStore
from svc_cluster.storage.state_store import StoreStalledError
from svc_cluster.stream import keys
from svc_cluster.stream.basin_content import BasinContent
from tests.e2e.cluster import running, same_applied, whole
from tests.e2e.load import set_up
from tests.integration.processes import flushed_nodes, samples
from tests.integration.test_snapshot_install import BASIN, STREAM, write
from tests.service_process import service
from tests.unit.stream.support import NOW, Leader, batch

TURN_SECONDS = 0.02
"""Of processor time, the bound for every turn of the loop."""
FAST = 1e12
SMALL_TABLES = RocksSettings(write_buffer_bytes=256 * 1024)


async def filled(store: RocksStore, generation: Generation, batches: int, body_bytes: int) -> None:
    """A basin with one long stream, as applied."""
    leader = Leader()
    leader.create("long")
    for number in range(batches):
        body = number.to_bytes(8, "big") + os.urandom(body_bytes - 8)
        leader.append("long", batch(3, records=body), now_ms=NOW + number)
    for key, value in leader.store.values.items():
        write_set = WriteSet()
        write_set.put(generation_prefix(generation) + key, value)
        while True:
            try:
                store.write(write_set)
            except StoreStalledError:
                await flushed(store)
            else:
                break


def write_into(store: RocksStore, generation: Generation, values: dict[bytes, bytes]) -> None:
    write_set = WriteSet()
    for key, value in values.items():
        write_set.put(generation_prefix(generation) + key, value)
    store.write(write_set)


async def flushed(store: RocksStore) -> None:
    done = asyncio.Event()
    store.flush(done.set)
    await done.wait()


async def chunk_of(store: RocksStore, generation: Generation, turns: list[float]) -> Chunk:
    """All of it as one chunk, read as a node reads it; `turns` gets what each turn took."""

    def timed(
        turn: Callable[..., object], on_fatal: Callable[[BaseException], None]
    ) -> Callable[..., None]:
        run = guarded(turn, on_fatal)

        def timed_turn() -> None:
            begun = time.thread_time()
            run()
            turns.append(time.thread_time() - begun)

        return timed_turn

    faults: list[BaseException] = []
    loop = asyncio.get_running_loop()
    reader = ScrubReader(
        loop,
        SystemClock(),
        get_logger("test"),
        lambda turn: timed(turn, faults.append),
        FAST,
    )
    done: asyncio.Future[Chunk | None] = loop.create_future()
    view = store.snapshot(fills_cache=False)
    visits = BasinContent().visits(PrefixedReader(view, generation), b"")
    reader.read(view, visits, 2**40, done.set_result)
    found = await done
    assert found is not None
    assert not faults
    return found


@pytest.mark.parametrize(("batches", "body_bytes"), [(3_000, 40), (40, 1024 * 1024)])
def test_no_turn_of_the_loop_is_long(tmp_path: Path, batches: int, body_bytes: int) -> None:
    """However small or large the rows are, and from tables, not from memory."""

    async def main() -> None:
        store = RocksStore(tmp_path, asyncio.get_running_loop(), SMALL_TABLES)
        await filled(store, Generation(7), batches, body_bytes)
        await flushed(store)
        turns: list[float] = []
        found = await chunk_of(store, Generation(7), turns)
        assert found.rows >= batches
        assert not found.flaw
        assert len(turns) > 10
        assert max(turns) < TURN_SECONDS, sorted(turns)[-5:]
        store.close()

    asyncio.run(main())


def test_a_view_is_as_of_its_moment_while_others_write(tmp_path: Path) -> None:
    """What is applied behind the index while the chunk is read is not in it."""

    async def main() -> None:
        store = RocksStore(tmp_path, asyncio.get_running_loop(), SMALL_TABLES)
        one = Generation(1)
        await filled(store, one, 300, 500)
        wanted = await chunk_of(store, one, [])
        reading = asyncio.ensure_future(chunk_of(store, one, []))
        await asyncio.sleep(0)
        gone = WriteSet()
        gone.delete_range(generation_prefix(one), generation_prefix(Generation(2)))
        store.write(gone)
        await flushed(store)
        assert await reading == wanted
        assert (await chunk_of(store, one, [])).rows == 0
        store.close()

    asyncio.run(main())


def test_a_lost_table_is_a_difference_and_a_flaw(tmp_path: Path) -> None:
    """A file of the store is gone and its directory was mended without it: all that is left reads
    well, and other content than before."""

    async def main() -> None:
        loop, one = asyncio.get_running_loop(), Generation(1)
        store = RocksStore(tmp_path, loop, SMALL_TABLES)
        leader = Leader()
        leader.create("long")
        for number in range(200):
            leader.append("long", batch(1, records=os.urandom(500)), now_ms=NOW + number)
        ordered = sorted(leader.store.values.items())
        third = -(-len(ordered) // 3)  # a table each, none above another, too few to be compacted
        for begin in range(0, len(ordered), third):
            write_into(store, one, dict(ordered[begin : begin + third]))
            await flushed(store)
        wanted = await chunk_of(store, one, [])
        assert not wanted.flaw
        store.close()
        tables = sorted(tmp_path.glob("*.sst"))
        assert len(tables) == 3
        tables[1].unlink()
        Rdict.repair(str(tmp_path), RocksOptions(raw_mode=True))
        store = RocksStore(tmp_path, loop, SMALL_TABLES)
        found = await chunk_of(store, one, [])
        assert 0 < found.rows < wanted.rows
        assert found.identity != wanted.identity
        assert "missing" in found.flaw
        store.close()

    asyncio.run(main())


def _harm_store(directory: Path) -> int:
    """While its node is down: batches of the stream are gone, and two values exchanged."""
    loop = asyncio.new_event_loop()
    store = RocksStore(directory, loop)
    start, _ = keys.batches_range(StreamId(1))
    found = [
        (key, value)
        for key, value in store.scan(b"", b"\xff" * PREFIX_BYTES)
        if key[PREFIX_BYTES:].startswith(start)
    ]
    write_set = WriteSet()
    for key, _ in found[3:6]:
        write_set.delete(key)
    write_set.put(found[0][0], found[1][1])
    write_set.put(found[1][0], found[0][1])
    store.write(write_set)
    store.close()
    loop.close()
    return len(found)


def test_rows_that_vanish_from_a_nodes_disk_are_found_and_repaired(tmp_path: Path) -> None:
    """Three nodes; one is killed, its store harmed behind its back, and it is started again: its
    replica says that it has diverged, is repaired from the others, and all that was written is
    read from it when it has to serve."""
    settings = {"flush_seconds": 0.3, "scrub_interval_seconds": 1.0}
    environment = {"SVC_CLUSTER_LOCAL_OVERRIDES": json.dumps(settings)}

    async def main() -> None:
        directory = tmp_path / "cluster"
        async with running(directory, options=["--no-restart"], environment=environment) as cluster:
            await set_up(cluster.url, BASIN, [STREAM])
            await write(cluster.url, 3)
            leader = await cluster.wait_leader(BASIN)
            victim = next(node for node in (3, 2, 1) if node != leader)
            # what is harmed must be flushed, or the log makes it whole
            await same_applied(cluster, BASIN, 3)
            await flushed_nodes([int(cluster.node(victim)["admin_port"])])
            await _gone(cluster.kill_node(victim))
            assert _harm_store(directory / f"node-{victim}" / "state") >= 6
            log = directory / "again.log"
            with service("node", directory / f"node-{victim}.yaml", log, environment=environment):
                async with asyncio.timeout(120):
                    while b"replica_repaired" not in log.read_bytes():
                        await asyncio.sleep(0.2)
                assert b"state_diverged" in log.read_bytes()
                assert b"the scrub" in log.read_bytes()
                await whole(cluster, BASIN, 3)
                repaired = await samples(int(cluster.node(victim)["admin_port"]))
                assert repaired["svc_raft_replicas_repaired_total"] == 1
                compared = [
                    (await samples(int(cluster.node(node)["admin_port"])))[
                        "svc_scrub_differences_total"
                    ]
                    for node in {1, 2, 3} - {victim}
                ]
                assert sum(compared) >= 1, "whoever led the round has counted it"
                others = {1, 2, 3} - {victim, leader}
                cluster.kill_node(leader)
                assert await cluster.wait_leader(BASIN) in others | {victim}
                assert await _read_all(cluster.url) == 3 * 4 * 32

    asyncio.run(main())


async def _gone(pid: int) -> None:
    """Until the process has ended, and its locks with it."""
    async with asyncio.timeout(30):
        while Path(f"/proc/{pid}").exists():
            await asyncio.sleep(0.05)


async def _read_all(url: str) -> int:
    """How many records there are, which are the right ones in order."""
    api = ApiClient(url)
    count = 0
    try:
        while True:
            answer = await api.read(BASIN, STREAM, f"seq_num={count}&count=1000")
            found = decode_batch(answer.body) if answer.status == 200 else []
            assert answer.status in (200, 416), answer
            if not found:
                return count
            for record in found:
                assert record.body.startswith(b"%06d/%03d/" % (count // 32, count % 32))
                count += 1
    finally:
        api.close()
