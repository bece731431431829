"""Who votes in the catalog stays, whatever the settings of a node that began the cluster say."""

from __future__ import annotations

import asyncio
import random
import socket
from pathlib import Path

import pytest

from svc_cluster.base.ids import NodeId
from svc_cluster.cli.processes.node_process import RunningNode
from svc_cluster.settings import NodeSettings
from svc_cluster.settings_errors import SettingsError


def _free() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_a_join_token_file_changes_no_voters(tmp_path: Path) -> None:
    """The file need not even be there. Five nodes of which two went by settings with two ids would
    have two majorities: the settings are refused, and what was formed counts, not they."""
    secret = tmp_path / "secret"
    secret.write_bytes(random.randbytes(48).hex().encode())
    own = f"127.0.0.1:{_free()}"

    def settings(**more: object) -> NodeSettings:
        found = NodeSettings(
            **{  # type: ignore[arg-type]
                "cluster_id": "c",
                "node_id": 1,
                "data_dir": str(tmp_path / "data"),
                "nodes": {"1": own},
                "secret_file": str(secret),
                "replication_factor": 1,
                **more,
            }
        )
        found.check()
        return found

    async def begin() -> None:
        running = RunningNode(settings())
        await running.start()
        async with asyncio.timeout(5):
            while not running.node.former.formation.is_open:
                await asyncio.sleep(0.02)
        assert running.node.host.catalog_nodes == (NodeId(1),)
        await running.close()

    async def again() -> None:
        others = {"1": own, "2": f"127.0.0.1:{_free()}"}
        changed = settings(nodes=others, join_token_file=str(tmp_path / "gone"))
        members = tmp_path / "data" / "members.json"
        known = members.read_text()
        members.unlink()
        running = RunningNode(changed)
        await running.start()
        try:
            assert running.node.former.formation.record.members[0][0] == 1
            assert running.node.host.catalog_nodes == (NodeId(1),)
        finally:
            await running.close()
        members.write_text(known)
        with pytest.raises(SettingsError, match="put the ids back"):
            RunningNode(changed)

    asyncio.run(begin())
    asyncio.run(again())
