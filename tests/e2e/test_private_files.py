"""What a whole local cluster keeps on the disk is for its own user alone."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from svc_cluster.base.clock import SystemClock
from svc_cluster.lab.api_client import ApiClient
from svc_cluster.lab.own_cluster import OwnCluster

READY_S = 60.0


def rights(directory: Path) -> dict[str, str]:
    """Whatever others may do, by path."""
    found = {}
    for path in (directory, *directory.rglob("*")):
        mode = path.lstat().st_mode & 0o777
        if mode & 0o077 and not path.is_symlink():
            found[str(path.relative_to(directory))] = oct(mode)
    return found


def kinds(directory: Path) -> set[str]:
    return {path.suffix or path.name for path in directory.rglob("*") if path.is_file()}


async def _life(directory: Path, settings: dict[str, object], basin: str) -> None:
    environment = {"SVC_CLUSTER_LOCAL_OVERRIDES": json.dumps(settings)}
    cluster = OwnCluster(directory, environment=environment)
    cluster.start()
    try:
        await cluster.wait_ready(READY_S)
        api = ApiClient(cluster.url)
        try:
            await api.make(SystemClock(), basin, None, READY_S)
            await api.make(SystemClock(), basin, "stream", READY_S)
        finally:
            api.close()
        assert rights(directory) == {}, "while it runs"
    finally:
        cluster.stop()


def test_a_whole_tree_is_private(tmp_path: Path) -> None:
    """Log, state store, identity, secrets and audit logs: made so, and made so again where an
    earlier version had left rights to others."""
    directory = tmp_path / "cluster"
    settings: dict[str, object] = {"audit_log": str(directory / "audit.jsonl")}
    asyncio.run(_life(directory, settings, "private-one"))
    assert kinds(directory) >= {".segment", "wal-reach", "identity", "CURRENT", ".jsonl", ".secret"}
    assert rights(directory) == {}
    for path in directory.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    directory.chmod(0o755)
    asyncio.run(_life(directory, settings, "private-two"))
    assert rights(directory) == {}
