"""Space of files in which something is needed and something is not: it comes back, as holes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from svc_cluster.base.ids import LogIndex, Term
from svc_cluster.base.log_ops import AppendEntries, LogEntry
from svc_cluster.storage.payload import payload_holes, payload_release
from svc_cluster.storage.payload.payload_files import PayloadFiles
from svc_cluster.storage.payload.payload_frame import (
    BLOCK_BYTES,
    EntryName,
    file_name,
    file_number,
)
from svc_cluster.storage.payload.payload_space import (
    FileSpace,
    FileWalk,
    blocks_of,
    holes_beside,
    worth_holes,
)
from tests.unit.storage.fakes import FakeDisk
from tests.unit.storage.payload_driver import (
    APART,
    BULK,
    FILE_BYTES,
    SMALL_FILES,
    open_files,
    put_into,
)
from tests.unit.storage.payload_node import GROUP, HEAD, Node, key, value
from tests.unit.storage.wal_driver import TAG, put

TIGHT = replace(APART, payload=replace(SMALL_FILES, dead_files_max=0))
"""Nothing is held in vain but a quarter of what is needed."""


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def mixed(loop: asyncio.AbstractEventLoop, count: int = 24) -> Node:
    """Four owners take turns, and nothing of it is in the log any more."""
    node = Node(loop, settings=TIGHT)
    for number in range(1, count + 1):
        node.append((key(number % 4, number), value(number)))
    node.trim(count)
    return node


def walked(node: Node) -> None:
    """All looks that have begun come to their end."""
    while node.store.holes._is_walking():
        node.store.holes.step()


def round_of(node: Node) -> None:
    """A whole one: the flush that begins it, the walks, the flush behind them, and the holes."""
    node.flush()
    walked(node)
    node.flush()


def held(node: Node, number: int = 1) -> int:
    return node.wal.payloads.held_bytes(number)


def expire(node: Node, owner: int) -> None:
    node.delete(key(owner, 0), key(owner, 1000))


def whole(node: Node, owners: set[int], count: int = 24) -> None:
    for number in range(1, count + 1):
        wanted = HEAD + value(number) if number % 4 in owners else None
        assert node.store.get(key(number % 4, number)) == wanted


def test_what_nothing_needs_is_given_back(loop: asyncio.AbstractEventLoop) -> None:
    """Three of four owners expire: what is left of a file are its head and the fourth's blocks,
    which are read as before, by this process and by the next one."""
    node = mixed(loop)
    numbers = node.numbers()
    assert len(numbers) == 3
    free = node.disk.free
    for owner in (1, 2, 3):
        expire(node, owner)
    round_of(node)
    assert node.numbers() == numbers
    for number in numbers:
        assert held(node, number) <= 3 * BLOCK_BYTES
    assert node.disk.free - free == node.store.holes.hole_bytes == 2 * FILE_BYTES
    assert node.wal.payloads.size_bytes == sum(
        file.held_bytes() for name, file in node.disk.files.items() if file_number(name)
    )
    whole(node, {0})
    again = Node(loop, node.disk.crash(), node.inner.durable(), TIGHT)
    assert held(again) == held(node)
    whole(again, {0})


def test_deletes_rows_and_views_come_before_holes(loop: asyncio.AbstractEventLoop) -> None:
    """A delete that may be lost yet, a log that is not synced and a view from before keep the
    bytes, each of them alone."""
    node = mixed(loop)
    view = node.store.snapshot()
    expire(node, 1)
    expire(node, 2)
    node.flush()
    walked(node)
    node.store.flush(lambda: None)
    assert held(node) == FILE_BYTES, "no flush covers the deletes"
    node.inner.flushes.pop(0)()
    assert held(node) == FILE_BYTES, "the log is not synced"
    node.disk.run()
    assert held(node) == FILE_BYTES, "somebody reads"
    assert dict(view.scan(key(1, 1), key(1, 2))) == {key(1, 1): HEAD + value(1)}
    view.close()
    node.flush()
    assert held(node) < FILE_BYTES
    whole(node, {0, 3})


def test_the_log_is_synced_before_holes(loop: asyncio.AbstractEventLoop) -> None:
    """A base that is not on the disk yet would have a restart read what is gone."""
    node = mixed(loop)
    expire(node, 1)
    expire(node, 2)
    node.flush()
    walked(node)
    node.store.flush(lambda: None)
    node.inner.flushes.pop(0)()
    assert not node.wal.payloads.is_digging(1)
    assert node.disk.queue, "the log is asked for a sync"
    node.disk.step()
    assert node.wal.payloads.is_digging(1)


def test_a_walk_that_a_flush_overtook_is_covered_by_the_next(
    loop: asyncio.AbstractEventLoop,
) -> None:
    """What is deleted behind the beginning of a flush is none of that flush."""
    node = mixed(loop)
    expire(node, 1)
    node.flush()
    node.store.flush(lambda: None)
    expire(node, 2)
    walked(node)
    node.inner.flushes.pop(0)()
    node.disk.run()
    assert held(node) == FILE_BYTES
    node.flush()
    assert held(node) < FILE_BYTES
    again = Node(loop, node.disk.crash(), node.inner.durable(), TIGHT)
    whole(again, {0, 3})


def test_entries_of_the_log_get_no_holes(loop: asyncio.AbstractEventLoop) -> None:
    """A restart reads them whole, header and all; they go when the log lets them go, and that is
    looked for without a delete."""
    node = mixed(loop)
    for number in range(25, 49):
        node.append((key(number % 4, number), value(number)))
    for owner in range(4):
        node.delete(key(owner, 25), key(owner, 1000))
    for _ in range(3):
        round_of(node)
    again = Node(loop, node.disk.crash(), node.inner.durable(), TIGHT)
    log = again.wal.recovered[GROUP]
    assert not log.damaged
    assert [entry.log_index for entry in log.entries] == list(range(25, 49))
    node.trim(45)
    for _ in range(4):
        round_of(node)
    assert sum(one.dead_bytes for one in node.store.holes.spaces()) <= FILE_BYTES


def test_what_is_applied_during_a_walk_is_seen(loop: asyncio.AbstractEventLoop) -> None:
    """It was in the log when the walk began, and is in its rows when that ends, behind it."""
    node = mixed(loop)
    late = value(99)
    payload = b"entry 25:" + late
    entry = LogEntry(LogIndex(25), Term(1), payload)
    put(node.wal, node.disk, 1, AppendEntries((entry,)))
    node.index = 25
    for number in range(26, 40):
        node.append((key(number % 4, number), value(number)))
    for owner in (1, 2, 3):
        expire(node, owner)
    node.flush()
    assert node.store.holes._to_walk
    node.store.holes.step()  # the survey of some files, and maybe of this one
    node.apply(25, payload, ((key(9, 25), late),))
    node.trim(39)
    walked(node)
    for _ in range(3):
        round_of(node)
    assert node.store.get(key(9, 25)) == HEAD + late


def test_a_file_is_not_used_again_while_holes_are_made(loop: asyncio.AbstractEventLoop) -> None:
    """The last row goes meanwhile; the file is free once the holes are there."""
    node = mixed(loop)
    for owner in (1, 2, 3):
        expire(node, owner)
    node.flush()
    walked(node)
    node.store.flush(lambda: None)
    node.inner.flushes.pop(0)()
    while not node.wal.payloads.is_digging(1):
        node.disk.step()
    digging = list(node.disk.queue)
    node.disk.queue.clear()
    expire(node, 0)
    for _ in range(4):
        node.flush()
    node.disk.queue.extend(digging)
    assert 1 in node.numbers()
    node.disk.run()
    for _ in range(3):
        node.flush()
    assert node.numbers() == []


def test_a_file_with_holes_has_all_its_room_again_when_it_is_renewed(
    loop: asyncio.AbstractEventLoop,
) -> None:
    """No write of payload finds the disk full, whatever the file was before."""
    node = mixed(loop)
    for owner in (1, 2, 3):
        expire(node, owner)
    round_of(node)
    expire(node, 0)
    for _ in range(4):
        node.flush()
    assert node.numbers() == []
    for number in range(25, 80):
        node.append((key(1, number), value(number)))
    for name, file in node.disk.files.items():
        if file_number(name) in node.numbers():
            assert file.held_bytes() == FILE_BYTES
    for number in range(25, 80):
        assert node.store.get(key(1, number)) == HEAD + value(number)


def test_a_file_for_whose_holes_there_is_no_room_goes() -> None:
    """It is not written with holes in it: it is removed, and entries stay in the log meanwhile."""
    disk = FakeDisk()
    files = open_files(disk)
    entry = EntryName(1, 1, 1)
    while put_into(files, disk, entry, b"x" * BULK).number < 3:
        pass
    files.dig(1, [(BLOCK_BYTES, FILE_BYTES - BLOCK_BYTES)], lambda _: None)
    disk.run()
    while put_into(files, disk, entry, b"x" * BULK).number < 4:
        pass
    files.retire(1)
    while files.takes(BULK):
        disk.write_sync(files.put(entry, b"x" * BULK)[1])
    disk.free = BLOCK_BYTES
    disk.run()
    assert not files.takes(BULK)
    assert file_name(1) not in disk.files
    disk.free = 10 * FILE_BYTES
    disk.run()
    assert files.takes(BULK)


def test_without_holes_nothing_goes_into_payload_files(caplog: pytest.LogCaptureFixture) -> None:
    """FileSpace would never come back: that is said once, and large entries stay in the log."""
    disk = FakeDisk()
    disk.can_dig = False
    files = PayloadFiles(disk, TAG, SMALL_FILES)
    files.start(())
    disk.run()
    assert not files.takes(BULK)
    assert disk.list_names() == []
    assert [record.message for record in caplog.records] == ["payload_files_off"]


@pytest.mark.parametrize("seed", range(6))
def test_no_more_is_held_in_vain_than_the_settings_allow(
    loop: asyncio.AbstractEventLoop, seed: int
) -> None:
    """Whatever is appended and deleted: after each quiet while the files hold at most a quarter
    more than what is needed, everything that is kept is read, and the disk has the rest."""
    rng = random.Random(seed)
    node = Node(loop, settings=TIGHT)
    kept: dict[bytes, bytes] = {}
    for _ in range(6):
        for _ in range(rng.randint(5, 30)):
            one = key(rng.randrange(6), node.index + 1)
            content = value(node.index, rng.choice((50, 500, 3000, 9000)))
            node.append((one, content))
            kept[one] = HEAD + content
        owner, first = rng.randrange(6), rng.randrange(node.index)
        start, end = key(owner, first), key(owner, rng.randint(first, node.index))
        node.delete(start, end)
        kept = {one: text for one, text in kept.items() if not start <= one < end}
        node.trim(node.index)
        for _ in range(4):
            round_of(node)
        files = node.store.holes.spaces()
        dead = sum(file.dead_bytes for file in files)
        live = sum(file.live_bytes for file in files)
        assert dead <= 0.25 * live
        assert dict(node.store.scan(b"", b"\xff" * 8)) == kept


def test_a_look_takes_a_bounded_number_of_rows(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn looks at so many rows and no more, whatever lies between a file's keys."""
    monkeypatch.setattr(payload_holes, "ROWS_PER_STEP", 40)
    monkeypatch.setattr(payload_release, "ROWS_PER_LOOK", 40)
    node = Node(loop, settings=TIGHT)
    for number in range(1, 301):
        node.append((key(1, number), value(number, 3000 if number % 50 == 1 else 10)))
    for number in range(301, 320):
        node.append((key(2, number), value(number)))
    node.trim(319)
    seen = [0]
    plain = node.inner.scan

    def scan(start: bytes, end: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        for pair in plain(start, end, reverse=reverse):
            seen[0] += 1
            yield pair

    node.inner.scan = scan  # type: ignore[method-assign]
    for first in range(1, 301, 50):
        node.delete(key(1, first), key(1, first + 1))
    node.delete(key(2, 0), key(2, 310))
    node.store.flush(lambda: None)
    assert seen[0] <= 2 * 41
    node.inner.flushes.pop(0)()
    node.disk.run()
    while node.store.holes._is_walking():
        seen[0] = 0
        node.store.holes.step()
        assert seen[0] <= 41
    for _ in range(20):
        node.flush()
        walked(node)
    assert 1 not in node.numbers(), "its rows are gone, and that was found out in the end"


def test_holes_are_what_lies_beside_what_is_needed() -> None:
    """Whole blocks: the ones that a piece touches stay, and so does the file's first one."""
    block = BLOCK_BYTES
    assert blocks_of(
        [(5 * block + 1, 5 * block + 2), (block, 2 * block), (2 * block, 2 * block + 1)]
    ) == [
        (block, 3 * block),
        (5 * block, 6 * block),
    ]
    assert holes_beside([(2 * block, 3 * block), (5 * block, 6 * block)], 8 * block) == [
        (block, block),
        (3 * block, 2 * block),
        (6 * block, 2 * block),
    ]
    assert holes_beside([], 2 * block) == [(block, block)]
    assert holes_beside([(block, 2 * block)], 2 * block) == []


def test_files_with_most_in_vain_get_holes_first() -> None:
    """Until the rest is within the bound, and no more than so many at once."""
    files = [
        FileSpace(1, 100_000, 90_000),
        FileSpace(2, 100_000, 10_000),
        FileSpace(3, 100_000, 50_000),
    ]
    assert worth_holes(files, 150_000, 8) == []
    assert worth_holes(files, 149_999, 8) == [2]
    assert worth_holes(files, 59_999, 8) == [2, 3]
    assert worth_holes(files, 0, 2) == [2, 3]
    assert worth_holes([FileSpace(1, 10_000, 9_000)], 0, 8) == [], "less than a block"


def test_a_walk_without_ranges_is_over() -> None:
    """A file of which only the log needs something."""
    assert FileWalk(1, (), ()).is_done
