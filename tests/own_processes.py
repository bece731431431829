"""Which processes a local cluster has, and what they take."""

from __future__ import annotations

import os
from pathlib import Path

from svc_cluster.lab.own_cluster import OwnCluster


def node_pids(cluster: OwnCluster) -> dict[int, int]:
    """The nodes that are up, with their process ids."""
    return {
        int(node["id"]): int(node["pid"]) for node in cluster.file()["nodes"] if node["pid"] > 0
    }


def resident_bytes(pid: int) -> int:
    """Resident memory of a process. 0 for one that is gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
