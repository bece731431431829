"""Large files go in small steps, and only those that nothing uses."""

from __future__ import annotations

import asyncio
import os
import shutil
from functools import partial
from pathlib import Path

import pytest

from svc_cluster.base.write_set import WriteSet
from svc_cluster.storage import removal
from svc_cluster.storage.aside import Aside, folder_of
from svc_cluster.storage.private import keep_private
from svc_cluster.storage.removal import (
    BACKLOG_BYTES_MAX,
    BACKLOG_FILES_MAX,
    PAUSE_MAX_S,
    STEP_BYTES,
    excess,
    remove_slowly,
)
from svc_cluster.storage.rocks_settings import RocksSettings
from svc_cluster.storage.rocks_store import RocksStore

MIB = 1024 * 1024


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    store = tmp_path / "state"
    store.mkdir()
    folder_of(store).mkdir()
    return store, folder_of(store)


def table(store: Path, name: str, size: int = 10 * MIB) -> bytes:
    data = os.urandom(size)
    (store / name).write_bytes(data)
    return data


def tables_in(aside: Path) -> list[str]:
    """The names that the held tables had when they were linked."""
    return sorted(name[: name.index(".sst") + 4] for name in os.listdir(aside))


def test_a_file_is_shortened_in_steps_before_it_is_removed(tmp_path: Path) -> None:
    """Never more than a step at once, with a bounded pause behind each."""
    path = tmp_path / "large"
    path.write_bytes(bytes(15 * MIB))
    sizes: list[int] = []

    def pause(seconds: float) -> None:
        assert 0 < seconds <= PAUSE_MAX_S
        sizes.append(path.stat().st_size)

    remove_slowly(path, lambda: 0.0, pause)
    assert sizes == [11 * MIB, 7 * MIB, 3 * MIB]
    assert STEP_BYTES == 4 * MIB
    assert not path.exists()
    remove_slowly(path, lambda: 0.0, pause)


def test_a_table_in_use_is_never_touched(folders: tuple[Path, Path]) -> None:
    """Held by a second name for as long as the store has its own; whole in both."""
    store, aside = folders
    data = table(store, "000001.sst")
    (store / "CURRENT").write_text("x")
    worker = Aside(store, lambda: 0.0)
    for _ in range(3):
        worker.look()
        assert tables_in(aside) == ["000001.sst"]
        assert (store / "000001.sst").read_bytes() == data


def test_a_table_that_the_store_dropped_goes_in_steps(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its neighbour stays as it is."""
    store, aside = folders
    table(store, "000001.sst")
    kept = table(store, "000002.sst")
    worker = Aside(store, lambda: 0.0)
    worker.look()
    (store / "000001.sst").unlink()
    sizes: list[int] = []
    shorten = os.ftruncate

    def watched(handle: int, size: int) -> None:
        sizes.append(os.fstat(handle).st_size - size)
        shorten(handle, size)

    monkeypatch.setattr(os, "ftruncate", watched)
    worker.look()
    assert sizes
    assert max(sizes) <= STEP_BYTES
    assert tables_in(aside) == ["000002.sst"]
    assert (store / "000002.sst").read_bytes() == kept


def test_what_a_crash_left_is_removed_at_the_next_start(folders: tuple[Path, Path]) -> None:
    """A file half shortened goes; one that a store, or one that was set aside, still has stays."""
    store, aside = folders
    data = table(store, "000003.sst")
    os.link(store / "000003.sst", aside / "000003.sst")
    (aside / "000001.sst").write_bytes(bytes(3 * MIB))
    other = store.with_name("state.damaged-1")
    other.mkdir()
    old = table(other, "000002.sst")
    os.link(other / "000002.sst", aside / "000002.sst")
    Aside(store, lambda: 0.0).look()
    assert tables_in(aside) == ["000002.sst", "000003.sst"]
    assert (store / "000003.sst").read_bytes() == data
    assert (other / "000002.sst").read_bytes() == old


def test_a_copied_directory_shares_nothing_with_its_copy(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    """A copy makes files of the second names: they are taken for left over, the tables are not."""
    store, _ = folders
    data = table(store, "000001.sst")
    Aside(store, lambda: 0.0).look()
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path, copy, ignore=shutil.ignore_patterns("copy"))
    Aside(copy / "state", lambda: 0.0).look()
    assert (copy / "state" / "000001.sst").read_bytes() == data
    assert (store / "000001.sst").read_bytes() == data


def test_a_store_that_flushes_and_compacts_keeps_every_value(tmp_path: Path) -> None:
    """A real store beside a worker that never rests: everything reads back, before and after a
    restart, and what was dropped is gone from both folders."""
    loop = asyncio.new_event_loop()
    settings = RocksSettings(write_buffer_bytes=MIB)
    values = {b"%06d" % n: os.urandom(1000) for n in range(2000)}
    directory = tmp_path / "state"
    worker = Aside(directory, loop.time)
    for life in range(2):
        store = RocksStore(directory, loop, settings)
        store._aside.stop()  # one worker at a time
        worker = Aside(directory, loop.time)
        for part in range(6):
            for key in list(values)[part::6]:
                write_set = WriteSet()
                values[key] = key + os.urandom(1000 + life)
                write_set.put(key, values[key])
                store.write(write_set)
            flushed: list[bool] = []
            store.flush(partial(flushed.append, True))
            while not flushed:
                worker.look()
                loop.run_until_complete(asyncio.sleep(0))
        store.compact(b"", b"\xff")
        worker.look()
        worker.look()
        assert {key: store.get(key) for key in values} == values
        store.close()
    worker.look()
    worker.look()
    tables = {name for name in os.listdir(directory) if name.endswith(".sst")}
    assert tables_in(folder_of(directory)) == sorted(tables)
    loop.close()


def test_everything_in_a_directory_is_made_private(tmp_path: Path) -> None:
    """Folders 0700, files 0600; links are not followed."""
    outside = tmp_path / "outside"
    outside.write_text("x")
    outside.chmod(0o644)
    inside = tmp_path / "data"
    (inside / "state").mkdir(parents=True)
    for path in (inside / "a", inside / "state" / "b"):
        path.write_text("x")
        path.chmod(0o644)
    (inside / "link").symlink_to(outside)
    for path in (inside, inside / "state"):
        path.chmod(0o755)
    assert keep_private(inside) == 4
    assert [oct(p.stat().st_mode & 0o777) for p in (inside, inside / "state")] == ["0o700"] * 2
    assert [oct(p.stat().st_mode & 0o777) for p in (inside / "a", inside / "state" / "b")] == [
        "0o600"
    ] * 2
    assert outside.stat().st_mode & 0o777 == 0o644
    assert keep_private(inside) == 0


@pytest.mark.parametrize("takes_links", [True, False])
def test_without_a_count_of_links_no_table_is_held(
    folders: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    takes_links: bool,
) -> None:
    """A file system that takes links and reports one name for each file, or takes none: tables
    stay whole, what was held is let go, and one line says so."""
    store, aside = folders
    data = table(store, "000001.sst")
    os.link(store / "000001.sst", aside / "000001.sst")
    (aside / "000009.sst").write_bytes(b"x")
    real = os.stat

    def lying(path: Path, *args: object, **kwargs: object) -> os.stat_result:
        facts = list(real(path, *args, **kwargs))  # type: ignore[arg-type]
        facts[3] = 1
        return os.stat_result(facts)

    def refusing(*_: object) -> None:
        raise PermissionError("no links here")

    with monkeypatch.context() as patches:
        if takes_links:
            patches.setattr(os, "stat", lying)
            patches.setattr(os, "lstat", lambda path: lying(path, follow_symlinks=False))
        else:
            patches.setattr(os, "link", refusing)
        worker = Aside(store, lambda: 0.0)
        worker.start()
        worker._thread.join(5)
        assert not worker._thread.is_alive(), "there is nothing for it to do"
    assert (store / "000001.sst").read_bytes() == data
    assert [name for name in os.listdir(aside) if name.endswith("sst")] == []
    assert [record.message for record in caplog.records] == ["tables_not_held"]


def test_with_a_count_of_links_the_probe_leaves_nothing(folders: tuple[Path, Path]) -> None:
    """Also where a crash left a probe."""
    store, aside = folders
    (aside / "probe").touch()
    os.link(aside / "probe", aside / "probe.link")
    worker = Aside(store, lambda: 0.0)
    assert worker._counts_links()
    assert os.listdir(aside) == []


def test_a_new_stores_tables_are_held_beside_those_of_the_damaged_one(
    folders: tuple[Path, Path],
) -> None:
    """Both use the same names for different files: each is held until its own store drops it."""
    store, aside = folders
    old = table(store, "000001.sst")
    Aside(store, lambda: 0.0).look()
    damaged = store.with_name("state.damaged-1")
    store.rename(damaged)
    store.mkdir()
    new = table(store, "000001.sst")
    worker = Aside(store, lambda: 0.0)
    worker.look()
    assert tables_in(aside) == ["000001.sst"] * 2
    assert (store / "000001.sst").stat().st_nlink == 2
    (damaged / "000001.sst").unlink()
    worker.look()
    assert tables_in(aside) == ["000001.sst"]
    assert (store / "000001.sst").read_bytes() == new != old
    (store / "000001.sst").unlink()
    worker.look()
    assert os.listdir(aside) == []


def test_what_waits_to_be_removed_is_bounded() -> None:
    """By files and by bytes; the first ones go at once, until the rest is within both."""
    assert excess([]) == 0
    assert excess([1] * BACKLOG_FILES_MAX) == 0
    assert excess([1] * (BACKLOG_FILES_MAX + 3)) == 3
    assert excess([BACKLOG_BYTES_MAX]) == 0
    assert excess([5, BACKLOG_BYTES_MAX]) == 1
    assert excess([BACKLOG_BYTES_MAX, 5]) == 1
    assert excess([BACKLOG_BYTES_MAX + 1]) == 1


def test_dropped_tables_beyond_the_bound_go_at_once(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """They are counted, one line says so, and the others still go in steps."""
    store, aside = folders
    monkeypatch.setattr(removal, "BACKLOG_FILES_MAX", 2)
    for number in range(5):
        table(aside, f"00000{number}.sst", 5 * MIB)
    kept = table(store, "000007.sst")
    slowly: list[int] = []
    shorten = os.ftruncate

    def watched(handle: int, size: int) -> None:
        slowly.append(size)
        shorten(handle, size)

    monkeypatch.setattr(os, "ftruncate", watched)
    worker = Aside(store, lambda: 0.0)
    worker.look()
    assert worker.at_once == 3
    assert slowly == [MIB, MIB]
    assert [record.message for record in caplog.records] == ["removals_fell_behind"]
    assert tables_in(aside) == ["000007.sst"]
    assert (store / "000007.sst").read_bytes() == kept
