"""How the store in memory crashes and stalls."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

import pytest

from svc_cluster.base.write_set import WriteSet
from svc_cluster.storage.state_store import StoreStalledError
from tests.memory_store import MemoryStore


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def write(store: MemoryStore, number: int) -> None:
    """Two keys in one set, so that a set that survives in part would show."""
    write_set = WriteSet()
    write_set.put(b"a%04d" % number, b"x")
    write_set.put(b"b%04d" % number, b"x")
    store.write(write_set)


def survivors(store: MemoryStore) -> list[int]:
    first = [int(key[1:]) for key, _ in store.scan(b"a", b"b")]
    second = [int(key[1:]) for key, _ in store.scan(b"b", b"c")]
    assert first == second, "write sets survive whole"
    return first


def test_a_crash_keeps_the_flushed_and_a_prefix_of_the_rest(
    loop: asyncio.AbstractEventLoop,
) -> None:
    """Over many seeds: never less than the flush covered, always a prefix, sometimes a true one."""
    counts = set()
    for seed in range(60):
        store = MemoryStore(loop, random.Random(seed), flush_ms=(0, 0))
        for number in range(5):
            write(store, number)

        async def flush(store: MemoryStore = store) -> None:
            done = loop.create_future()
            store.flush(lambda: done.set_result(None))
            write(store, 5)  # behind the call: not covered by it
            await done

        loop.run_until_complete(flush())
        for number in range(6, 10):
            write(store, number)
        left = survivors(store.crash())
        assert left == list(range(len(left)))
        counts.add(len(left))
    assert min(counts) == 5
    assert max(counts) == 10


def test_a_flush_in_progress_at_the_crash_is_never_reported(
    loop: asyncio.AbstractEventLoop,
) -> None:
    """The dead store's callbacks do not run in the next life."""
    store = MemoryStore(loop, random.Random(3), flush_ms=(0, 0))
    write(store, 1)
    done: list[int] = []
    store.flush(lambda: done.append(1))
    store.crash()
    loop.run_until_complete(asyncio.sleep(0.001))
    assert done == []


def test_a_stall_writes_nothing(loop: asyncio.AbstractEventLoop) -> None:
    """A refused write leaves no trace, and the next attempt may succeed."""
    store = MemoryStore(loop, random.Random(5), stall_probability=0.5)
    written = []
    stalls = 0
    for number in range(100):
        try:
            write(store, number)
            written.append(number)
        except StoreStalledError:
            stalls += 1
    assert survivors(store) == written
    assert 20 < stalls < 80


def test_a_written_set_may_be_changed_afterwards(loop: asyncio.AbstractEventLoop) -> None:
    """The store keeps its own copy of what was written."""
    store = MemoryStore(loop, random.Random(5))
    write_set = WriteSet()
    write_set.put(b"a", b"1")
    store.write(write_set)
    write_set.put(b"b", b"2")
    store._make_durable(1)
    assert store.crash().get(b"b") is None
