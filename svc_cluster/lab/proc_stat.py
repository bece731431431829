"""Processor time of the processes of a local cluster, from /proc."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


def cluster_pids(cluster: dict[str, Any]) -> list[int]:
    """The gateway's and the nodes' process ids; those that are down (0) are left out."""
    pids = [int(cluster["gateway"]["pid"]), *(int(node["pid"]) for node in cluster["nodes"])]
    return [pid for pid in pids if pid > 0]


def cpu_seconds(pid: int) -> float:
    """User plus system time of a process in seconds, to 10 ms. 0 for one that is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
