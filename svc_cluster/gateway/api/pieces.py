"""What a stream says, as it waits to be sent: in slices, of which each is let go as it leaves.

A consumer that reads nothing must not hold the gateway's memory. What is said at once is therefore
small, unless a single record is large; then its slices wait compressed, in which no encoding takes
more than about the record itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from typing import Final

import zstandard

PIECE_BYTES_MAX: Final = 512 * 1024
"""What is longer waits in slices."""
_SLICE_BYTES: Final = 128 * 1024
_SLICES_AT_ONCE: Final = 4
"""Compressed between two chances for others to work: about 2 ms."""
_LEVEL: Final = 1

_compress = zstandard.ZstdCompressor(level=_LEVEL).compress
_decompress = zstandard.ZstdDecompressor().decompress


class Waiting:
    """One piece on its way. Iterate once: what was given out is no longer held."""

    __slots__ = ("_slices",)

    def __init__(self) -> None:
        self._slices: deque[tuple[bytes, bool]] = deque()
        """With whether they are compressed."""

    @classmethod
    def steps(cls, piece: bytes) -> Generator[None, None, Waiting]:
        """The piece in its slices, made in steps of a bounded time."""
        waiting = cls()
        slices = waiting._slices
        if len(piece) <= PIECE_BYTES_MAX:
            slices.append((piece, False))
            return waiting
        for at in range(0, len(piece), _SLICE_BYTES):
            plain = piece[at : at + _SLICE_BYTES]
            # Copied: the library's own object keeps the room it had for a worse case.
            small = bytes(memoryview(_compress(plain)))
            slices.append((small, True) if len(small) < len(plain) else (plain, False))
            if len(slices) % _SLICES_AT_ONCE == 0:
                yield
        return waiting

    @property
    def held_bytes(self) -> int:
        return sum(len(data) for data, _ in self._slices)

    def __iter__(self) -> Iterator[bytes]:
        while self._slices:
            yield self._next()

    def _next(self) -> bytes:
        data, is_compressed = self._slices.popleft()
        return _decompress(data) if is_compressed else data
