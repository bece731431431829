"""The port to where backups are kept: a flat set of named objects that are written once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


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

    async def put_new(self, name: str, data: bytes) -> bool:
        """False, and nothing is changed: there is one of this name."""
        ...

    async def get(self, name: str) -> bytes | None:
        """None: there is none."""
        ...

    async def list(self, prefix: str) -> list[ObjectInfo]:
        """All whose names begin with `prefix`, in the order of their names."""
        ...

    async def delete(self, name: str) -> None:
        """One that is not there is deleted already."""
        ...

    async def close(self) -> None: ...
