"""What is taken from a place of backups, and held, has bounds, whoever can write there."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import pytest

from svc_cluster.backup.backup_errors import BackupError, DamagedError, ObjectStoreError
from svc_cluster.backup.backup_manifest import GroupEntry, GroupPart, Manifest, encode
from svc_cluster.backup.directory_store import DirectoryStore
from svc_cluster.backup.objects import NAMES_MAX, OBJECT_BYTES_MAX, PAGE, StoreBounds
from svc_cluster.backup.prune import BackupRetention, prune
from svc_cluster.backup.vault import CHUNKS, PARTS, Vault
from svc_cluster.base.ids import StreamId
from svc_cluster.cli.backup.backup_places import OBJECT_MIB_MAX, OBJECTS_MAX, store_at
from tests.unit.backup.scene import Scene

MIB = 1024 * 1024
PARTS_COUNT = 24


def test_an_object_that_is_larger_than_any_is_not_read(tmp_path: Path) -> None:
    """A file without end, for all that is known of it, costs what the bound allows and is named;
    one at the bound is read, and none beyond it is put."""
    store = DirectoryStore(tmp_path, StoreBounds(object_bytes_max=MIB))
    with (tmp_path / "hostile").open("wb") as file:
        file.truncate(64 * 1024 * MIB)  # of holes

    async def main() -> None:
        tracemalloc.start()
        with pytest.raises(DamagedError, match=r"hostile in .* has more than the 1048576 bytes"):
            await store.get("hostile")
        assert tracemalloc.get_traced_memory()[1] < 4 * MIB
        tracemalloc.stop()
        assert await store.put_new("whole", bytes(MIB))
        assert await store.get("whole") == bytes(MIB)
        with pytest.raises(ObjectStoreError, match=OBJECT_MIB_MAX):
            await store.put_new("large", bytes(MIB + 1))
        assert await store.get("large") is None

    asyncio.run(main())


def test_a_place_with_more_objects_than_are_named_is_refused(tmp_path: Path) -> None:
    """By a listing, which says what to do."""
    store = DirectoryStore(tmp_path, StoreBounds(names_max=3))

    async def main() -> None:
        for number in range(3):
            await store.put_new(f"chunks/{number}", b"")
        assert len(await store.list("chunks/")) == 3
        await store.put_new("chunks/3", b"")
        with pytest.raises(ObjectStoreError, match="more than 3 objects: prune"):
            await store.list("chunks/")

    asyncio.run(main())


def kept(place: Path) -> Sequence[str]:
    """All that is in a directory of backups."""
    return sorted(str(each.relative_to(place)) for each in place.rglob("*") if each.is_file())


def contents(place: Path, *folders: str) -> int:
    return len([name for name in kept(place) if name.startswith(folders or (CHUNKS, PARTS))])


def grown(place: Path) -> Scene:
    """Backups in a directory, the last of which needs less than half of what is there."""
    scene = Scene()
    scene.store = DirectoryStore(place)
    basin = scene.filled()
    for number in range(4):
        for _ in range(6):
            basin.append(StreamId(1), b"%d" % number * 200, count=1, at_ms=30_000 + number)
        basin.trim(StreamId(1), 30 + 6 * number)
        scene.backup()
    return scene


async def cleared(scene: Scene, keep: int) -> None:
    await prune(await scene.vault(), scene.clock, BackupRetention(keep, None), 0)


def test_a_place_that_is_too_full_is_pruned_as_it_is_told(tmp_path: Path) -> None:
    """No backup is taken, which is said with what to do; that helps, and the next is whole."""
    scene = grown(tmp_path / "measured")
    asyncio.run(cleared(scene, 1))
    needed = contents(tmp_path / "measured")
    scene = grown(tmp_path / "full")
    assert contents(tmp_path / "full", CHUNKS) > needed
    scene.store = DirectoryStore(tmp_path / "full", StoreBounds(names_max=needed))
    with pytest.raises(ObjectStoreError, match=f"prune it, raise {OBJECTS_MAX}"):
        scene.backup()
    asyncio.run(cleared(scene, 1))
    assert contents(tmp_path / "full") == needed
    assert scene.findings(scene.backup()) == []


def test_a_prune_that_is_refused_deletes_nothing(tmp_path: Path) -> None:
    """Where the backups that are kept need more names than there may be in memory."""
    scene = grown(tmp_path)
    before = kept(tmp_path)
    scene.store = DirectoryStore(tmp_path, StoreBounds(names_max=4))
    with pytest.raises(ObjectStoreError, match=f"need more than 4 .* raise {OBJECTS_MAX}"):
        asyncio.run(cleared(scene, 1))
    assert kept(tmp_path) == before


def test_a_place_that_is_nearly_full_is_told_of_by_a_backup(tmp_path: Path) -> None:
    """While there is room for it yet; below nine tenths nothing is said."""
    scene = grown(tmp_path)
    count = contents(tmp_path)
    for names_max, is_told in ((count * 2, False), (count * 10 // 9, True)):
        scene.said.clear()
        scene.store = DirectoryStore(tmp_path, StoreBounds(names_max=names_max))
        scene.backup()
        told = [line for line in scene.said if OBJECTS_MAX in line]
        assert bool(told) == is_told, scene.said


def test_a_listing_without_a_bound_holds_a_page_and_bears_deleting(tmp_path: Path) -> None:
    """Every object is seen once, though those before it are deleted meanwhile."""
    (tmp_path / "chunks").mkdir()
    wanted = {f"chunks/{number}" for number in range(2 * PAGE + 1)}
    for name in wanted:
        (tmp_path / name).touch()
    store = DirectoryStore(tmp_path, StoreBounds(names_max=3))

    async def main() -> list[str]:
        found: list[str] = []
        async for page in store.pages(CHUNKS):
            assert len(page) <= PAGE
            for each in page:
                (tmp_path / each.name).unlink()
                found.append(each.name)
        return found

    found = asyncio.run(main())
    assert len(found) == len(wanted) and set(found) == wanted


def test_what_a_backup_names_is_found_with_one_part_in_memory() -> None:
    """Many parts of a MiB each, as basins with many streams have: what creates and what prunes
    hold their names alone."""

    async def main() -> None:
        scene = Scene(sealed=False)
        vault = await scene.vault()
        manifest = await _with_parts(vault)
        tracemalloc.start()
        names: set[str] = set()
        await vault.add_names(manifest, names)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(names) == PARTS_COUNT
        assert peak < 8 * MIB, peak
        scene.objects.bounds = StoreBounds(names_max=PARTS_COUNT - 1)
        with pytest.raises(ObjectStoreError, match="keep fewer of them"):
            await vault.add_names(manifest, set())

    asyncio.run(main())


async def _with_parts(vault: Vault) -> Manifest:
    entries = []
    for number in range(PARTS_COUNT):
        rows = number.to_bytes(4, "big") * (MIB // 4)
        part = GroupPart(1, number, 1, 1, 0, 1, (), rows)
        name = await vault.keep(PARTS, encode(part))
        entries.append(GroupEntry(number, f"basin-{number}", 1, 0, name))
    catalog, *basins = entries
    vault_id = vault.file.vault_id
    return Manifest(1, 1, vault_id, "main", "9.9", 0, 0, (), catalog, tuple(basins))


@pytest.mark.parametrize("text", ["127", "4097", "x", "1.5", "-200", "²"])
def test_a_bound_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """With the variable, its value and what it may be."""
    monkeypatch.setenv(OBJECT_MIB_MAX, text)
    with pytest.raises(BackupError, match=f"{OBJECT_MIB_MAX} is .* from 128 to 4096"):
        store_at("place")


def test_the_bound_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """In MiB; half a GiB where nobody says. A million objects, or as many as are said."""
    assert store_at("place").bounds == StoreBounds(OBJECT_BYTES_MAX, NAMES_MAX)
    monkeypatch.setenv(OBJECT_MIB_MAX, "256")
    monkeypatch.setenv(OBJECTS_MAX, "3000000")
    assert store_at("place").bounds == StoreBounds(256 * MIB, 3_000_000)
    monkeypatch.setenv(OBJECTS_MAX, "999")
    with pytest.raises(BackupError, match=f"{OBJECTS_MAX} is '999': .* from 1000 to 20000000"):
        store_at("place")
