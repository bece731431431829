"""What is taken from a place of backups, and held, has bounds, whoever can write there."""

from __future__ import annotations

import asyncio
import tracemalloc
from pathlib import Path

import pytest

from svc_cluster.backup.backup_errors import BackupError, DamagedError, ObjectStoreError
from svc_cluster.backup.backup_manifest import GroupEntry, GroupPart, Manifest, encode
from svc_cluster.backup.directory_store import DirectoryStore
from svc_cluster.backup.objects import OBJECT_BYTES_MAX, StoreBounds
from svc_cluster.backup.vault import PARTS, Vault
from svc_cluster.cli.backup.backup_places import OBJECT_MIB_MAX, store_at
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
        with pytest.raises(ObjectStoreError):
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
    """In MiB; half a GiB where nobody says."""
    assert store_at("place").bounds.object_bytes_max == OBJECT_BYTES_MAX
    monkeypatch.setenv(OBJECT_MIB_MAX, "256")
    assert store_at("place").bounds.object_bytes_max == 256 * MIB
