"""The content of a group's state, apart from the form in which a store keeps it, and its digests.

A digest is taken over what is stored, a chunk of the keys at a time, never over what was written:
so two replicas are equal where they hold the same, whatever led there and in whatever form. Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import xxhash

from svc_cluster.base.key_reader import KeyReader

CONTENT_VERSION: Final = 1
"""The version of the canonical form that digests are taken over, and of how they are exchanged.
Raised whenever a row of equal content would give another digest; a digest of another version is not
comparable. 0 is said by those that do not take part."""

ROW_COST_MIN: Final = 256
"""A row counts for at least so many bytes of a chunk: small ones cost time, not bytes."""

KEY_BYTES_MAX: Final = 1024
"""No row has a longer key; of the ends of chunks that others tell."""

_ROW: Final = struct.Struct("<IQQ")


class Row(NamedTuple):
    """One row in its canonical form: equal content, equal bytes. `body` is what is taken as it
    is, behind `head`."""

    key: bytes
    head: bytes
    body: bytes = b""


class Visit(NamedTuple):
    """One row of the store, looked at. `row` is None for what is no content: what is deleted and
    not yet purged. `flaw` says what is wrong with it, or just before it, that one replica alone
    can tell; empty: nothing."""

    row: Row | None
    read_bytes: int
    flaw: str = ""


class Content(Protocol):
    """The content of one kind of group."""

    def visits(self, view: KeyReader, after: bytes) -> Iterator[Visit]:
        """All rows of `view` whose keys come behind `after` (empty: all there are), in the order of
        their keys; lazily. A flaw that shows only at the end has a visit of its own."""
        ...


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one replica holds behind a key, as far as the chunk's size goes."""

    end: bytes
    """The key of its last row; empty: it reaches to the end of the content."""
    digest: int
    """64 bits over keys and content of its rows, in order."""
    rows: int
    flaw: str = ""
    """The first flaw in it; empty: it has none."""

    @property
    def identity(self) -> tuple[bytes, int, int]:
        """Equal where the content is, and only there."""
        return (self.end[:KEY_BYTES_MAX], self.digest, self.rows)


class ChunkBuilder:
    """Takes visits until the chunk is full or there are no more.

    Which row is the last depends on the content alone: rows that are none do not count.
    """

    __slots__ = ("_cost", "_cost_max", "_end", "_flaw", "_hasher", "_rows")

    def __init__(self, cost_max: int) -> None:
        """`cost_max`: bytes of content, at least 1; the row that goes over it is the last."""
        assert cost_max > 0, "a chunk has room for one row"
        self._cost_max = cost_max
        self._cost = 0
        self._rows = 0
        self._end = b""
        self._flaw = ""
        self._hasher = xxhash.xxh3_64()

    def add(self, visit: Visit) -> bool:
        """Take one visit; whether the chunk is full, and none may follow."""
        if visit.flaw and not self._flaw:
            self._flaw = visit.flaw
        if visit.row is None:
            return False
        key, head, body = visit.row
        self._hasher.update(_ROW.pack(len(key), len(head), len(body)) + key + head)
        if body:
            self._hasher.update(body)
        self._rows += 1
        self._end = key
        self._cost += max(len(key) + len(head) + len(body), ROW_COST_MIN)
        return self._cost >= self._cost_max

    def full(self) -> Chunk:
        """The chunk, which ends at the row taken last."""
        return Chunk(self._end, self._hasher.intdigest(), self._rows, self._flaw)

    def last(self) -> Chunk:
        """The chunk, behind which there is nothing."""
        return Chunk(b"", self._hasher.intdigest(), self._rows, self._flaw)


def behind(after: bytes) -> bytes:
    """The first key that may come behind `after`; empty: the first there is."""
    return after + b"\0" if after else b""
