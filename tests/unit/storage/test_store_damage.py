"""A state store whose files are damaged: noticed, marked, set aside, begun anew."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from svc_cluster.base.write_set import WriteSet
from svc_cluster.cli.processes.node_process import open_store
from svc_cluster.storage.damage import EXIT_STORE_DAMAGED, is_marked, set_aside
from svc_cluster.storage.rocks_store import RocksStore, StoreDamagedError

READ = """
import asyncio, sys
from pathlib import Path
from svc_cluster.storage.rocks_store import RocksStore

store = RocksStore(Path(sys.argv[1]), asyncio.new_event_loop())
how = sys.argv[2]
if how == "get":
    store.get(b"key-0100")
elif how == "scan":
    list(store.scan(b"", b"z"))
elif how == "reverse":
    list(store.scan(b"", b"z", reverse=True))
elif how == "snapshot":
    list(store.snapshot().scan(b"", b"z"))
print("served")
"""


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture
def store(tmp_path: Path, loop: asyncio.AbstractEventLoop) -> Path:
    """A closed store of one table with some blocks."""
    directory = tmp_path / "state"
    opened = RocksStore(directory, loop)
    for number in range(200):
        write_set = WriteSet()
        write_set.put(b"key-%04d" % number, b"%d" % number * 300)
        opened.write(write_set)
    opened.close()
    return directory


def _flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 4
    path.write_bytes(bytes(data))


def _table(store: Path) -> Path:
    (table,) = store.glob("*.sst")
    return table


@pytest.mark.parametrize("how", ["get", "scan", "reverse", "snapshot"])
def test_a_damaged_block_is_never_returned(store: Path, how: str) -> None:
    """Whichever way it is read: the process ends with a status of its own, says what comes next,
    and leaves a mark."""
    for offset in range(50, _table(store).stat().st_size // 2, 16_000):
        _flip(_table(store), offset)
    done = subprocess.run(
        [sys.executable, "-c", READ, str(store), how],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (EXIT_STORE_DAMAGED, "")
    assert "is damaged; the next start of this process sets it aside" in done.stderr
    assert is_marked(store)


@pytest.mark.parametrize("name", ["CURRENT", "MANIFEST-*", "*.sst"])
@pytest.mark.parametrize("gone", [True, False], ids=["gone", "cut"])
def test_a_store_that_lacks_a_file_is_not_opened(
    store: Path, name: str, gone: bool, loop: asyncio.AbstractEventLoop
) -> None:
    """Not even where RocksDB would begin a new one in its place and delete what is left."""
    (path,) = store.glob(name)
    path.unlink() if gone else path.write_bytes(b"")
    before = sorted(file.name for file in store.glob("*.sst"))
    with pytest.raises(StoreDamagedError):
        RocksStore(store, loop)
    assert sorted(file.name for file in store.glob("*.sst")) == before


def test_a_damaged_store_is_set_aside_and_begun_anew(
    store: Path, loop: asyncio.AbstractEventLoop
) -> None:
    """Found at the start, or marked by a process that met it; what was there stays, numbered."""
    _flip(store / "CURRENT", 3)
    opened = open_store(store, loop)
    assert opened.get(b"key-0100") is None
    opened.close()
    assert (store.parent / "state.damaged-1" / "CURRENT").exists()
    (store.parent / "state.damaged").write_text("as exit_damaged does")
    opened = open_store(store, loop)
    opened.close()
    assert (store.parent / "state.damaged-2" / "CURRENT").exists()
    assert not is_marked(store)
    opened = open_store(store, loop)
    opened.close()
    assert not (store.parent / "state.damaged-3").exists()


def test_setting_aside_is_finished_by_the_next_start(store: Path) -> None:
    """A crash between the move and the end of the mark leaves only the mark."""
    (store.parent / "state.damaged").write_text("mark")
    store.rename(store.parent / "state.damaged-1")
    set_aside(store)
    assert not is_marked(store)
    assert (store.parent / "state.damaged-1").exists()
    assert not (store.parent / "state.damaged-2").exists()
