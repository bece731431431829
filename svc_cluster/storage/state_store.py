"""The port to the applied state on disk. Chosen engine and figures: docs/adr/0002."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from svc_cluster.base.write_set import WriteSet


class StoreStalledError(Exception):
    """The store cannot take writes at this moment. Nothing was written; try again later."""


class StoreReader(Protocol):
    """Reads of one moment."""

    def get(self, key: bytes) -> bytes | None: ...

    def scan(
        self, start: bytes, end: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the pairs of the half-open range `[start, end)` in key order, or reversed.

        Lazy: a caller that stops early pays only for what it took. Must be used up or closed
        before the event loop is entered again unless it comes from a snapshot.
        """
        ...


class StoreSnapshot(StoreReader, Protocol):
    """A frozen view that stays valid, and holds space, until it is closed."""

    def close(self) -> None: ...


class StateStore(StoreReader, Protocol):
    """One ordered map of bytes to bytes for a whole node.

    A crash loses a suffix of the writes since the last completed flush, each write set whole.
    """

    def write(self, write_set: WriteSet) -> None:
        """Apply all of it or none. Not durable until flushed. Raises StoreStalledError."""
        ...

    def snapshot(self, *, fills_cache: bool = True) -> StoreSnapshot:
        """`fills_cache`: what is read is worth keeping in memory for others."""
        ...

    def flush(self, done: Callable[[], None]) -> None:
        """Start making durable everything written before this call; `done` runs on the loop
        after it is. A failed flush ends the process."""
        ...

    @property
    def unflushed_bytes(self) -> int:
        """About how much room on the disk the next flush takes."""
        ...

    def reclaim(self) -> None:
        """To be called now and then: begin to give the disk back what flushed range deletes still
        hold, when that is worth its work and none is under way. Returns at once; what it does runs
        beside reads and writes."""
        ...

    def close(self) -> None: ...
