"""A share of the trials; `python -m tests.corruption --trials 1000` runs them in volume."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from svc_cluster.storage.wal.wal_frame import ALIGNMENT, BATCH, MAGIC
from tests.corruption import damage, dataset
from tests.corruption.dataset import Dataset
from tests.corruption.trials import Totals, Trials
from tests.e2e.cluster import rounds

LOGS = rounds("CORRUPTION_LOGS", 40)
CLUSTERS = rounds("CORRUPTION_CLUSTERS", 5)
STRIDE = rounds("CORRUPTION_STRIDE", 4099)
SEED = rounds("CORRUPTION_SEED", 1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Made by a real cluster, once for the module; `CORRUPTION_DATA` names one made before."""
    made = os.environ.get("CORRUPTION_DATA")
    if made is not None:
        return dataset.load(Path(made))
    return dataset.make(tmp_path_factory.mktemp("corruption") / "data")


@pytest.fixture
def trials(data: Dataset, tmp_path: Path) -> Trials:
    return Trials(data, tmp_path, SEED)


def test_damage_to_a_log_is_found_when_it_is_opened(trials: Trials) -> None:
    """Flips, zeroed pages, garbage, swapped frames, misdirected pages: each group is whole or known
    to be damaged, at this start and at the next, and every entry is one that was written."""
    totals = Totals()
    for number in range(LOGS):
        trials.one_log(number, totals)
    assert not totals.failures, "\n\n".join(totals.failures)
    assert totals.outcomes["found"] > LOGS // 4, "the damage hits what matters"


def test_a_log_torn_anywhere_in_its_last_64_kib_boots(trials: Trials) -> None:
    """What was written last is missing: a prefix is left, and nothing that was not written."""
    totals = Totals()
    trials.torn_tails(1, STRIDE, totals)
    assert not totals.failures, "\n\n".join(totals.failures)
    assert totals.outcomes["truncated"] > totals.trials // 2


def test_a_cluster_on_damaged_directories_gives_no_wrong_answer(data: Dataset) -> None:
    """Damage to one node is repaired by the others and hides nothing from readers; damage to all
    of them at different spots is repaired, or what cannot be told is refused."""
    command = [sys.executable, "-m", "tests.corruption", "--data", str(data.directory)]
    number = str(CLUSTERS)
    # in a process of its own: trials are forked off, which the suite's process must not be
    done = subprocess.run(
        [*command, "--trials", number, "--clusters", number, "--seed", str(SEED)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60 * CLUSTERS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    row = json.loads(done.stdout)
    assert (row["trials"], row["silently_wrong"], row["fault"]) == (CLUSTERS, 0, 0)


def test_batches_of_an_emptied_end_are_counted() -> None:
    """By their headers, and the one whose middle the damage begins in; frames and what only looks
    like one, out of line, are none."""

    def frame(kind: int) -> bytes:
        head = MAGIC + bytes(4) + bytes([kind])
        return head + b"x" * (4 * ALIGNMENT - len(head))

    kinds = (BATCH, 1, 1, BATCH, 1, BATCH)
    log = bytes(ALIGNMENT) + b"".join(frame(kind) for kind in kinds)
    log += b"x" + MAGIC + bytes(4) + bytes([BATCH])
    size = 4 * ALIGNMENT

    def emptied(at: int) -> int:
        return damage.batches_emptied(log, log[:at].ljust(len(log), b"\0"))

    assert damage.batches_emptied(log, log) == 0
    assert emptied(ALIGNMENT + 1) == 3
    assert emptied(ALIGNMENT + 2 * size) == 3
    assert emptied(ALIGNMENT + 3 * size + 1) == 2
    assert emptied(ALIGNMENT + 5 * size + 1) == 1
