"""The port to the applied state on disk. Chosen engine and figures: docs/adr/0002."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Final, Literal, NoReturn, Protocol, TypeAlias

from svc_cluster.base.write_set import WriteSet


class StoreStalledError(Exception):
    """The store cannot take writes at this moment. Nothing was written; try again later."""


class StoreBusyError(Exception):
    """The disk has as many reads waiting for it already as may wait. Nothing was read; try again
    later."""


class OnDisk(Enum):
    """What `peek` finds of a key that only the disk can tell about."""

    ON_DISK = "on disk"


ON_DISK: Final = OnDisk.ON_DISK

Peeked: TypeAlias = bytes | Literal[OnDisk.ON_DISK] | None

Finish: TypeAlias = Callable[[list[bytes | None]], list[bytes | None]]

FETCHED_KEYS_MAX: Final = 32
"""A fetch ends with the first so many keys of which one is there: so it never holds more values
than that, however many keys it was given."""


def unchanged(values: list[bytes | None]) -> list[bytes | None]:
    """The Finish that leaves everything as it was read."""
    return values


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


class Harm(Protocol):
    """Which replicas have values that are damaged, where everything else is whole."""

    @property
    def generations(self) -> frozenset[int]:
        """What the keys of these replicas begin with, as far as any process has met damage."""
        ...

    def forget(self, generation: int) -> None:
        """Somebody has the replica repaired, and knows that durably. Never waits for the disk."""
        ...


class StateStore(StoreReader, Protocol):
    """One ordered map of bytes to bytes for a whole node.

    `get` and `scan` may wait for the disk, and the event loop waits with them: what is asked for on
    behalf of a client is peeked at, and fetched when memory does not have it.

    A crash loses a suffix of the writes since the last completed flush, each write set whole.
    """

    def peek(self, key: bytes) -> Peeked:
        """The value, or None for a key that is not there, as far as memory knows; never waits for
        the disk."""
        ...

    def fetch(
        self, keys: Sequence[bytes], finish: Finish = unchanged
    ) -> asyncio.Future[list[bytes | None]]:
        """Begin to read the values of the first so many keys, at least one. These are all of them,
        or up to `FETCHED_KEYS_MAX` at a time until one of them is there. The event loop goes on
        meanwhile, and writes: values may be of different moments, each after this call. A fetch
        that is cancelled before it is its turn takes no more of the disk. What was read goes
        through `finish`, which may wait for the disk as well. Raises StoreBusyError."""
        ...

    def write(self, write_set: WriteSet) -> None:
        """Apply all of it or none. Not durable until flushed. Raises StoreStalledError."""
        ...

    @property
    def harm(self) -> Harm: ...

    @property
    def fail(self) -> Callable[[BaseException], NoReturn]:
        """Ends the process, as after a failed read of the store. Any thread may call this."""
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
        """Begin to give the disk back what flushed range deletes still hold, to be called now and
        then. That is done when it is worth its work and none is under way. Returns at once; what it
        does runs beside reads and writes."""
        ...

    def close(self) -> None: ...
