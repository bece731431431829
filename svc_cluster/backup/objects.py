"""The port to where backups are kept: a flat set of named objects that are written once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from svc_cluster.backup.backup_errors import DamagedError, ObjectStoreError

OBJECT_BYTES_MAX: Final = 512 * 1024 * 1024
"""The largest object by default: several times the largest row, and far more than a chunk."""
NAMES_MAX: Final = 1_000_000
"""Objects of one place, as they are listed and named: about 100 bytes of memory each."""


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
                f"{place} has more than {self.names_max} objects: prune it, or begin another place"
            )


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object as a listing shows it. `modified_at_ms` is by the store's clock, Unix time."""

    name: str
    size: int
    modified_at_ms: int


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
        """All whose names begin with `prefix`, in the order of their names."""
        ...

    async def delete(self, name: str) -> None:
        """One that is not there is deleted already."""
        ...

    async def close(self) -> None: ...
