"""What a cluster of one's own tells of itself costs no more than it tells."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

from svc_cluster.lab import own_cluster
from svc_cluster.lab.own_cluster import OwnCluster


def test_the_end_of_a_log_is_told_however_long_the_log_is(tmp_path: Path) -> None:
    """A process that repeats itself for ever takes no memory from whoever asks what it said."""
    cluster = OwnCluster(tmp_path / "cluster")
    cluster.directory.mkdir()
    (cluster.directory / "node-1.log").write_text("short\n")
    with cluster.log_path.open("wb") as log:
        for _ in range(16):
            log.write(b"a line of a log\n" * (own_cluster._TAIL_BYTES_MAX // 16))
        log.write(b"the last one \xff\n")
    tracemalloc.start()
    try:
        told = cluster.log_tail(3)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert told.splitlines() == [
        "--- cluster.log",
        "a line of a log",
        "a line of a log",
        "the last one \N{REPLACEMENT CHARACTER}",
        "--- node-1.log",
        "short",
    ]
    assert most < 10 * own_cluster._TAIL_BYTES_MAX
