"""The power-loss shim proved alone, with small writers whose outcome is known."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.power import Ledger, build_shim, compiler, read_records

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C compiler: power cuts not tested")


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_shim(tmp_path_factory.mktemp("shim"))


@pytest.fixture
def ledger(shim: Path, tmp_path: Path) -> Ledger:
    return Ledger(shim, tmp_path / "data", tmp_path / "state")


def run(ledger: Ledger, program: str, **environment: str) -> None:
    """Run a program in the data directory under the shim, ending with kill -9 of itself."""
    prelude = "import os, signal\nO, D = os.O_RDWR | os.O_CREAT, os.O_RDONLY\n"
    die = "\nos.kill(os.getpid(), signal.SIGKILL)\n"
    outcome = subprocess.run(
        [sys.executable, "-c", prelude + program + die],
        cwd=ledger.root,
        env=os.environ | ledger.env(environment),
        check=False,
    )
    assert outcome.returncode == -signal.SIGKILL


MADE = """
f = os.open("log", O); os.write(f, b"a" * 4096); os.fsync(f)
d = os.open(".", D); os.fsync(d)
"""


def cut(ledger: Ledger, *, torn: bool = False, seed: int = 1) -> dict[str, bytes]:
    ledger.cut_power(random.Random(seed), torn=torn)
    return {p.name: p.read_bytes() for p in ledger.root.iterdir() if p.is_file()}


def test_synced_bytes_survive_and_later_bytes_vanish(ledger: Ledger) -> None:
    """An append is durable exactly up to the last sync."""
    run(ledger, MADE + 'os.write(f, b"b" * 100); os.fdatasync(f); os.write(f, b"c" * 100)')
    assert cut(ledger) == {"log": b"a" * 4096 + b"b" * 100}


def test_an_overwrite_in_place_goes_back_to_the_durable_bytes(ledger: Ledger) -> None:
    """Recycled segments are rewritten without changing their length: content is what counts."""
    run(
        ledger,
        MADE
        + 'os.pwrite(f, b"x" * 600, 100); os.pwrite(f, b"y" * 600, 400)\n'
        + 'os.fdatasync(f); os.pwritev(f, [b"z" * 300, b"w" * 300], 0); os.pwrite(f, b"q", 50)',
    )
    assert cut(ledger) == {"log": b"a" * 100 + b"x" * 300 + b"y" * 600 + b"a" * 3096}


def test_torn_sectors_are_old_or_new_and_nothing_else(ledger: Ledger) -> None:
    """With tearing every sector of an un-synced write is wholly old or wholly new, and over the
    seeds both happen."""
    run(ledger, MADE + 'os.pwrite(f, b"n" * 4096, 0)')
    log = next(ledger.state.glob("*.undo")).read_bytes()
    seen = set()
    for seed in range(8):
        (ledger.state / "1.undo").write_bytes(log)
        (ledger.root / "log").write_bytes(b"n" * 4096)
        content = cut(ledger, torn=True, seed=seed)["log"]
        sectors = {content[i : i + 512] for i in range(0, 4096, 512)}
        assert sectors <= {b"a" * 512, b"n" * 512}
        seen |= sectors
    assert len(seen) == 2


def test_a_new_file_is_lost_without_a_sync_of_its_directory(ledger: Ledger) -> None:
    """fsync of a file does not make its name durable."""
    run(ledger, MADE + 'g = os.open("new", O); os.write(g, b"1"); os.fsync(g)')
    assert cut(ledger) == {"log": b"a" * 4096}


def test_a_named_but_unsynced_file_is_there_and_empty(ledger: Ledger) -> None:
    """fsync of a directory does not make the content of its files durable."""
    run(ledger, MADE + 'g = os.open("new", O); os.write(g, b"1"); os.fsync(d)')
    assert cut(ledger) == {"log": b"a" * 4096, "new": b""}


def test_a_rename_is_undone_without_a_sync_of_the_directory(ledger: Ledger) -> None:
    """The replaced file comes back under its name, the new one under its temporary name."""
    program = (
        'g = os.open("t", O); os.write(g, b"new"); os.fsync(g); os.fsync(d); os.rename("t", "log")'
    )
    run(ledger, MADE + program)
    assert cut(ledger) == {"log": b"a" * 4096, "t": b"new"}


def test_a_rename_stays_once_the_directory_is_synced(ledger: Ledger) -> None:
    """Write, fsync, rename, fsync of the directory: the whole rule leads to the new content."""
    program = (
        'g = os.open("t", O); os.write(g, b"new"); os.fsync(g); os.rename("t", "log"); os.fsync(d)'
    )
    run(ledger, MADE + program)
    assert cut(ledger) == {"log": b"new"}
    assert not list(ledger.state.iterdir())


def test_an_unlink_is_undone_and_a_synced_one_is_final(ledger: Ledger) -> None:
    """A removed file returns with its durable content unless its directory was synced."""
    run(ledger, MADE + 'os.write(f, b"late"); os.unlink("log")')
    assert cut(ledger) == {"log": b"a" * 4096}
    run(ledger, 'd = os.open(".", D); os.unlink("log"); os.fsync(d)')
    assert cut(ledger) == {}


def test_truncation_is_undone_in_all_its_forms(ledger: Ledger) -> None:
    """ftruncate, O_TRUNC and growth by fallocate go back to the durable bytes and size."""
    for change in (
        "os.ftruncate(f, 10)",
        "os.ftruncate(f, 10); os.ftruncate(f, 4096)",
        "os.open('log', os.O_WRONLY | os.O_TRUNC)",
        "os.posix_fallocate(f, 0, 8192); os.pwrite(f, b'x', 8000)",
        "os.truncate('log', 3)",
        "open('log', 'w').write('other')",
    ):
        run(ledger, MADE + change)
        assert cut(ledger) == {"log": b"a" * 4096}, change
        (ledger.root / "log").unlink()


def test_synchronous_descriptors_need_no_sync(ledger: Ledger) -> None:
    """Writes through O_DSYNC are durable as they return."""
    run(ledger, MADE + 'g = os.open("log", os.O_WRONLY | os.O_DSYNC); os.pwrite(g, b"s" * 512, 0)')
    assert cut(ledger)["log"][:512] == b"s" * 512


def test_a_sync_of_a_later_process_covers_an_earlier_ones_writes(ledger: Ledger) -> None:
    """The page cache outlives a killed process, so what it wrote can still be made durable."""
    run(ledger, MADE + 'os.write(f, b"b" * 10)')
    run(ledger, 'f = os.open("log", os.O_RDWR); os.fsync(f); os.pwrite(f, b"no", 0)')
    assert cut(ledger) == {"log": b"a" * 4096 + b"b" * 10}


def test_ignored_syncs_lose_everything(ledger: Ledger) -> None:
    """The control: with syncs that do nothing not even the file remains."""
    run(ledger, MADE, LEDGER_IGNORE_SYNC="1")
    assert cut(ledger) == {}


def test_a_failed_sync_is_never_made_good_by_a_later_one(ledger: Ledger) -> None:
    """After EIO the kernel marks pages clean: a retried sync succeeds and the bytes are lost."""
    program = """
os.write(f, b"b" * 10)
try:
    os.fsync(f)
except OSError as error:
    assert error.errno == 5
else:
    raise SystemExit("the sync should have failed")
"""
    run(ledger, MADE + program, LEDGER_FAIL_SYNC_AFTER="2")
    run(ledger, 'f = os.open("log", os.O_RDWR); os.fsync(f)')
    assert cut(ledger) == {"log": b"a" * 4096}


def test_the_control_file_fails_syncs_of_one_path(ledger: Ledger) -> None:
    """Faults can be switched on for one node's files while everything runs."""
    ledger.fail_syncs("/two")
    program = 'os.mkdir("two"); g = os.open("two/x", O)\ntry:\n os.fsync(g)\nexcept OSError: pass\n'
    run(ledger, MADE + program + "else: raise SystemExit('the sync should have failed')")
    assert cut(ledger) == {"log": b"a" * 4096}


def test_threads_keep_the_ledger_in_order(ledger: Ledger) -> None:
    """Eight threads overwrite the same bytes; the undo leads back to the durable ones."""
    program = """
import threading
def work(k):
    for i in range(200):
        os.pwrite(f, bytes([65 + k]) * 512, 512 * (i % 8))
threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
"""
    run(ledger, MADE + program)
    assert len(read_records(ledger.state)) > 1600
    assert cut(ledger) == {"log": b"a" * 4096}


def test_rocksdb_is_seen_by_the_shim(ledger: Ledger, tmp_path: Path) -> None:
    """Writes to RocksDB's own log that were not synced vanish; flushed ones stay, also when the
    database is opened again. So the shim sees every call RocksDB makes for its data."""
    open_it = """
import rocksdict
options = rocksdict.Options(raw_mode=True); options.create_if_missing(True)
db = rocksdict.Rdict("db", options)
"""
    write = 'db[b"kept"] = b"1" * 5000; db.flush(True); db[b"gone"] = b"2" * 5000'
    control = Ledger(ledger.library, tmp_path / "control", tmp_path / "control-state")
    run(control, open_it + write)
    run(control, open_it + 'assert b"gone" in db, "kill -9 alone loses nothing"')
    run(ledger, open_it + write)
    cut(ledger)
    check = 'assert db[b"kept"] == b"1" * 5000; assert b"gone" not in db'
    run(ledger, open_it + check)
