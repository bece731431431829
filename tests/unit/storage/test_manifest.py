"""A MANIFEST whose end a power cut tore: the store opens with what was synced; rot stays damage."""

from __future__ import annotations

import asyncio
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from svc_cluster.base.checksum import crc32c
from svc_cluster.base.write_set import WriteSet
from svc_cluster.storage.manifest import _mask, cut_torn_end, whole_end
from svc_cluster.storage.rocks_settings import RocksSettings
from svc_cluster.storage.rocks_store import RocksStore, StoreDamagedError

FLUSHES = 3


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


async def _flushed(store: RocksStore, number: int) -> None:
    write_set = WriteSet()
    write_set.put(b"key-%d" % number, b"value")
    store.write(write_set)
    done = asyncio.Event()
    store.flush(done.set)
    await done.wait()


def _manifest(store: Path) -> Path:
    return store / (store / "CURRENT").read_text().strip()


@pytest.fixture
def torn(tmp_path: Path, loop: asyncio.AbstractEventLoop) -> tuple[Path, int]:
    """A copy of a store's files after its last flush, as a power cut leaves them, and the length
    of its MANIFEST before that flush."""
    directory = tmp_path / "state"
    store = RocksStore(directory, loop, RocksSettings())
    for number in range(FLUSHES - 1):
        loop.run_until_complete(_flushed(store, number))
    before = _manifest(directory).stat().st_size
    loop.run_until_complete(_flushed(store, FLUSHES - 1))
    copy = tmp_path / "copy"
    shutil.copytree(directory, copy)
    store.close()
    return copy, before


def _reopened(source: Path, manifest: bytes, loop: asyncio.AbstractEventLoop) -> list[bool]:
    """Which flushes a store with this MANIFEST still shows."""
    place = source.with_name("tried")
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(source, place)
    _manifest(place).write_bytes(manifest)
    store = RocksStore(place, loop)
    shown = [store.get(b"key-%d" % number) is not None for number in range(FLUSHES)]
    store.close()
    return shown


@pytest.mark.parametrize("filler", [b"\0", b"\x5a"], ids=["zeros", "garbage"])
def test_a_torn_last_edit_opens_with_all_that_was_synced(
    torn: tuple[Path, int], loop: asyncio.AbstractEventLoop, filler: bytes
) -> None:
    """Wherever the last edit has a hole or ends, both earlier flushes are there."""
    source, before = torn
    whole = _manifest(source).read_bytes()
    assert whole_end(whole) == len(whole)
    for start in range(before, len(whole), 9):
        for end in (min(start + 40, len(whole)), len(whole)):
            holed = whole[:start] + filler * (end - start) + whole[end:]
            shown = _reopened(source, holed, loop)
            assert shown[: FLUSHES - 1] == [True] * (FLUSHES - 1), (start, end)


def test_rot_further_inside_is_not_cut(
    torn: tuple[Path, int], loop: asyncio.AbstractEventLoop
) -> None:
    """A fault with several whole edits behind it is damage, and the files stay as they are."""
    source, _ = torn
    whole = _manifest(source).read_bytes()
    rotten = whole[:60] + bytes([whole[60] ^ 1]) + whole[61:]
    with pytest.raises(StoreDamagedError):
        _reopened(source, rotten, loop)
    place = source.with_name("tried")
    assert _manifest(place).read_bytes() == rotten
    assert cut_torn_end(place) == 0


def test_records_across_blocks_are_followed() -> None:
    """Records split at the 32 KiB blocks of the format are parsed as the format says."""

    def record(kind: int, payload: bytes) -> bytes:
        checksum = _mask(crc32c(bytes([kind]) + payload))
        return struct.pack("<IHB", checksum, len(payload), kind) + payload

    block = 32 * 1024
    first = record(2, b"a" * (block - 7 - 3 - 7 - 10))
    data = record(1, b"0123456789")[:17] + first
    data += bytes(block - len(data))
    data += record(4, b"b" * 5)
    assert whole_end(data) == len(data)
    assert whole_end(data[:-1]) == 17
