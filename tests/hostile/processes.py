"""Memory of a local cluster's processes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from svc_cluster.lab.own_cluster import OwnCluster
from tests.hostile.scale import GATEWAY_BYTES_MAX, MIB, NODE_BYTES_MAX
from tests.own_processes import node_pids


def forget_peaks(pids: Sequence[int]) -> None:
    """From now on `peak_bytes` counts anew."""
    for pid in pids:
        Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_bytes(pid: int) -> int:
    """The most resident memory that the process had at any time since `forget_peaks`."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    assert found is not None, status
    return int(found[1]) * 1024


def peaks(cluster: OwnCluster) -> dict[str, int]:
    """Of the gateway and of each node that is up."""
    found = {f"node-{number}": peak_bytes(pid) for number, pid in node_pids(cluster).items()}
    return found | {"gateway": peak_bytes(int(cluster.file()["gateway"]["pid"]))}


def above_budget(found: dict[str, int]) -> list[str]:
    """One sentence for each process that took more than any client may make it take."""
    return [
        f"{name} took {size // MIB} MiB"
        for name, size in found.items()
        if size >= (GATEWAY_BYTES_MAX if name == "gateway" else NODE_BYTES_MAX)
    ]


def in_mib(found: dict[str, int]) -> dict[str, int]:
    """The columns of the table: the most of any node, and of the gateway."""
    nodes = [size for name, size in found.items() if name != "gateway"]
    return {"node_mib": max(nodes) // MIB, "gateway_mib": found["gateway"] // MIB}
