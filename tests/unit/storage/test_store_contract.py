"""What every state store must do, run against each of them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from svc_cluster.base.write_set import WriteSet
from svc_cluster.storage.payload.payload_store import PayloadStore
from svc_cluster.storage.rocks_settings import RocksSettings
from svc_cluster.storage.rocks_store import RocksStore
from svc_cluster.storage.state_store import FETCHED_KEYS_MAX, StateStore
from tests.memory_store import MemoryStore
from tests.unit.storage.fakes import FakeDisk
from tests.unit.storage.payload_driver import open_apart

Opener = Callable[[], StateStore]


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture(params=["memory", "rocks", "payload"])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, loop: asyncio.AbstractEventLoop
) -> Iterator[StateStore]:
    store: StateStore
    if request.param == "memory":
        store = MemoryStore(loop, random.Random(1))
    elif request.param == "payload":
        wal = open_apart(FakeDisk())
        rows = RocksStore(tmp_path, loop, RocksSettings(write_buffer_bytes=1 << 20))
        store = PayloadStore(rows, wal.payloads, wal, loop)
    else:
        store = RocksStore(tmp_path, loop, RocksSettings(write_buffer_bytes=1 << 20))
    yield store
    store.close()


def put(store: StateStore, **pairs: bytes) -> None:
    write_set = WriteSet()
    for key, value in pairs.items():
        write_set.put(key.encode(), value)
    store.write(write_set)


def keys(pairs: Iterator[tuple[bytes, bytes]]) -> list[bytes]:
    return [key for key, _ in pairs]


def test_a_written_value_is_read_at_once(store: StateStore) -> None:
    """Reads see writes before any flush; an absent key is None; empty values are values."""
    put(store, a=b"1", empty=b"")
    assert (store.get(b"a"), store.get(b"empty"), store.get(b"b")) == (b"1", b"", None)


def test_scans_are_half_open_and_ordered(store: StateStore) -> None:
    """The start is in, the end is not; reversed is the same range backwards."""
    put(store, d=b"4", b=b"2", a=b"1", c=b"3")
    assert keys(store.scan(b"b", b"d")) == [b"b", b"c"]
    assert keys(store.scan(b"b", b"d", reverse=True)) == [b"c", b"b"]
    assert list(store.scan(b"a", b"b")) == [(b"a", b"1")]
    assert keys(store.scan(b"x", b"z")) == []
    assert keys(store.scan(b"c", b"a")) == []
    assert keys(store.scan(b"a", b"c\x00")) == [b"a", b"b", b"c"]


def test_keys_order_as_bytes(store: StateStore) -> None:
    """Order is that of unsigned bytes, a prefix before what it is a prefix of."""
    wanted = [b"\x00", b"\x00\x00", b"\x01", b"a", b"a\x00", b"\x7f", b"\x80", b"\xff", b"\xff\xff"]
    write_set = WriteSet()
    for key in reversed(wanted):
        write_set.put(key, key)
    store.write(write_set)
    assert keys(store.scan(b"", b"\xff\xff\xff")) == wanted


def test_a_later_operation_of_a_set_wins(store: StateStore) -> None:
    """Operations of one set act in order, range deletes included."""
    put(store, a=b"old", b=b"old", c=b"old")
    write_set = WriteSet()
    write_set.put(b"b", b"lost")
    write_set.delete_range(b"a", b"c")
    write_set.put(b"a", b"new")
    write_set.delete(b"c")
    write_set.put(b"c", b"again")
    store.write(write_set)
    assert list(store.scan(b"a", b"z")) == [(b"a", b"new"), (b"c", b"again")]


def test_a_deleted_range_is_half_open(store: StateStore) -> None:
    """delete_range removes the start and keeps the end; an empty range removes nothing."""
    put(store, a=b"1", b=b"2", c=b"3")
    write_set = WriteSet()
    write_set.delete_range(b"a", b"c")
    write_set.delete_range(b"z", b"c")
    write_set.delete_range(b"c", b"c")
    store.write(write_set)
    assert keys(store.scan(b"a", b"z")) == [b"c"]


def test_a_snapshot_does_not_move(store: StateStore) -> None:
    """A snapshot shows its moment through writes and range deletes, until it is closed."""
    put(store, a=b"1", b=b"2")
    snapshot = store.snapshot()
    write_set = WriteSet()
    write_set.delete_range(b"a", b"z")
    write_set.put(b"n", b"new")
    store.write(write_set)
    assert (snapshot.get(b"a"), snapshot.get(b"n")) == (b"1", None)
    assert keys(snapshot.scan(b"", b"z")) == [b"a", b"b"]
    assert keys(snapshot.scan(b"", b"z", reverse=True)) == [b"b", b"a"]
    assert keys(snapshot.scan(b"a", b"b", reverse=True)) == [b"a"]
    snapshot.close()
    assert keys(store.scan(b"", b"z")) == [b"n"]
    with pytest.raises(AssertionError):
        snapshot.get(b"a")


def test_scans_of_one_snapshot_do_not_disturb_each_other(store: StateStore) -> None:
    """Two scans and point reads, taken in turns, each see their whole range."""
    put(store, a=b"1", b=b"2", c=b"3", d=b"4")
    snapshot = store.snapshot()
    put(store, bb=b"new")
    seen: list[bytes] = []
    backwards = snapshot.scan(b"a", b"d", reverse=True)
    for key, _ in snapshot.scan(b"a", b"e"):
        seen.append(key)
        pair = next(backwards, None)
        seen.append(b"-" if pair is None else pair[0])
        assert snapshot.get(b"bb") is None
    assert seen == [b"a", b"c", b"b", b"b", b"c", b"a", b"d", b"-"]
    snapshot.close()


def test_a_scan_may_be_given_up(store: StateStore) -> None:
    """A caller that stops early leaves nothing behind."""
    put(store, a=b"1", b=b"2")
    for key, _ in store.scan(b"a", b"z"):
        assert key == b"a"
        break
    put(store, c=b"3")
    assert keys(store.scan(b"a", b"z")) == [b"a", b"b", b"c"]


def test_a_flush_reports_on_the_loop(store: StateStore, loop: asyncio.AbstractEventLoop) -> None:
    """`done` never runs inside `flush`, and each flush has its own."""
    put(store, a=b"1")
    done: list[int] = []

    async def main() -> None:
        both = loop.create_future()
        store.flush(lambda: done.append(1))

        def second() -> None:
            done.append(2)
            both.set_result(None)

        store.flush(second)
        assert done == []
        await asyncio.wait_for(both, 20)

    loop.run_until_complete(main())
    assert sorted(done) == [1, 2]


def test_random_operations_agree_with_a_dict(store: StateStore) -> None:
    """Two thousand operations leave the same pairs as in a plain dict."""
    rng = random.Random(7)
    model: dict[bytes, bytes] = {}
    for _ in range(500):
        write_set = WriteSet()
        for _ in range(rng.randint(1, 8)):
            key, end = sorted(b"%03d" % rng.randrange(300) for _ in range(2))
            choice = rng.random()
            if choice < 0.7:
                value = rng.randbytes(rng.randrange(40))
                write_set.put(key, value)
                model[key] = value
            elif choice < 0.95:
                write_set.delete(key)
                model.pop(key, None)
            else:
                write_set.delete_range(key, end)
                model = {k: v for k, v in model.items() if not key <= k < end}
        store.write(write_set)
    assert list(store.scan(b"", b"\xff")) == sorted(model.items())


def test_what_was_just_written_is_known_without_the_disk(store: StateStore) -> None:
    """A value, an empty one, and that there is none any more."""
    put(store, a=b"1", empty=b"", gone=b"x")
    write_set = WriteSet()
    write_set.delete(b"gone")
    store.write(write_set)
    assert [store.peek(key) for key in (b"a", b"empty", b"gone")] == [b"1", b"", None]


def test_a_fetch_answers_the_first_keys_up_to_those_of_which_one_is_there(
    store: StateStore, loop: asyncio.AbstractEventLoop
) -> None:
    """It goes on over any number of keys that are not there, a few at a time, and ends with the
    few among which one is: so it holds few values, whatever it is asked for."""
    keys_asked = [b"k%04d" % number for number in range(200)]

    async def fetched() -> list[bytes | None]:
        return await store.fetch(keys_asked)

    assert loop.run_until_complete(fetched()) == [None] * 200
    put(store, k0070=b"70", k0071=b"71", k0100=b"100")
    values = loop.run_until_complete(fetched())
    assert len(values) == 3 * FETCHED_KEYS_MAX
    assert {n: value for n, value in enumerate(values) if value is not None} == {
        70: b"70",
        71: b"71",
    }
