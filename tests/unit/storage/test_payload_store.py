"""The state store above payload files: values are whole, and files go when nothing needs them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from svc_cluster.base.ids import LogIndex, Term
from svc_cluster.base.log_ops import AppendEntries, LogEntry
from svc_cluster.storage.harm import DamagedBytesError, generation_of
from svc_cluster.storage.payload import references
from svc_cluster.storage.payload.payload_frame import file_name, file_number
from svc_cluster.storage.payload.pointer import decode_pointer
from svc_cluster.storage.state_store import ON_DISK, StoreStalledError
from tests.unit.storage.payload_driver import APART
from tests.unit.storage.payload_node import GROUP, HEAD, Node, key, value
from tests.unit.storage.wal_driver import open_wal, put, trim


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture
def node(loop: asyncio.AbstractEventLoop) -> Node:
    return Node(loop)


def test_a_long_value_is_written_once_and_read_whole(
    node: Node, loop: asyncio.AbstractEventLoop
) -> None:
    """The store below holds a pointer; every way to read gives the value."""
    long, short = value(1), value(2, 100)
    node.append((key(1, 1), long), (key(1, 2), short), (key(2, 1), value(3)))
    row = node.inner.get(key(1, 1))
    assert row is not None and len(row) < 60
    assert decode_pointer(key(1, 1), row) is not None
    assert node.inner.get(key(1, 2)) == HEAD + short
    wanted = {
        key(1, 1): HEAD + long,
        key(1, 2): HEAD + short,
        key(2, 1): HEAD + value(3),
    }
    store = node.store
    assert {one: store.get(one) for one in wanted} == wanted
    assert {one: store.peek(one) for one in wanted} == wanted
    assert dict(store.scan(b"", b"\xff" * 9)) == wanted
    assert list(store.scan(b"", b"\xff" * 9, reverse=True)) == list(reversed(wanted.items()))
    view = store.snapshot()
    assert dict(view.scan(b"", b"\xff" * 9)) == wanted
    assert {one: view.get(one) for one in wanted} == wanted
    view.close()

    async def fetched() -> list[bytes | None]:
        return await store.fetch([key(9, 9), *wanted])

    assert loop.run_until_complete(fetched()) == [None, *wanted.values()]
    assert store.get(key(9, 9)) is None
    assert store.peek(key(9, 9)) is None


def test_values_that_are_alike_keep_their_own_bytes(node: Node) -> None:
    """Entries with the same beginning, and the same value twice, are told apart."""
    same = value(1)
    near = same[:2000] + b"other" + same[2005:]
    node.append((key(1, 1), near), (key(1, 2), same), (key(1, 3), same), (key(1, 4), near))
    assert [node.store.get(key(1, n)) for n in (1, 2, 3, 4)] == [
        HEAD + near,
        HEAD + same,
        HEAD + same,
        HEAD + near,
    ]


def test_a_value_behind_one_that_begins_alike_is_found(node: Node) -> None:
    """The first place with the same beginning is not taken for it."""
    same = value(1)
    near = same[:2000] + b"other" + same[2005:]
    node.index += 1
    payload = b"entry:" + same + near
    put(node.wal, node.disk, 1, AppendEntries((LogEntry(LogIndex(1), Term(1), payload),)))
    node.apply(1, payload, ((key(1, 1), near),))
    row = node.inner.get(key(1, 1))
    assert row is not None and decode_pointer(key(1, 1), row) is not None
    assert node.store.get(key(1, 1)) == HEAD + near


def test_what_is_not_in_the_entry_is_stored_as_it_is(node: Node) -> None:
    """A value that cannot be found there, even one that nearly repeats very often, is written."""
    node.index += 1
    probe = b"x" * 64
    payload = (probe + b"y") * 200
    put(
        node.wal,
        node.disk,
        1,
        AppendEntries((LogEntry(LogIndex(1), Term(1), payload),)),
    )
    node.apply(1, payload, ((key(1, 1), probe * 20),))
    assert node.inner.get(key(1, 1)) == HEAD + probe * 20


def test_a_refused_write_comes_again(node: Node) -> None:
    """What is noted of a write that the store below refused does no harm."""
    node.inner.stalls = True
    with pytest.raises(StoreStalledError):
        node.append((key(1, 1), value(1)))
    assert node.store.get(key(1, 1)) is None
    node.inner.stalls = False
    node.apply(1, b"entry 1:" + value(1), ((key(1, 1), value(1)),))
    assert node.store.get(key(1, 1)) == HEAD + value(1)


def test_a_file_is_free_when_its_values_its_entries_and_its_readers_are_gone(node: Node) -> None:
    """Each alone keeps it: a row, an unflushed delete, the log's entries, an older view; and the
    references go before it does."""
    for number in range(1, 9):
        node.append((key(1, number), value(number)))
    assert node.numbers() == [1]
    node.trim(8)
    node.flush()
    node.flush()
    assert node.numbers() == [1], "rows"
    view = node.store.snapshot()
    node.delete(key(1, 1), key(1, 8))
    node.flush()
    node.flush()
    node.flush()
    assert node.numbers() == [1], "the last row"
    node.delete(key(1, 8), key(1, 9))
    node.store.flush(lambda: None)
    assert node.numbers() == [1], "the delete may be lost yet"
    node.inner.flushes.pop(0)()
    node.disk.run()
    assert node.numbers() == [1], "the references are there"
    node.flush()
    node.flush()
    assert node.numbers() == [1], "somebody reads"
    assert dict(view.scan(key(1, 3), key(1, 4))) == {key(1, 3): HEAD + value(3)}
    view.close()
    node.flush()
    assert node.numbers() == []
    prefix = references.FIRST_KEY
    left = [one for one in node.inner.durable() if one >= prefix and one[9:17].endswith(b"\x01")]
    assert left == []


def test_a_file_outlasts_the_flush_of_its_deletes_and_of_its_references(node: Node) -> None:
    """With nobody reading it goes behind the second flush, at no step before."""
    for number in range(1, 10):
        node.append((key(1, number), value(number)))
    node.trim(9)
    node.delete(key(1, 0), key(1, 100))
    for flush in (1, 2):
        node.store.flush(lambda: None)
        node.disk.run()
        assert node.numbers() == [1], f"flush {flush} is not complete"
        references_left = [one for one in node.inner.durable() if one >= references.FIRST_KEY]
        assert not references_left or flush == 2
        node.inner.flushes.pop(0)()
        assert node.numbers() == [1], f"behind flush {flush}"
        node.disk.run()
    node.flush()
    assert node.numbers() == []


def test_entries_of_the_log_keep_their_file(node: Node) -> None:
    """A restart reads the payloads above the base, whatever the store has."""
    for number in range(1, 10):
        node.append((key(1, number), value(number)))
    node.delete(key(1, 0), key(1, 100))
    for _ in range(4):
        node.flush()
    assert node.numbers() == [1]
    node.trim(7)
    for _ in range(4):
        node.flush()
    assert node.numbers() == []


def test_the_log_is_synced_before_a_file_goes(node: Node) -> None:
    """A base that is not on the disk yet would have a restart read what is gone."""
    for number in range(1, 10):
        node.append((key(1, number), value(number)))
    node.delete(key(1, 0), key(1, 100))
    node.wal.append(GROUP, [trim(9)], None)  # rides
    for _ in range(2):
        node.store.flush(lambda: None)
        node.inner.flushes.pop(0)()
    node.store.flush(lambda: None)
    node.inner.flushes.pop(0)()
    assert node.numbers() == [1]
    assert node.disk.queue, "the log is asked for a sync"
    node.disk.run()
    node.flush()
    assert node.numbers() == []
    again = open_wal(node.disk.crash(), APART)
    log = again.recovered[GROUP]
    assert (log.base_index, log.damaged) == (9, False)


def test_a_flush_that_ends_behind_the_close_frees_nothing(node: Node) -> None:
    """What it brings about would write to a store that is closed; the next start does it."""
    for number in range(1, 10):
        node.append((key(1, number), value(number)))
    node.trim(9)
    node.delete(key(1, 0), key(1, 100))
    ended: list[bool] = []
    node.store.flush(lambda: ended.append(True))
    node.store.close()
    node.inner.flushes.pop(0)()
    assert ended == [True]
    assert node.numbers() == [1]


def test_a_file_of_many_streams_is_looked_through_once(node: Node) -> None:
    """Owners without rows are not looked for again; the last one keeps the file until it goes."""
    scans: list[bytes] = []
    plain = node.inner.scan

    def scan(start: bytes, end: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        scans.append(start)
        return plain(start, end, reverse=reverse)

    node.inner.scan = scan  # type: ignore[method-assign]
    for number in range(1, 10):
        node.append((key(number, 1), value(number)))
    in_first = [number for number in range(1, 10) if key(number, 1) in node.first_file()]
    scans.clear()
    node.trim(9)
    node.delete(key(0, 0), key(in_first[-1], 0))
    node.flush()
    assert len(scans) == len(in_first)
    for _ in range(3):
        scans.clear()
        node.flush()
        assert len(scans) == 1
    node.delete(key(0, 0), key(100, 0))
    for _ in range(4):
        node.flush()
    assert node.numbers() == []


def test_a_read_that_a_delete_overtook_finds_nothing_or_the_new_value(node: Node) -> None:
    """The row is looked at again when its place shows other bytes; the new row counts."""
    node.append((key(1, 1), value(1)))
    row = node.inner.get(key(1, 1))
    assert row is not None
    pointer = decode_pointer(key(1, 1), row)
    assert pointer is not None
    node.disk.flip(file_name(pointer.place.number), pointer.place.offset)
    node.delete(key(1, 1), key(1, 2))
    assert node.store.value_of(node.inner, key(1, 1), row) is None
    node.append((key(1, 1), value(2)))
    assert node.store.value_of(node.inner, key(1, 1), row) == HEAD + value(2)


@pytest.mark.parametrize("how", ["flipped", "lost"])
def test_bytes_that_are_wrong_are_damage(
    how: str, node: Node, loop: asyncio.AbstractEventLoop
) -> None:
    """Nothing else than the value is ever answered; memory alone never says that it is damaged."""
    node.append((key(1, 1), value(1)))
    name = next(one for one in node.disk.files if file_number(one) == 1)
    if how == "flipped":
        node.disk.flip(name, 4096 + 64 + 100)
        store = node.store
    else:
        node.trim(1)
        node.flush()
        after = node.disk.crash()
        del after.files[name]
        again = Node(loop, after, node.inner.durable())
        assert again.store.lost == [1]
        assert again.store.harm.generations == {generation_of(key(1, 1))}
        store = again.store
    for read in (store.get, lambda one: next(store.scan(one, one + b"\xff"))):
        with pytest.raises(DamagedBytesError, match="checksum mismatch in payload file 1"):
            read(key(1, 1))
    assert store.peek(key(1, 1)) is ON_DISK


def test_a_restart_knows_what_each_file_is_needed_for(
    node: Node, loop: asyncio.AbstractEventLoop
) -> None:
    """References of before still count, files that nothing names are used again."""
    for number in range(1, 21):
        node.append((key(number % 2, number), value(number)))
    numbers = [*node.numbers()]
    assert len(numbers) == 2
    node.trim(20)
    node.delete(key(0, 0), key(0, 15))
    node.delete(key(1, 0), key(1, 15))
    node.flush()
    again = Node(loop, node.disk.crash(), node.inner.durable())
    assert again.store.lost == []
    kept = {file_number(one) for one in again.disk.files} - {None}
    assert numbers[1] in again.numbers()
    for number in range(15, 21):
        assert again.store.get(key(number % 2, number)) == HEAD + value(number)
    again.delete(key(0, 0), key(2, 0))
    for _ in range(4):
        again.flush()
    assert again.numbers() == []
    assert kept
