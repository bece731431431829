"""What only the RocksDB store does: it stalls without waiting and loses only a suffix."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from svc_cluster.base.write_set import WriteSet
from svc_cluster.storage.rocks_settings import RocksSettings
from svc_cluster.storage.rocks_store import RocksStore, StoreOpenError
from svc_cluster.storage.state_store import StoreStalledError
from svc_cluster.storage.worker import EXIT_STORAGE

KILLED = """
import asyncio, os, sys
from pathlib import Path
from svc_cluster.base.write_set import WriteSet
from svc_cluster.storage.rocks_store import RocksStore

async def main():
    loop = asyncio.get_running_loop()
    store = RocksStore(Path(sys.argv[1]), loop)
    for number in range(200):
        write_set = WriteSet()
        write_set.put(b"a%04d" % number, b"x" * 1000)
        write_set.put(b"applied", b"%d" % number)
        store.write(write_set)
        if number == 99:
            flushed = loop.create_future()
            store.flush(lambda: flushed.set_result(None))
            await flushed
    os._exit(0)

asyncio.run(main())
"""

BROKEN_BEHIND = """
import asyncio, sys
from pathlib import Path
from svc_cluster.storage.rocks_store import RocksStore

def broken():
    raise ZeroDivisionError("planted")

async def main():
    store = RocksStore(Path(sys.argv[1]), asyncio.get_running_loop())
    store.flush(broken)
    await asyncio.sleep(30)

asyncio.run(main())
"""


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def test_a_killed_process_loses_only_what_no_flush_covered(
    tmp_path: Path, loop: asyncio.AbstractEventLoop
) -> None:
    """The engine's own WAL is off: the flushed 100 sets are there, whole, with their index."""
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=True, timeout=60)
    store = RocksStore(tmp_path, loop)
    applied = int(store.get(b"applied") or b"-1")
    assert applied == 99
    assert len(list(store.scan(b"a", b"b"))) == applied + 1 + 1  # the index key is in the range
    store.close()
    assert not any(path.stat().st_size for path in tmp_path.glob("*.log"))


def test_a_fault_behind_a_flush_ends_the_process(tmp_path: Path) -> None:
    """Who waits for that flush would never be told, and the log would be kept for ever."""
    ended = subprocess.run(
        [sys.executable, "-c", BROKEN_BEHIND, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == EXIT_STORAGE, ended.stderr
    assert "ZeroDivisionError('planted')" in ended.stderr


def test_a_stall_is_an_error_at_once(tmp_path: Path, loop: asyncio.AbstractEventLoop) -> None:
    """Full write buffers refuse a write instead of holding the interpreter lock."""
    settings = RocksSettings(write_buffer_bytes=1 << 16, write_buffers=2, level_zero_stop_files=1)
    store = RocksStore(tmp_path, loop, settings)
    rng = random.Random(1)

    def fill() -> None:
        for number in range(5000):
            write_set = WriteSet()
            write_set.put(b"%d" % number, rng.randbytes(16_000))
            store.write(write_set)

    with pytest.raises(StoreStalledError):
        fill()
    assert store.get(b"0") is not None
    store.close()


def test_a_directory_in_use_is_an_error_that_says_what_to_do(
    tmp_path: Path, loop: asyncio.AbstractEventLoop
) -> None:
    """Two stores over one directory would corrupt it."""
    store = RocksStore(tmp_path, loop)
    with pytest.raises(StoreOpenError, match="stop the process"):
        RocksStore(tmp_path, loop)
    store.close()
