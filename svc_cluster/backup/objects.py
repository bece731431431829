"""The port to where backups are kept: a flat set of named objects that are written once."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from svc_cluster.backup.backup_errors import DamagedError, ObjectStoreError

OBJECT_BYTES_MAX: Final = 512 * 1024 * 1024
"""The largest object by default: several times the largest row, and far more than a chunk."""
NAMES_MAX: Final = 1_000_000
"""Objects of one place, as they are listed and named, by default: some 100 bytes of memory each."""
PAGE: Final = 1000
"""Objects that a listing without this bound holds at a time."""
_FULL_SHARE: Final = 0.9
"""From this share of the bound on it is said that it comes near."""


@dataclass(frozen=True, slots=True)
class StoreBounds:
    """What is taken from a place, whoever can write there, and put there at most."""

    object_bytes_max: int = OBJECT_BYTES_MAX
    names_max: int = NAMES_MAX

    def check_kept(self, name: str, size: int) -> None:
        """Raises ObjectStoreError for an object that could not be read again."""
        if size > self.object_bytes_max:
            raise ObjectStoreError(
                f"{name} would have {size} bytes, more than the {self.object_bytes_max} that are "
                "read: raise SVC_CLUSTER_BACKUP_OBJECT_MIB_MAX, here and for all later commands"
            )

    def check_found(self, name: str, size: int, place: str) -> None:
        """Raises DamagedError for an object that is not read."""
        if size > self.object_bytes_max:
            raise DamagedError(
                f"{name} in {place} has more than the {self.object_bytes_max} bytes that are read: "
                "it is not what was written there, or was written under a larger "
                "SVC_CLUSTER_BACKUP_OBJECT_MIB_MAX"
            )

    def check_names(self, count: int, place: str) -> None:
        """Raises ObjectStoreError."""
        if count > self.names_max:
            raise ObjectStoreError(
                f"{place} has more than {self.names_max} objects: prune it, raise "
                "SVC_CLUSTER_BACKUP_OBJECTS_MAX, or begin another place"
            )

    def check_named(self, count: int, place: str) -> None:
        """Raises ObjectStoreError where backups need more objects than are held in memory."""
        if count > self.names_max:
            raise ObjectStoreError(
                f"backups in {place} need more than {self.names_max} objects: keep fewer of them, "
                "or raise SVC_CLUSTER_BACKUP_OBJECTS_MAX"
            )

    def warning(self, count: int, place: str) -> str | None:
        """What is to be said of a place with so many objects, while it can still be used."""
        if count < self.names_max * _FULL_SHARE:
            return None
        return (
            f"{place} has {count} objects, and with more than {self.names_max} no backup is taken: "
            "prune it, raise SVC_CLUSTER_BACKUP_OBJECTS_MAX, or begin another place"
        )


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object as a listing shows it. `modified_at_ms` is by the store's clock, Unix time."""

    name: str
    size: int
    modified_at_ms: int


Page: TypeAlias = list[ObjectInfo]


class ObjectStore(Protocol):
    """Names are lower case letters, digits, `-` and `/`. An object is there whole or not at all,
    and durable once `put_new` has returned. Every call raises ObjectStoreError."""

    place: str
    """Where that is, for messages."""
    bounds: StoreBounds

    async def put_new(self, name: str, data: bytes) -> bool:
        """False, and nothing is changed: there is one of this name."""
        ...

    async def get(self, name: str) -> bytes | None:
        """None: there is none. Raises DamagedError for a larger one than its bounds allow, of which
        no more is read."""
        ...

    async def list(self, prefix: str) -> list[ObjectInfo]:
        """All whose names begin with `prefix`, in the order of their names. Raises ObjectStoreError
        where there are more than its bounds allow."""
        ...

    def pages(self, prefix: str) -> AsyncGenerator[Page, None]:
        """The same in any order, PAGE at a time and however many there are: what may be deleted in
        between. One that is put meanwhile may be left out."""
        ...

    async def delete(self, name: str) -> None:
        """One that is not there is deleted already."""
        ...

    async def sweep(self, before_ms: int) -> tuple[int, int]:
        """Delete what puts that were killed have left, as far as it was there before that time by
        the store's clock. Returns how many and their bytes."""
        ...

    async def close(self) -> None: ...
