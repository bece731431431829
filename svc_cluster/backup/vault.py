"""A place with backups of one cluster: what is under which name, checked and sealed.

| name                       | is                                                               |
|----------------------------|------------------------------------------------------------------|
| `vault`                    | whose backups these are, and the id of their key                  |
| `manifests/0000000001`     | one backup                                                        |
| `claims/0000000001`        | the same, about to be one: what it names is not pruned            |
| `parts/…`, `chunks/…`      | contents, by what is in them                                      |
| `progress/1/…`             | a chunk of group 1 that an unfinished backup has kept             |
| `pruning/…`                | somebody is deleting what nothing names                           |
| `clock/…`                  | nothing: it was put to see what time the place has                |
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final

from svc_cluster.backup.backup_errors import BackupError, DamagedError, WrongKeyError
from svc_cluster.backup.backup_manifest import (
    FORMAT_VERSION,
    GroupEntry,
    GroupPart,
    Manifest,
    Progress,
    VaultFile,
    decode,
    decode_plain,
    encode,
    encode_plain,
)
from svc_cluster.backup.object_sealing import Wrapping
from svc_cluster.backup.objects import ObjectInfo, ObjectStore

VAULT: Final = "vault"
MANIFESTS: Final = "manifests/"
CLAIMS: Final = "claims/"
PARTS: Final = "parts/"
CHUNKS: Final = "chunks/"
PROGRESS: Final = "progress/"
CLOCKS: Final = "clock/"
PRUNING: Final = "pruning/"


def manifest_name(number: int) -> str:
    return f"{MANIFESTS}{number:010d}"


async def vault_file(store: ObjectStore) -> VaultFile | None:
    """Whose backups there are in `store`; None: it has none yet. Raises BackupError."""
    data = await store.get(VAULT)
    if data is None:
        if await store.list(MANIFESTS):
            raise DamagedError(
                f"{store.place} has backups and no object `{VAULT}`, by which they are known: put "
                "it back"
            )
        return None
    return decode_plain(VAULT, data)


async def found_vault(store: ObjectStore, cluster_id: str, key_id: str) -> VaultFile:
    """Make `store` a place of backups, unless somebody else just has. Raises BackupError."""
    made = VaultFile(FORMAT_VERSION, secrets.token_hex(16), cluster_id, key_id)
    await store.put_new(VAULT, encode_plain(made))
    found = await vault_file(store)
    if found is None:
        raise DamagedError(f"{store.place} has lost the object `{VAULT}` that was written there")
    return found


class Vault:
    """Reads and writes what is kept. Every call raises ObjectStoreError."""

    def __init__(self, store: ObjectStore, file: VaultFile, wrapping: Wrapping) -> None:
        self.store = store
        self.file = file
        self._wrapping = wrapping
        self.written_bytes = 0

    # -- objects

    async def read(self, name: str) -> bytes:
        """What is in an object. Raises DamagedError, NewerFormatError."""
        data = await self.found(name)
        if data is None:
            raise DamagedError(f"{name} is missing in {self.store.place}")
        return data

    async def found(self, name: str) -> bytes | None:
        """The same of one that somebody may delete meanwhile. None: there is none."""
        stored = await self.store.get(name)
        return None if stored is None else self._wrapping.unwrap(name, stored)

    async def write(self, name: str, data: bytes) -> bool:
        """False: there is one of this name, which is left as it is."""
        stored = self._wrapping.wrap(name, data)
        is_new = await self.store.put_new(name, stored)
        if is_new:
            self.written_bytes += len(stored)
        return is_new

    async def keep(self, folder: str, data: bytes) -> str:
        """Keep a content under a name of its own, which is returned. What is there of that name and
        damaged is replaced."""
        name = folder + self._wrapping.content_name(data)
        if not await self.write(name, data):
            try:
                await self.read(name)
            except DamagedError:
                await self.store.delete(name)
                await self.write(name, data)
        return name

    def has_its_name(self, name: str, data: bytes) -> bool:
        """Whether this is the content that the name stands for."""
        return name.rpartition("/")[2] == self._wrapping.content_name(data)

    # -- backups

    async def numbers(self) -> list[int]:
        """The backups that there are, in order."""
        return [number for number, _ in await self.manifests()]

    async def manifests(self) -> list[tuple[int, ObjectInfo]]:
        """The same with what the store says of their manifests."""
        return [(_number(each), each) for each in await self.store.list(MANIFESTS)]

    async def manifest(self, number: int) -> Manifest:
        """Raises BackupError where there is none of this number, or it is of something else."""
        name = manifest_name(number)
        return self._manifest(name, await self.read(name))

    async def opened(self, name: str) -> Manifest | DamagedError | None:
        """A backup, or a claim of one; or what is wrong with it. None: it is gone by now. Raises
        NewerFormatError."""
        try:
            data = await self.found(name)
            return None if data is None else self._manifest(name, data)
        except DamagedError as cause:
            return cause

    async def last(self, say: Callable[[str], None]) -> Manifest | None:
        """The last backup whose manifest can be read; those behind it are said. None: there is
        none. Raises NewerFormatError."""
        for number in reversed(await self.numbers()):
            found = await self.opened(manifest_name(number))
            if isinstance(found, Manifest):
                return found
            if found is not None:
                say(f"backup {number}: {found}")
        return None

    def _manifest(self, name: str, data: bytes) -> Manifest:
        found = decode(name, data, Manifest)
        if found.vault_id != self.file.vault_id:
            raise DamagedError(f"{name} belongs to other backups than those in {self.store.place}")
        return found

    async def chosen(self, number: int | None) -> Manifest:
        """The backup of this number, the last one for None. Raises BackupError."""
        numbers = await self.numbers()
        if not numbers:
            raise BackupError(f"there is no backup in {self.store.place}: make one with create")
        if number is not None and number not in numbers:
            raise BackupError(
                f"there is no backup {number} in {self.store.place}: choose one of "
                f"{', '.join(map(str, numbers[-20:]))}"
            )
        return await self.manifest(numbers[-1] if number is None else number)

    async def part(self, entry: GroupEntry) -> GroupPart:
        """Raises DamagedError, NewerFormatError."""
        data = await self.read(entry.part)
        found = decode(entry.part, data, GroupPart)
        if (found.group_id, found.applied_index) != (entry.group_id, entry.applied_index):
            raise DamagedError(f"{entry.part} is of another group or index than its manifest says")
        return found

    async def add_names(self, manifest: Manifest, names: set[str]) -> None:
        """Add everything that a backup cannot do without. One part is in memory at a time; what a
        part names that is in `names` is there with it. Raises DamagedError, NewerFormatError."""
        for entry in (manifest.catalog, *manifest.basins):
            if entry.part not in names:
                part = await self.part(entry)
                names.add(entry.part)
                names.update(chunk.name for chunk in part.chunks)
                self.store.bounds.check_named(len(names), self.store.place)

    async def notes(self, group_id: int) -> list[str]:
        """The names of what unfinished backups have noted of this group."""
        return [each.name for each in await self.store.list(f"{PROGRESS}{group_id}/")]

    async def progress(self, name: str) -> Progress | None:
        """A note; None: it is gone by now. Raises DamagedError, NewerFormatError."""
        data = await self.found(name)
        return None if data is None else decode(name, data, Progress)

    async def note_progress(self, progress: Progress) -> str:
        """Keep it and return the object's name, from which `noted_chunk` tells the chunk's."""
        name = f"{PROGRESS}{progress.group_id}/{progress.chunk.name.rpartition('/')[2]}"
        await self.write(name, encode(progress))
        return name


def noted_chunk(name: str) -> str:
    """The name of the chunk that a note of this name is about, be the note whole or not."""
    return CHUNKS + name.rpartition("/")[2]


def check_key(file: VaultFile, wrapping_key_id: str, place: str) -> None:
    """Raises WrongKeyError where the key is not the one of these backups."""
    if file.key_id != wrapping_key_id:
        raise WrongKeyError(
            f"the backups in {place} are sealed with the key {file.key_id}, and the key file has "
            f"{wrapping_key_id}: name the other file with --key-file"
        )


def _number(info: ObjectInfo) -> int:
    try:
        return int(info.name.rpartition("/")[2])
    except ValueError:
        raise DamagedError(f"{info.name} is no name of a backup: take it away") from None
