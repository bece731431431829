"""One replica's part of the node's store: every key behind the replica's generation."""

from __future__ import annotations

from collections.abc import Iterator

from svc_cluster.base.ids import Generation
from svc_cluster.storage.state_store import StoreReader

PREFIX_BYTES = 8


def generation_prefix(generation: Generation) -> bytes:
    return generation.to_bytes(PREFIX_BYTES, "big")


def generation_end(generation: Generation) -> bytes:
    """The first key behind all keys of the generation."""
    return (generation + 1).to_bytes(PREFIX_BYTES, "big")


class PrefixedReader:
    """A reader of relative keys."""

    def __init__(self, store: StoreReader, generation: Generation) -> None:
        self._store = store
        self._prefix = generation_prefix(generation)

    def get(self, key: bytes) -> bytes | None:
        return self._store.get(self._prefix + key)

    def scan(
        self, start: bytes, end: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        prefix = self._prefix
        for key, value in self._store.scan(prefix + start, prefix + end, reverse=reverse):
            yield key[PREFIX_BYTES:], value
