"""A backup is taken whatever of the earlier ones is damaged."""

from __future__ import annotations

import asyncio

import pytest

from svc_cluster.backup.vault import PROGRESS, manifest_name
from svc_cluster.base.ids import StreamId
from tests.unit.backup.memory_objects import KilledError
from tests.unit.backup.scene import Scene
from tests.unit.backup.test_create import group, same_but_the_place
from tests.unit.backup.test_damaged_backups import flip, three


def test_a_backup_is_taken_behind_one_whose_manifest_is_damaged() -> None:
    """It builds on the last that can be read, says which cannot, and has a number of its own."""
    scene = Scene()
    three(scene)
    flip(scene, manifest_name(3))
    scene.cluster.read_batches = 0
    made = scene.backup()
    assert made.number == 4
    assert scene.cluster.read_batches < 5
    assert [line for line in scene.said if line.startswith("backup 3: manifests/0000000003 is")]
    basin = scene.cluster.basins[group(scene)]
    same_but_the_place(scene.restored(made)[0].groups[group(scene)], basin.rows)


@pytest.mark.parametrize("is_full", [False, True])
def test_a_damaged_note_holds_no_backup_up_and_is_not_there_afterwards(is_full: bool) -> None:
    """What it was about is taken anew and said; a full backup does not even look into it."""
    scene = Scene()
    basin = scene.filled()
    scene.objects.dies_at = 2 * 9
    with pytest.raises(KilledError):
        scene.backup()
    scene.objects.dies_at = None
    note = next(name for name in scene.objects.objects if name.startswith(PROGRESS))
    flip(scene, note)
    made = scene.backup(is_full=is_full)
    assert [f"{note} is damaged" in line for line in scene.said].count(True) == (not is_full)
    assert not any(name.startswith(PROGRESS) for name in scene.objects.objects)
    same_but_the_place(scene.restored(made)[0].groups[group(scene)], basin.rows)


def test_a_full_backup_takes_nothing_over_from_one_that_was_interrupted() -> None:
    """Every batch is read."""
    scene = Scene()
    scene.filled()
    scene.objects.dies_at = 2 * 9
    with pytest.raises(KilledError):
        scene.backup()
    scene.objects.dies_at = None
    scene.cluster.read_batches = 0
    scene.backup(is_full=True)
    assert scene.cluster.read_batches == 20


def test_a_chunk_that_is_damaged_where_records_go_on_is_taken_anew() -> None:
    """It is read for the last batch in it; what it held is there again afterwards."""
    scene = Scene()
    basin = scene.filled()
    first = scene.backup()
    chunk = asyncio.run(_last_chunk(scene))
    flip(scene, chunk)
    assert scene.findings(first) != []
    basin.append(StreamId(2), b"more", count=1, at_ms=50_000)
    made = scene.backup()
    assert [line for line in scene.said if f"{chunk} is damaged" in line]
    assert scene.findings(made) == []
    same_but_the_place(scene.restored(made)[0].groups[group(scene)], basin.rows)


async def _last_chunk(scene: Scene) -> str:
    """That has the last records of the second stream."""
    vault = await scene.vault()
    part = await vault.part((await vault.manifest(1)).basins[0])
    return next(each.name for each in part.chunks if (2, 30) in {e[::2] for e in each.extents})
