"""While the disk takes its time over a read of the state store, the event loop goes on: on the real
store, with a library preloaded that makes each read of its files take 5 ms longer."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("slow_reads.c")
PROGRAM = "tests.unit.storage.slow_reads"
SLOW_MS = 5.0


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs a C compiler and a preloaded library")
    built = tmp_path_factory.mktemp("preloaded") / "slow_reads.so"
    command = [compiler, "-shared", "-fPIC", "-o", str(built), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    ctypes.CDLL(str(built))
    return built


def test_a_scan_of_what_no_cache_holds_keeps_the_loop_from_nothing(
    tmp_path: Path, library: Path
) -> None:
    """400 batches come from a disk that answers each read after 5 ms: the loop is held for that
    long at hardly any of those reads, and runs a thousand times meanwhile."""
    done = subprocess.run(
        [sys.executable, "-m", PROGRAM, str(tmp_path), str(library)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "LD_PRELOAD": str(library), "SLOW_READ_US": "5000"},
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["batches"] == 400
    assert seen["reads"] >= 400
    assert seen["took_ms"] > seen["reads"] * SLOW_MS / 2
    assert seen["ticks"] > seen["reads"], seen
    assert seen["held"] < seen["reads"] / 10, seen
