"""What several directories have together: which of them count, and what is told of the rest."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from svc_cluster.backup import quorum_loss
from svc_cluster.backup.backup_errors import BackupError
from svc_cluster.backup.quorum_loss import Recovery, open_recovery
from svc_cluster.base.clock import SystemClock
from svc_cluster.base.ids import CATALOG_GROUP, Generation, NodeId
from svc_cluster.base.log_ops import CreateReplica, LogOp
from svc_cluster.catalog import catalog_state
from svc_cluster.catalog.node_rows import NodeRecord, encode_node
from svc_cluster.model.places import Place
from tests.unit.backup.left_directory import leave, noops, tear

GIVEN = "d" * 32
CATALOG: dict[int, Sequence[LogOp]] = {
    CATALOG_GROUP: [CreateReplica(Generation(1)), noops(1, 4, 3)]
}
REFUSED = r"node 3's place was given to another directory than .*/old3: leave it out"


@asynccontextmanager
async def recovery(work: Path, *directories: Path) -> AsyncIterator[Recovery]:
    work.mkdir(exist_ok=True)
    found = await open_recovery(directories, work, SystemClock())
    try:
        yield found
    finally:
        await found.close()


def told(tmp_path: Path, *names: str) -> list[str]:
    async def main() -> list[str]:
        async with recovery(tmp_path / "work", *(tmp_path / name for name in names)) as found:
            return found.told()

    return asyncio.run(main())


def test_a_directory_whose_place_another_survivor_knows_to_be_given_is_refused(
    tmp_path: Path,
) -> None:
    """What the new one and node 2 have acknowledged since is in neither of these."""

    async def main() -> None:
        places = (Place(NodeId(3), 1, GIVEN),)
        await leave(tmp_path / "n1", 1, CATALOG, places=places)
        await leave(tmp_path / "old3", 3, CATALOG)

    asyncio.run(main())
    with pytest.raises(BackupError, match=REFUSED):
        told(tmp_path, "n1", "old3")


@pytest.mark.parametrize("ordinal", [0, 1])
def test_a_directory_whose_place_the_catalog_gave_away_is_refused(
    ordinal: int, tmp_path: Path
) -> None:
    """Also where two directories took it one after the other, as far as they know."""

    async def main() -> None:
        row = encode_node(NodeRecord(NodeId(3), GIVEN, "n3:1", ordinal=ordinal + 1))
        key = catalog_state.NODE + struct.pack(">Q", 3)
        await leave(tmp_path / "n1", 1, CATALOG, rows={1: {key: row}})
        await leave(tmp_path / "old3", 3, CATALOG, ordinal=ordinal, rows={1: {key: row}})

    asyncio.run(main())
    with pytest.raises(BackupError, match=REFUSED):
        told(tmp_path, "n1", "old3")


def test_the_directory_that_took_a_place_counts(tmp_path: Path) -> None:
    async def main() -> None:
        own = await leave(tmp_path / "new3", 3, CATALOG, ordinal=1)
        await leave(tmp_path / "n1", 1, CATALOG, places=(Place(NodeId(3), 1, own),))

    asyncio.run(main())
    assert "nothing that was acknowledged is missing" in told(tmp_path, "n1", "new3")[0]


def test_a_newer_directory_than_others_know_of_counts(tmp_path: Path) -> None:
    """Node 1 has heard of the first one that took the place, and not of the second."""

    async def main() -> None:
        await leave(tmp_path / "new3", 3, CATALOG, ordinal=2)
        await leave(tmp_path / "n1", 1, CATALOG, places=(Place(NodeId(3), 1, GIVEN),))

    asyncio.run(main())
    assert "nothing that was acknowledged is missing" in told(tmp_path, "n1", "new3")[0]


def test_groups_that_the_catalog_does_not_know_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalog that is left may be older than a basin of which a replica is left."""

    async def main() -> None:
        await leave(tmp_path / "n1", 1, {**CATALOG, 5: [CreateReplica(Generation(2))]})
        more = {group: [CreateReplica(Generation(group))] for group in (7, 8)}
        await leave(tmp_path / "n2", 2, {**CATALOG, **more})

    asyncio.run(main())
    unknown = "has a replica, and the catalog that is left does not know this group"
    lines = told(tmp_path, "n1", "n2")
    assert f"group 5: node 1 {unknown}: it is LEFT OUT" in lines
    assert len([line for line in lines if unknown in line]) == 3
    monkeypatch.setattr(quorum_loss, "GROUPS_TOLD_MAX", 2)
    (tmp_path / "work").rename(tmp_path / "before")
    lines = told(tmp_path, "n1", "n2")
    assert len([line for line in lines if unknown in line]) == 2
    assert lines[-1] == "and 1 replicas of unknown groups more"


def test_beside_a_damaged_directory_the_whole_ones_are_taken(tmp_path: Path) -> None:
    """The first one's log is the longest, and cannot be read: it neither leads nor counts."""

    async def main() -> None:
        filled = {b"\xf0%06d" % number: b"x" * 100 for number in range(2_000)}
        longer: list[LogOp] = [CreateReplica(Generation(1)), noops(1, 9, 3)]
        await leave(tmp_path / "n1", 1, {CATALOG_GROUP: longer}, rows={1: filled})
        tear(tmp_path / "n1")
        await leave(tmp_path / "n2", 2, CATALOG)
        await leave(tmp_path / "n3", 3, CATALOG)

    asyncio.run(main())
    first, *rest = told(tmp_path, "n1", "n2", "n3")
    assert first == "catalog: as node 2 has it, index 4; nothing that was acknowledged is missing"
    assert any("n1, of node 1, cannot be read, and is left out" in line for line in rest)
    (tmp_path / "work").rename(tmp_path / "before")
    assert "only these are here and whole: 2" in told(tmp_path, "n1", "n2")[0]
    (tmp_path / "work").rename(tmp_path / "before-too")
    with pytest.raises(BackupError, match="none of the directories has the catalog"):
        told(tmp_path, "n1")
