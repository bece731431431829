"""What payload files cost a turn of the event loop, and what a file system refuses them."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from svc_cluster.storage import holes as holes_module
from svc_cluster.storage.holes import dig
from svc_cluster.storage.payload import payload_holes, payload_release
from svc_cluster.storage.payload.budget import BYTES_PER_TURN, TURN_S, Budget
from svc_cluster.storage.payload.payload_space import RANGE_ROWS, FileWalk
from tests.unit.storage.payload_driver import FILE_BYTES
from tests.unit.storage.payload_node import Node, key, value
from tests.unit.storage.test_payload_holes import TIGHT, expire, held, mixed, round_of, whole


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


class _Rows:
    """As many as anybody asks for, each of which takes its time."""

    def __init__(self, size: int, seconds: float) -> None:
        self.now = 0.0
        self.seen = 0
        self._row = b"B" + bytes(size)
        self._seconds = seconds

    def time(self) -> float:
        return self.now

    def get(self, key: bytes) -> bytes | None:
        raise NotImplementedError(key)

    def scan(
        self, start: bytes, end: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        for number in range(int.from_bytes(start[:8], "big"), int.from_bytes(end[:8], "big")):
            self.seen += 1
            self.now += self._seconds
            yield number.to_bytes(8, "big"), self._row


@pytest.mark.parametrize(
    ("size", "seconds", "wanted"),
    [(10, 0.0, 248), (10, TURN_S / 4, 4), (BYTES_PER_TURN // 3, 0.0, 3)],
    ids=["rows", "time", "bytes"],
)
def test_a_step_of_a_walk_ends_by_rows_or_bytes_or_time(
    size: int, seconds: float, wanted: int
) -> None:
    """Whatever ends first; the next step goes on behind it."""
    rows = _Rows(size, seconds)
    walk = FileWalk(1, [(bytes(8), (1000).to_bytes(8, "big"))], ())
    walk.step(rows, Budget(payload_holes.ROWS_PER_STEP, rows.time))
    assert rows.seen == wanted
    assert not walk.is_done
    assert walk._ranges == [((wanted - 1).to_bytes(8, "big") + b"\0", (1000).to_bytes(8, "big"))]


def test_a_flush_looks_at_a_bounded_number_of_owners(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all files together. The next flush goes on there, and finds the files dead in the end."""
    monkeypatch.setattr(payload_release, "ROWS_PER_FLUSH", 4 * RANGE_ROWS)
    node = Node(loop, settings=TIGHT)
    for number in range(1, 49):
        node.append((key(number, number), value(number)))
    node.trim(48)
    for owner in range(1, 49):
        expire(node, owner)
    begun: list[bytes] = []
    plain = node.inner.scan

    def scan(start: bytes, end: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        begun.append(start)
        return plain(start, end, reverse=reverse)

    node.inner.scan = scan  # type: ignore[method-assign]
    assert len(node.numbers()) > 3
    for _ in range(40):
        begun.clear()
        node.store.flush(lambda: None)
        assert len(begun) <= 4
        node.inner.flushes.pop(0)()
        node.disk.run()
    assert node.numbers() == []


def test_a_file_that_dies_while_files_are_chosen_is_left_out(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The round comes to its end, and so does the next one, over what is new."""
    monkeypatch.setattr(payload_holes, "ROWS_PER_STEP", 1)
    node = mixed(loop)
    for owner in (1, 2, 3):
        expire(node, owner)
    node.flush()
    while not node.store.holes._is_choosing:
        node.store.holes.step()
    node.store.holes.step()
    assert node.store.holes._walk is not None, "it dies in the middle of its walk"
    expire(node, 0)
    for _ in range(6):
        node.flush()
    assert node.numbers() == []
    for _ in range(50):
        node.store.holes.step()
    node.flush()
    assert not node.store.holes.is_busy


def test_a_step_that_fails_ends_its_round_alone(
    loop: asyncio.AbstractEventLoop,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is said, and the next flush begins another round."""
    monkeypatch.setattr(payload_holes, "STEP_PAUSE_S", 0.0)
    node = mixed(loop)
    for owner in (1, 2, 3):
        expire(node, owner)
    node.flush()

    def fail(*_: object) -> None:
        raise KeyError(1)

    with monkeypatch.context() as patch:
        patch.setattr(FileWalk, "step", fail)
        node.store.holes._step_by_timer()
    assert [record.message for record in caplog.records] == ["payload_holes_failed"]
    assert not node.store.holes.is_busy
    round_of(node)
    assert held(node) < FILE_BYTES


def test_files_of_before_get_no_holes_where_none_can_be_made(
    loop: asyncio.AbstractEventLoop,
) -> None:
    """The node goes on with them as they are, nobody asks for a hole, and no row is looked at to
    find one."""
    node = mixed(loop)
    node.flush()
    disk = node.disk.crash()
    disk.can_dig = False
    again = Node(loop, disk, node.inner.durable(), TIGHT)
    for owner in (1, 2, 3):
        expire(again, owner)
    for _ in range(3):
        again.flush()
        assert not again.store.holes.is_busy
        round_of(again)
    assert disk.refused_holes == 0
    assert not again.store.holes.is_busy
    assert held(again) == FILE_BYTES
    whole(again, {0})


def test_a_refused_hole_is_the_last_one(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    """That is said once, nothing is lost, and nothing counts as given back."""
    node = mixed(loop)
    for owner in (1, 2):
        expire(node, owner)
    node.disk.can_dig = False
    round_of(node)
    refused = node.disk.refused_holes
    assert refused > 0
    expire(node, 3)
    for _ in range(3):
        round_of(node)
    assert node.disk.refused_holes == refused
    assert [record.message for record in caplog.records] == ["payload_holes_off"]
    assert not node.store.holes.is_busy
    assert node.store.holes.hole_bytes == 0
    assert held(node) == FILE_BYTES
    whole(node, {0})


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.ENOSPC, errno.EINTR])
def test_a_refusal_of_the_file_system_is_none_of_the_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """It is told; a device that fails ends the process as ever."""
    (tmp_path / "f").write_bytes(bytes(64 * 1024))

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(holes_module, "_punch", refuse)
    assert not dig(tmp_path / "f", [(0, 4096)], lambda: 0.0, lambda _: False)
    number = errno.EIO
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        dig(tmp_path / "f", [(0, 4096)], lambda: 0.0, lambda _: False)
