"""The port through which state machines read their rows, whatever keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class KeyReader(Protocol):
    """Reads of one replica's keys, without its prefix; semantics as the state store's reader."""

    def get(self, key: bytes) -> bytes | None: ...

    def scan(
        self, start: bytes, end: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Pairs of the half-open range `[start, end)` in key order, or reversed; lazy."""
        ...
