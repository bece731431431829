"""Objects that are whole, and not what they are taken for: by whom they were sealed, to whom they
belong, what is in them."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import msgspec
import pytest
import zstandard

from svc_cluster.backup.backup_errors import BackupError, DamagedError, WrongKeyError
from svc_cluster.backup.backup_manifest import ChunkEntry, Manifest, compressed, decompressed
from svc_cluster.backup.chunk import batches_of, placed
from svc_cluster.backup.coverage import covered_until
from svc_cluster.backup.directory_store import DirectoryStore
from svc_cluster.backup.key_file import make_key, read_key
from svc_cluster.backup.object_sealing import KEY_BYTES, Plain, Sealed
from svc_cluster.backup.row_frames import frame
from svc_cluster.backup.vault import Vault, manifest_name, vault_file
from svc_cluster.base.ids import StreamId
from svc_cluster.stream import keys
from tests.unit.backup.scene import KEY, Scene

NAME = "chunks/0123"
DATA = b"records of somebody"


# -- sealing


def test_a_sealed_object_is_never_twice_the_same() -> None:
    """Two of one name and content share no nonce."""
    sealed = Sealed(KEY)
    first, second = sealed.wrap(NAME, DATA), sealed.wrap(NAME, DATA)
    assert first != second
    assert sealed.unwrap(NAME, first) == sealed.unwrap(NAME, second) == DATA


def test_the_name_of_a_sealed_content_tells_nothing_without_the_key() -> None:
    """It is another one than everybody can compute, and another one under another key."""
    names = {each.content_name(DATA) for each in (Plain(), Sealed(KEY), Sealed(bytes(KEY_BYTES)))}
    assert len(names) == 3
    assert Sealed(KEY).content_name(DATA) == Sealed(KEY).content_name(DATA)


def test_what_is_not_sealed_is_none_of_a_sealed_places() -> None:
    """Whoever can write there has no key: an object in the clear is damage, and the reverse too."""
    with pytest.raises(DamagedError, match=f"{NAME} is damaged"):
        Sealed(KEY).unwrap(NAME, Plain().wrap(NAME, DATA))
    with pytest.raises(DamagedError, match=f"{NAME} is damaged"):
        Plain().unwrap(NAME, Sealed(KEY).wrap(NAME, DATA))


# -- the key file


def test_a_key_file_is_made_once_and_for_its_user_alone(tmp_path: Path) -> None:
    """What is there stays, and nothing else is left behind."""
    path = tmp_path / "key"
    before = os.umask(0)
    try:
        made = make_key(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text()
    assert read_key(path).key_id == made.key_id
    with pytest.raises(WrongKeyError, match="cannot be made"):
        make_key(path)
    assert path.read_text() == text
    assert [each.name for each in tmp_path.iterdir()] == ["key"]


def test_a_key_that_is_not_the_one_of_its_id_is_none(tmp_path: Path) -> None:
    """A letter that was mistaken while it was copied by hand is found, and seals nothing."""
    path = tmp_path / "key"
    make_key(path)
    head, _, key = path.read_text().rstrip("\n").rpartition(" ")
    path.write_text(f"{head} {'A' if key[0] != 'A' else 'B'}{key[1:]}\n")
    with pytest.raises(WrongKeyError, match="holds no whole key"):
        read_key(path)


# -- whose they are


def test_a_manifest_of_other_backups_is_none_of_these() -> None:
    """Of the same cluster under the same key, from another place."""
    scene, other = Scene(), Scene()
    for each in (scene, other):
        each.filled()
        each.backup()
    name = manifest_name(1)
    scene.objects.objects[name] = other.objects.objects[name]
    with pytest.raises(DamagedError, match=f"{name} belongs to other backups than those in memory"):
        asyncio.run(_last(scene))


async def _last(scene: Scene) -> Manifest:
    return await (await scene.vault()).chosen(None)


def test_a_part_of_another_group_or_index_is_not_the_one_that_is_named() -> None:
    """Each is whole under its own name."""
    scene = Scene()
    basin = scene.filled()
    scene.cluster.add("second-basin")
    first = scene.backup()
    basin.append(StreamId(1), b"more", count=1, at_ms=50_000)
    second = scene.backup()

    async def main() -> None:
        vault = await scene.vault()
        for part in (first.basins[1].part, second.basins[0].part):
            entry = msgspec.structs.replace(first.basins[0], part=part)
            with pytest.raises(DamagedError, match=f"{part} is of another group or index"):
                await vault.part(entry)
        assert (await vault.part(first.basins[0])).group_id == first.basins[0].group_id

    asyncio.run(main())


def test_a_place_that_has_lost_the_name_of_its_owner_is_no_new_one() -> None:
    """No vault is founded over backups that are there."""
    scene = Scene()
    scene.filled()
    scene.backup()
    del scene.objects.objects["vault"]
    with pytest.raises(DamagedError, match="memory has backups and no object `vault`"):
        asyncio.run(vault_file(scene.objects))
    with pytest.raises(BackupError, match="no object `vault`"):
        scene.backup()
    assert "vault" not in scene.objects.objects


def test_who_is_late_with_a_vault_takes_the_one_that_is_there() -> None:
    """Two first backups at a time have one."""
    scene = Scene()

    async def main() -> tuple[Vault, Vault]:
        return await asyncio.gather(scene.vault(), scene.vault())

    first, second = asyncio.run(main())
    assert first.file == second.file


def test_of_two_backups_of_one_number_one_is_told() -> None:
    """Each has what the other has not."""
    scene = Scene()
    basin = scene.filled()

    async def both() -> list[Manifest | BaseException]:
        return list(await asyncio.gather(scene.create(), other(), return_exceptions=True))

    async def other() -> Manifest:
        basin.append(StreamId(1), b"more", count=1, at_ms=50_000)
        return await scene.create()

    results = asyncio.run(both())
    made = [each for each in results if isinstance(each, Manifest)]
    told = [str(each) for each in results if isinstance(each, BackupError)]
    assert len(made) == len(told) == 1
    assert told[0].startswith(f"another backup became number {made[0].number} meanwhile: repeat")
    assert scene.findings(made[0]) == []


# -- what is in them


async def one_chunk(scene: Scene) -> tuple[ChunkEntry, bytes]:
    vault = await scene.vault()
    part = await vault.part((await vault.chosen(None)).basins[0])
    return part.chunks[0], await vault.read(part.chunks[0].name)


def test_a_chunk_holds_what_its_entry_says_and_nothing_else() -> None:
    """Other records, a kind of a later release, and a batch under another one's key."""
    scene = Scene()
    basin = scene.filled()
    scene.backup()
    entry, data = asyncio.run(one_chunk(scene))
    assert list(batches_of(entry, data))
    stream_id, first, end = entry.extents[0]
    less = msgspec.structs.replace(entry, extents=((stream_id, first, end - 1),))
    with pytest.raises(DamagedError, match="other records than the manifest says"):
        list(batches_of(less, data))
    later = msgspec.structs.replace(entry, kind="segments")
    with pytest.raises(DamagedError, match="of the kind 'segments', which is not known here"):
        list(batches_of(later, data))
    key, value = next(iter(basin.rows.scan(*keys.batches_range(StreamId(1)))))
    assert placed(key, value)[0] == 1
    with pytest.raises(DamagedError, match="a batch lies where it does not belong, at 7"):
        placed(keys.batch_key(StreamId(1), 7), value)
    moved = compressed(frame(keys.batch_key(StreamId(1), 7), value))
    with pytest.raises(DamagedError, match="where it does not belong"):
        list(batches_of(entry, moved))


def test_a_gap_of_one_record_is_one() -> None:
    """What lies behind it does not count as reached."""
    assert covered_until([(1, 0, 3), (1, 3, 5)], 0) == 5
    assert covered_until([(1, 0, 3), (1, 4, 5)], 0) == 3
    assert covered_until([(1, 1, 3)], 0) == 0


def test_a_basin_that_the_catalog_does_not_name_is_found() -> None:
    """It would not be restored."""
    scene = Scene()
    scene.filled()
    made = scene.backup()
    ghost = msgspec.structs.replace(made.basins[0], basin="ghost")
    findings = scene.findings(msgspec.structs.replace(made, basins=(ghost,)))
    assert findings == ["ghost is in the backup, and its catalog does not name it"]


def test_a_chunk_that_is_another_content_is_found() -> None:
    """The same records in other bytes: whoever compares it by its name would take it for the one
    that was written."""
    scene = Scene(sealed=False)
    scene.filled()
    made = scene.backup()
    entry, data = asyncio.run(one_chunk(scene))
    rows = decompressed(entry.name, data)
    other = zstandard.ZstdCompressor(write_checksum=True).compress(rows)
    assert other != data
    scene.objects.objects[entry.name] = scene.wrapping.wrap(entry.name, other)
    findings = scene.findings(made)
    assert len(findings) == 1
    assert f"{entry.name} is damaged: it is another chunk's content" in findings[0]


# -- the directory


def test_what_is_put_in_a_directory_is_there_once(tmp_path: Path) -> None:
    """A second put says so and changes nothing, also one that comes while the first works."""
    store = DirectoryStore(tmp_path)

    async def main() -> None:
        assert await store.put_new("chunks/a", b"first") is True
        assert await store.put_new("chunks/a", b"second") is False
        assert await store.get("chunks/a") == b"first"

    asyncio.run(main())
    assert [each.name for each in (tmp_path / "chunks").iterdir()] == ["a"]


def test_an_object_is_durable_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bytes are synced, then it is linked, then its folder is synced: after a power cut it is
    there whole or not at all, and there once the put has returned."""
    (tmp_path / "chunks").mkdir()
    done: list[str] = []
    sync, link = os.fsync, os.link

    def synced(handle: int) -> None:
        facts = os.fstat(handle)
        kind = "folder" if stat.S_ISDIR(facts.st_mode) else f"{facts.st_size} bytes"
        done.append(f"sync {kind}")
        sync(handle)

    def linked(source: Path, target: Path) -> None:
        done.append(f"link {target.name}")
        link(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "link", linked)
    asyncio.run(DirectoryStore(tmp_path).put_new("chunks/a", b"12345"))
    assert done == ["sync 5 bytes", "link a", "sync folder"]
