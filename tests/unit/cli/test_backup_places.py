"""Where backups are, and with which key: what who writes there can make of it, and what not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from svc_cluster.backup.backup_errors import BackupError, ObjectStoreError, WrongKeyError
from svc_cluster.backup.directory_store import DirectoryStore
from svc_cluster.backup.key_file import make_key, read_key
from svc_cluster.cli.backup.backup_places import open_vault, until, vault_to_write


def test_a_place_that_says_it_is_not_sealed_is_not_believed_beside_a_key(tmp_path: Path) -> None:
    """Somebody has put an unsealed vault where the sealed one was: nothing is written there in the
    clear, and nothing is restored from it, but by who says that it is meant."""
    place, key_file = tmp_path / "place", tmp_path / "key"

    async def main() -> None:
        await vault_to_write(str(tmp_path / "sealed"), key_file, "main", plain=False)
        await vault_to_write(str(place), key_file, "main", plain=True)
        with pytest.raises(BackupError, match="may have been exchanged"):
            await open_vault(str(place), key_file)
        with pytest.raises(BackupError, match="--plain"):
            await vault_to_write(str(place), key_file, "main", plain=False)
        await vault_to_write(str(place), key_file, "main", plain=True)
        await open_vault(str(place), tmp_path / "no key")

    asyncio.run(main())


def test_a_place_is_sealed_or_not_for_good_and_with_one_key(tmp_path: Path) -> None:
    """What is written there must be what is there: another key, `--plain` over sealed ones and none
    over plain ones are each refused by name, before anything is written."""
    sealed, plain = tmp_path / "sealed", tmp_path / "plain"
    key_file, other, none = (tmp_path / name for name in ("key", "other", "none"))
    make_key(other)

    async def main() -> None:
        vault, _ = await vault_to_write(str(sealed), key_file, "main", plain=False)
        await vault_to_write(str(plain), none, "main", plain=True)
        names = {read_key(each).key_id for each in (key_file, other)}
        with pytest.raises(WrongKeyError) as refused:
            await open_vault(str(sealed), other)
        assert all(name in str(refused.value) for name in names)
        with pytest.raises(WrongKeyError):
            await vault_to_write(str(sealed), other, "main", plain=False)
        with pytest.raises(BackupError, match="are sealed: leave --plain out"):
            await vault_to_write(str(sealed), key_file, "main", plain=True)
        with pytest.raises(BackupError, match="are not sealed: repeat with --plain if so"):
            await vault_to_write(str(plain), none, "main", plain=False)
        again = await open_vault(str(sealed), key_file)
        assert again.file == vault.file

    asyncio.run(main())
    assert not none.exists()


def test_a_link_leads_nowhere(tmp_path: Path) -> None:
    """Where a folder of the place is a link, nothing behind it is listed, read or deleted; nor is
    what a name with dots would reach."""
    place, other = tmp_path / "place", tmp_path / "other"
    for folder in (place, other):
        folder.mkdir()
    (other / "victim").write_bytes(b"kept")
    (place / "chunks").symlink_to(other)
    store = DirectoryStore(place)

    async def main() -> None:
        with pytest.raises(ObjectStoreError, match="a link"):
            await store.list("chunks/")
        for name in ("chunks/victim", "../other/victim"):
            with pytest.raises(ObjectStoreError):
                await store.get(name)
            with pytest.raises(ObjectStoreError):
                await store.delete(name)

    asyncio.run(main())
    assert (other / "victim").read_bytes() == b"kept"


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    """A device or a folder has no end, or none that is worth waiting for."""
    (tmp_path / "folder").mkdir()
    with pytest.raises(ObjectStoreError, match="no file"):
        asyncio.run(DirectoryStore(tmp_path).get("folder"))


def test_a_stream_is_cut_at_one_position() -> None:
    """Two for one stream are refused by its name, also where they are equal; a time beside it, and
    a stream of the same name in another basin, are not."""
    moment = "2030-01-31T12:00:00Z"
    assert until(["a/b=1", "c/b=2", moment]) == (
        1_896_091_200_000,
        {("a", "b"): 1, ("c", "b"): 2},
    )
    for second in ("a/b=2", "a/b=1"):
        with pytest.raises(BackupError, match=r"^--until names a/b twice: use one position$"):
            until(["a/b=1", second])
