"""What looking the latest batch up costs a node, wherever the store has it, beside a dictionary:
`python -m tests.benchmarks.tail_lookups`, some seconds.

The most that a copy of the tail in a node's memory could spare each read. One process, a real log
and store; the four ways take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

from svc_cluster.base.ids import Generation, GroupId, LogIndex, Term
from svc_cluster.base.log_ops import AppendEntries, CreateReplica, LogEntry
from svc_cluster.base.write_set import Origin, WriteSet
from svc_cluster.storage.disk import RealDisk
from svc_cluster.storage.payload.payload_settings import PayloadSettings
from svc_cluster.storage.payload.payload_store import PayloadStore
from svc_cluster.storage.rocks_store import RocksStore
from svc_cluster.storage.state_store import Peeked, StateStore
from svc_cluster.storage.wal import Wal, WalSettings

GROUP: Final = GroupId(1)
HEAD: Final = bytes(56)
BATCHES: Final = 64


def _key(number: int) -> bytes:
    return b"\0" * 7 + b"\1" + number.to_bytes(8, "big")


def _filled(store: StateStore, values: list[bytes]) -> None:
    for number, value in enumerate(values):
        write_set = WriteSet()
        write_set.put(_key(number), value)
        store.write(write_set)


async def _flushed(store: StateStore) -> None:
    done = asyncio.get_running_loop().create_future()
    store.flush(lambda: done.set_result(None))
    await done


async def _apart(directory: Path, values: list[bytes]) -> tuple[StateStore, Wal, RealDisk]:
    """A store whose values stand in payload files."""
    loop = asyncio.get_running_loop()
    (directory / "wal").mkdir()
    disk = RealDisk(directory / "wal", loop)
    wal = Wal.open(disk, 1, WalSettings(payload=PayloadSettings(writes=True)))
    store = PayloadStore(RocksStore(directory / "apart", loop), wal.payloads, wal, loop)
    wal.append(GROUP, [CreateReplica(Generation(1))], None)
    for number, value in enumerate(values, 1):
        done = loop.create_future()
        entry = LogEntry(LogIndex(number), Term(1), value)
        wal.append(GROUP, [AppendEntries((entry,))], lambda done=done: done.set_result(None))  # type: ignore[misc]
        await done
        write_set = WriteSet()
        write_set.put(_key(number - 1), HEAD + value, head_bytes=len(HEAD))
        place = wal.place_of(GROUP, LogIndex(number))
        if place is not None:
            write_set.origin = Origin(place.number, place.offset, value)
        store.write(write_set)
    return store, wal, disk


def _us(peek: Callable[[bytes], Peeked | None], lookups: int) -> float:
    keys = [_key(number) for number in range(BATCHES)]
    begun = time.process_time()
    for number in range(lookups):
        assert type(peek(keys[number % BATCHES])) is bytes
    return (time.process_time() - begun) / lookups * 1e6


async def main(turns: int, lookups: int) -> None:
    loop = asyncio.get_running_loop()
    for size in (1000, 100_000):
        values = [os.urandom(size) for _ in range(BATCHES)]
        with tempfile.TemporaryDirectory() as place:
            directory = Path(place)
            kept = {_key(number): value for number, value in enumerate(values)}
            memory = RocksStore(directory / "memory", loop)
            _filled(memory, values)
            flushed = RocksStore(directory / "flushed", loop)
            _filled(flushed, values)
            await _flushed(flushed)
            apart, wal, disk = await _apart(directory, values)
            for number in range(BATCHES):
                assert flushed.get(_key(number)) == values[number]
            ways: dict[str, Callable[[bytes], Peeked | None]] = {
                "dictionary": kept.get,
                "store's memory": memory.peek,
                "flushed, in its cache": flushed.peek,
                "payload file": apart.peek,
            }
            taken: dict[str, list[float]] = {name: [] for name in ways}
            for _ in range(turns):
                for name, peek in ways.items():
                    taken[name].append(_us(peek, lookups))
            told = {name: round(median(all_us), 2) for name, all_us in taken.items()}
            print(json.dumps({"batch_bytes": size, "us": told}), flush=True)
            await wal.close()
            for store in (memory, flushed, apart):
                store.close()
            disk.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.tail_lookups")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--lookups", type=int, default=2000)
    given = parser.parse_args()
    asyncio.run(main(given.turns, given.lookups))
