"""A cache bounded by the bytes of what it holds."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ByteCache(Generic[K, V]):
    """Forgets what was put first when it holds too much; what is larger than the bound it never
    holds."""

    def __init__(self, bytes_max: int) -> None:
        assert bytes_max > 0, "a bound in bytes"
        self._bytes_max = bytes_max
        self._held: dict[K, tuple[V, int]] = {}
        self.held_bytes = 0

    def put(self, key: K, value: V, size: int) -> None:
        """`size`: bytes that `value` holds. It takes the place of what has the key."""
        self.pop(key)
        if size > self._bytes_max:
            return
        self._held[key] = (value, size)
        self.held_bytes += size
        while self.held_bytes > self._bytes_max:
            self.pop(next(iter(self._held)))

    def get(self, key: K) -> V | None:
        found = self._held.get(key)
        return None if found is None else found[0]

    def pop(self, key: K) -> V | None:
        """Does what `get` does, and forgets it."""
        found = self._held.pop(key, None)
        if found is None:
            return None
        self.held_bytes -= found[1]
        return found[0]

    def __len__(self) -> int:
        return len(self._held)
