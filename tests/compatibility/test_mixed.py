"""Real processes of two releases in one cluster: forwards, back, and no further back than that."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest

from svc_cluster.base.checksum import crc32c
from svc_cluster.model.versions import FIRST, NEWEST
from tests.compatibility.fleet import Fleet, admin, cluster_version
from tests.compatibility.programs import NOW, Program
from tests.e2e.cluster import Load
from tests.e2e.load import set_up

BASIN = "mixed-basin"


async def _replace(fleet: Fleet, load: Load, node: int, program: Program) -> None:
    fleet.stop(f"node-{node}")
    fleet.start_node(node, program)
    await fleet.ready(node)
    await load.acknowledged(5, deadline_s=60.0)


def _newest(fleet: Fleet, node: int) -> dict[str, int]:
    rows = cluster_version(fleet, node, NOW)["processes"]
    return {f"{row['role']} {row['node_id']}": row["newest"] for row in rows}


GREETED_S = 20.0
"""For so long nobody may know what a node that has just come speaks."""


@pytest.mark.timeout(600)
def test_an_upgrade_under_load_and_back_and_finalized(tmp_path: Path, before: Program) -> None:
    """A cluster of the release before is upgraded node by node under load, taken back and upgraded
    again: nothing acknowledged is lost, and nothing is refused for good. While anybody is of the
    release before, finalizing is refused by name; afterwards that release is refused, by its
    directory at the start and, with another directory's word, at the handshake."""

    async def main() -> None:
        fleet = Fleet(tmp_path / "fleet")
        try:
            for node in fleet.ids:
                fleet.start_node(node, before)
            fleet.start_gateway(before)
            await fleet.ready(*fleet.ids)
            load = Load(fleet.url, BASIN, writers=2)
            await set_up(fleet.url, BASIN, [writer.stream for writer in load.writers])
            load.start()
            await load.acknowledged(5, deadline_s=60.0)
            await _forward_and_back(fleet, load, before)
            await _replace(fleet, load, 1, NOW)
            status, told = admin(fleet, 1, NOW, "upgrade", "finalize", "--yes")
            assert (status, "gateway" in told) == (1, True), told
            await load.stop()
            assert (await load.verify()).clean
            fleet.stop("gateway")
            fleet.start_gateway(NOW)
            await fleet.ready(*fleet.ids)
            await _finalize(fleet)
            load.start()
            await load.acknowledged(5, deadline_s=60.0)
            await _refused(fleet, before)
            await load.stop()
            verdict = await load.verify()
            print(f"\nacknowledged {verdict.acknowledged}  missing {verdict.missing}")
            assert verdict.clean, verdict
        except BaseException:
            for name in ("gateway", *(f"node-{node}" for node in fleet.ids)):
                print(name, fleet.log(name)[-2000:])
            raise
        finally:
            fleet.end()

    asyncio.run(main())


async def _forward_and_back(fleet: Fleet, load: Load, before: Program) -> None:
    """All three forwards, one of them first alone, and one of them back."""
    await _replace(fleet, load, 3, NOW)
    status, told = admin(fleet, 3, NOW, "upgrade", "finalize", "--yes")
    # whoever leads the catalog: of the release before it does not know the question
    assert status == 1, told
    assert "older release" in told or "runs release 0.2" in told, told
    for node in (1, 2):
        await _replace(fleet, load, node, NOW)
    expected = {f"node {node}": NEWEST for node in fleet.ids} | {"gateway 0": FIRST}
    # whoever came last may not have been talked to yet
    async with asyncio.timeout(GREETED_S):
        while (found := _newest(fleet, 1)) != expected and 0 in found.values():
            await asyncio.sleep(0.1)
    assert found == expected
    figures = await fleet.figures(1)
    assert figures["svc_cluster_active_version"] == FIRST
    assert figures["svc_cluster_upgrade_outstanding"] == 1
    await _replace(fleet, load, 1, before)


async def _finalize(fleet: Fleet) -> None:
    fleet.stop("node-3")
    status, told = admin(fleet, 1, NOW, "upgrade", "finalize", "--yes")
    assert (status, "node 3 is not connected" in told) == (1, True), told
    fleet.start_node(3, NOW)
    await fleet.ready(3)
    status, told = admin(fleet, 1, NOW, "upgrade", "finalize", "--yes")
    assert (status, told.splitlines()[0]) == (0, "active version 3 (release 0.3)"), told
    for node in fleet.ids:
        async with asyncio.timeout(60):
            while (await fleet.figures(node)).get("svc_cluster_active_version") != NEWEST:
                await asyncio.sleep(0.1)


async def _refused(fleet: Fleet, before: Program) -> None:
    """A node and a gateway of the release before, and a node of it whose directory's word was
    lost."""
    fleet.stop("node-3", signal.SIGKILL)
    fleet.start_node(3, before)
    assert fleet.ended("node-3") != 0
    assert fleet.said("node-3", "has format 4, this version reads up to 2")
    identity = fleet.directory / "node-3" / "wal" / "identity"
    kept = identity.read_bytes()
    identity.write_bytes(_without_version(kept))
    fleet.start_node(3, before)
    sentence = (
        "node 3 is too old: it speaks version 2 (release 0.2), and this cluster is at version 3"
    )
    await fleet.until_said("node-3", sentence)
    fleet.stop("node-3")
    identity.write_bytes(kept)
    fleet.start_node(3, NOW)
    await fleet.ready(3)


def _without_version(raw: bytes) -> bytes:
    """The identity as the release before would have it."""
    stored = json.loads(raw[16 : 16 + int.from_bytes(raw[8:12], "big")])
    stored["format"] = FIRST
    del stored["active_version"]
    body = json.dumps(stored).encode()
    header = raw[:8] + len(body).to_bytes(4, "big") + crc32c(body).to_bytes(4, "big")
    return (header + body).ljust(4096, b"\0") * 2
