"""Backups in a directory, which may be another machine's, mounted here."""

from __future__ import annotations

import itertools
import os
import secrets
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Final

from svc_cluster.backup.backup_errors import ObjectStoreError
from svc_cluster.backup.objects import PAGE, ObjectInfo, Page, StoreBounds

_UNFINISHED: Final = ".tmp-"


class DirectoryStore:
    """Implements ObjectStore. Calls block: a backup is a process of its own."""

    def __init__(self, directory: Path, bounds: StoreBounds = StoreBounds()) -> None:
        self.bounds = bounds
        self.place = str(directory)
        self._directory = directory

    async def put_new(self, name: str, data: bytes) -> bool:
        self.bounds.check_kept(name, len(data))
        path = self._directory / name
        temporary = path.parent / f"{_UNFINISHED}{secrets.token_hex(8)}"
        try:
            self._make(path.parent)
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                with os.fdopen(handle, "wb") as out:
                    out.write(data)
                    out.flush()
                    os.fsync(out.fileno())
                # a link fails where the name is taken, which a rename does not
                os.link(temporary, path)
            finally:
                temporary.unlink()
            _sync(path.parent)
        except FileExistsError:
            return False
        except OSError as cause:
            raise self._failed(name, cause) from cause
        return True

    async def get(self, name: str) -> bytes | None:
        path = self._directory / name
        try:
            self._refuse_links(path)
            if path.exists() and not path.is_file():
                raise OSError(0, "it is no file")
            with path.open("rb") as file:
                data = file.read(self.bounds.object_bytes_max + 1)
        except FileNotFoundError:
            return None
        except OSError as cause:
            raise self._failed(name, cause) from cause
        self.bounds.check_found(name, len(data), self.place)
        return data

    async def pages(self, prefix: str) -> AsyncGenerator[Page, None]:
        # only the folder that the prefix names is walked
        start = self._directory / prefix.rpartition("/")[0]
        try:
            self._refuse_links(start)
            walked = self._walked(start, prefix)
            while page := [*itertools.islice(walked, PAGE)]:
                yield page
        except OSError as cause:
            raise self._failed(prefix, cause) from cause

    def _walked(
        self, folder: Path, prefix: str, *, unfinished: bool = False
    ) -> Iterator[ObjectInfo]:
        """The objects, or the files of puts that have not ended. Raises OSError. A directory is
        read as it is gone through: it may have any size."""
        try:
            entries = os.scandir(folder)
        except FileNotFoundError:
            return
        with entries:
            for entry in entries:
                path = Path(entry.path)
                if entry.is_dir():
                    if not entry.is_symlink():
                        yield from self._walked(path, prefix, unfinished=unfinished)
                    continue
                name = path.relative_to(self._directory).as_posix()
                is_unfinished = entry.name.startswith(_UNFINISHED)
                if is_unfinished != unfinished or not name.startswith(prefix):
                    continue
                try:
                    facts = path.stat()
                except FileNotFoundError:
                    continue  # deleted meanwhile
                yield ObjectInfo(name, facts.st_size, facts.st_mtime_ns // 1_000_000)

    async def list(self, prefix: str) -> Page:
        found: Page = []
        async for page in self.pages(prefix):
            found += page
            self.bounds.check_names(len(found), self.place)
        return sorted(found, key=lambda each: each.name)

    async def delete(self, name: str) -> None:
        path = self._directory / name
        try:
            self._refuse_links(path.parent)
            path.unlink(missing_ok=True)
            if path.parent.is_dir():
                _sync(path.parent)
        except OSError as cause:
            raise self._failed(name, cause) from cause

    async def sweep(self, before_ms: int) -> tuple[int, int]:
        count = size = 0
        try:
            for each in self._walked(self._directory, "", unfinished=True):
                if each.modified_at_ms < before_ms:
                    (self._directory / each.name).unlink(missing_ok=True)
                    count, size = count + 1, size + each.size
        except OSError as cause:
            raise self._failed(_UNFINISHED, cause) from cause
        return count, size

    async def close(self) -> None:
        """Nothing is held open."""

    def _refuse_links(self, path: Path) -> None:
        """Who writes here must not lead elsewhere, by a link or by a name, who reads and deletes.
        Raises OSError."""
        if not path.is_relative_to(self._directory) or ".." in path.parts:
            raise OSError(0, "it is outside")
        while path != self._directory:
            if path.is_symlink():
                raise OSError(0, "it is a link")
            path = path.parent

    def _make(self, folder: Path) -> None:
        missing = []
        while not folder.is_dir():
            missing.append(folder)
            folder = folder.parent
        for each in reversed(missing):
            each.mkdir(mode=0o700, exist_ok=True)
            _sync(each.parent)

    def _failed(self, name: str, cause: OSError) -> ObjectStoreError:
        return ObjectStoreError(
            f"{name or 'a listing'} in {self.place}: {cause.strerror or cause}: see that this user "
            "may read and write there and that there is room, and repeat"
        )


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
