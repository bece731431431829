"""Payload files that are gone or damaged: the replicas whose bytes they held are repaired."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from svc_cluster.storage.damage import EXIT_STORE_DAMAGED, is_marked
from svc_cluster.storage.harm import HarmFormatError, NotedHarm, note_harm
from svc_cluster.storage.payload.payload_frame import file_number
from svc_cluster.storage.rocks_store import RocksStore
from svc_cluster.storage.worker import EXIT_STORAGE
from tests.corruption import dataset
from tests.log_lines import whole_lines

FAIL = """
import asyncio, sys
from pathlib import Path
from svc_cluster.storage.harm import DamagedBytesError
from svc_cluster.storage.rocks_store import RocksStore

store = RocksStore(Path(sys.argv[1]), asyncio.new_event_loop())
store.fail(DamagedBytesError("payload file 1", (17).to_bytes(8, "big") + b"key"))
"""

FORGET = """
import asyncio, os, sys
from pathlib import Path
from svc_cluster.storage.rocks_store import RocksStore

store = RocksStore(Path(sys.argv[1]), asyncio.new_event_loop())
note = Path(sys.argv[1] + ".harmed")
note.unlink()
note.mkdir()
store.harm.forget(17)
store.close()
"""

TRIAL = """
import sys
from pathlib import Path
from tests.corruption import dataset
from tests.corruption.cluster_trial import run_trial

result = run_trial(dataset.load(Path(sys.argv[1])), Path(sys.argv[2]), "files gone", 60.0)
print(result.outcome, result.detail if result.outcome != "repaired" else "", sep="")
"""


def noted(store: Path) -> frozenset[int]:
    """What a start would read."""
    return NotedHarm(store, lambda job: job()).generations


def test_a_file_that_is_gone_repairs_the_groups_that_it_held_and_no_other(tmp_path: Path) -> None:
    """Large batches of one basin stood in it: that basin's replica comes from its peers, the other
    basin's and the catalog's stay, and so does the store."""
    data = dataset.make(tmp_path / "data")
    trial = tmp_path / "trial"
    trial.mkdir()
    data.copy(trial)
    gone = [path for path in (trial / "node-2" / "wal").iterdir() if file_number(path.name)]
    assert gone
    for path in gone:
        path.unlink()
    # in a process of its own: it forks, which the suite's process must not
    done = subprocess.run(
        [sys.executable, "-c", TRIAL, str(data.directory), str(trial)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout == "repaired\n", done.stdout + done.stderr
    assert not list(trial.glob("node-*/state.damaged-*"))
    lines = [line for line in whole_lines(trial / "trial.log") if "replica_recovering" in line]
    assert len(lines) == 1, lines
    assert not list(trial.glob("node-*/state.harmed"))


def test_damaged_bytes_are_noted_with_their_replica(tmp_path: Path) -> None:
    """The process ends, the store is not marked, the note names the replica until that is known."""
    store = tmp_path / "state"
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", FAIL, str(store)], capture_output=True, text=True, check=False
        )
        assert done.returncode == EXIT_STORE_DAMAGED, done.stderr
    assert not is_marked(store)
    note_harm(store, 18)
    loop = asyncio.new_event_loop()
    opened = RocksStore(store, loop)
    assert opened.harm.generations == {17, 18}
    opened.harm.forget(17)
    assert opened.harm.generations == {18}
    opened.close()
    opened = RocksStore(store, loop)
    assert opened.harm.generations == {18}
    opened.harm.forget(18)
    opened.close()
    assert not (tmp_path / "state.harmed").exists()
    loop.close()


def test_a_note_of_another_release_stops_the_start(tmp_path: Path) -> None:
    """It is not stepped over; a torn last line is."""
    store = tmp_path / "state"
    note_harm(store, 5)
    with (tmp_path / "state.harmed").open("a") as note:
        note.write("1 7")
    assert noted(store) == {5}
    with (tmp_path / "state.harmed").open("a") as note:
        note.write("\n2 7 more\n")
    with pytest.raises(HarmFormatError, match="does not understand"):
        noted(store)


@pytest.mark.parametrize("torn", [b"1", b"1 4", b"\0\0\0\0", b"1 5\n1 4", b"\0\0\0\n"])
def test_a_torn_line_spoils_no_line_behind_it(tmp_path: Path, torn: bytes) -> None:
    """A power cut came during a note, and the damage is met again: the node starts, and knows what
    was noted whole."""
    store = tmp_path / "state"
    (tmp_path / "state.harmed").write_bytes(torn)
    whole = {5} if b"5" in torn else set()
    assert noted(store) == whole
    note_harm(store, 7)
    assert noted(store) == {7, *whole}
    note_harm(store, 44)
    assert noted(store) == {7, 44, *whole}


def test_a_note_is_renewed_elsewhere_and_once_for_all_that_is_repaired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it is done where it is asked for, one sync does for all, and what somebody notes
    before that stays."""
    store = tmp_path / "state"
    for generation in range(1, 9):
        note_harm(store, generation)
    jobs: list[Callable[[], None]] = []
    syncs: list[int] = []
    sync = os.fsync

    def counted(handle: int) -> None:
        syncs.append(handle)
        sync(handle)

    monkeypatch.setattr(os, "fsync", counted)
    harm = NotedHarm(store, jobs.append)
    for generation in (1, 2, 3):
        harm.forget(generation)
    assert harm.generations == {4, 5, 6, 7, 8}
    assert (len(jobs), len(syncs)) == (1, 0)
    note_harm(store, 9)
    syncs.clear()
    jobs.pop()()
    assert (len(jobs), len(syncs)) == (0, 1)
    assert noted(store) == {4, 5, 6, 7, 8, 9}
    harm.forget(4)
    jobs.pop()()
    assert noted(store) == {5, 6, 7, 8, 9}


def test_a_note_that_cannot_be_renewed_ends_the_process_as_storage_does(tmp_path: Path) -> None:
    """Whoever looks at its exit code reads that the disk was in the way."""
    store = tmp_path / "state"
    note_harm(store, 17)
    done = subprocess.run(
        [sys.executable, "-c", FORGET, str(store)], capture_output=True, text=True, check=False
    )
    assert done.returncode == EXIT_STORAGE, done.stderr
    assert "storage failed" in done.stderr
