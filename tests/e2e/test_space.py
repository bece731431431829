"""Space comes back while the cluster runs, whatever way records end.

Small in the suite. `SPACE_MIB=2048 SPACE_OTHERS_MIB=512 SPACE_NODES=3 SPACE_SEGMENT_MIB=16
RECORD=1` before `.venv/bin/python -m pytest -s --timeout 900 tests/e2e/test_space.py` is the run at
full size: it prints the table and adds it to docs/reliability/space.jsonl.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.e2e.cluster import rounds, running
from tests.e2e.space import MIB, Space, disk_bytes
from tests.reliability import failure_recorded, record_if_asked

SEGMENT_MIB_IN_SUITE = 4
FULL_SIZE_MIB = 2048
"""From here on the floor does not weigh, and is not granted."""
STORE_FLOOR = 4 * MIB
"""What RocksDB keeps whatever it holds (logs, manifest, options), dead bytes that are not worth a
compaction, and the catalog."""


PAYLOAD_FLOOR = 4 * 64 * MIB
"""Two payload files' worth may be dead, one is written and one is ready; all are reserved whole."""


def test_a_file_of_two_names_takes_its_place_once(tmp_path: Path) -> None:
    """In two folders, as a table that is kept aside."""
    (tmp_path / "aside").mkdir()
    (tmp_path / "table").write_bytes(bytes(MIB))
    alone = disk_bytes(tmp_path)
    assert alone >= MIB
    (tmp_path / "aside" / "table").hardlink_to(tmp_path / "table")
    assert disk_bytes(tmp_path) == alone
    (tmp_path / "aside" / "other").write_bytes(bytes(MIB))
    assert disk_bytes(tmp_path) == 2 * alone


@pytest.mark.parametrize("payload_files", [True, False])
def test_space_comes_back_after_trim_expiry_and_deletion(
    tmp_path: Path, *, payload_files: bool
) -> None:
    """After 90 % of one stream was trimmed, all of a second expired, a third was deleted and a
    fourth went with its basin, every node's directory is within 1.3 times of the live bytes in
    120 s, beside what payload files keep; at small sizes beside a floor: the log segment in use,
    the next one, and the store's own files. Expired records are not read 60 s after their age, and
    the deleted stream is purged in 60 s."""
    mib = rounds("SPACE_MIB", 10)
    others_mib = rounds("SPACE_OTHERS_MIB", mib)
    nodes = rounds("SPACE_NODES", 1)
    segment_mib = rounds("SPACE_SEGMENT_MIB", SEGMENT_MIB_IN_SUITE)

    async def main() -> None:
        overrides = {
            "wal_segment_mib": segment_mib,
            "flush_seconds": 1.0 if mib < 100 else 5.0,
            "payload_files": payload_files,
        }
        environment = {"SVC_CLUSTER_LOCAL_OVERRIDES": json.dumps(overrides)}
        async with running(tmp_path / "c", nodes=nodes, environment=environment) as cluster:
            floor = 0 if mib >= FULL_SIZE_MIB else 2 * segment_mib * MIB + STORE_FLOOR
            floor += PAYLOAD_FLOOR if payload_files else 0
            result = await Space(cluster, mib, others_mib, floor).run()
        print("\n" + result.table())
        record_if_asked("space", result.row())

    with failure_recorded("space", dict):
        asyncio.run(main())
