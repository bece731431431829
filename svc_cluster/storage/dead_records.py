"""The store's own notes of deleted ranges, behind every other key, for the next process.

They are written with the deletes they speak of and go when the space has been given back.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final

from svc_cluster.storage.dead_ranges import DeadRange

FIRST_KEY: Final = b"\xff" * 9
"""Behind the keys of all replica generations, which are 8 bytes and what follows."""
END_KEY: Final = b"\xff" * 10

_SIZE: Final = struct.Struct(">Q")
_UNKNOWN: Final = 2**64 - 1


def encode(dead: DeadRange) -> tuple[bytes, bytes]:
    """Key and value of the note."""
    size = _UNKNOWN if dead.size is None else dead.size
    return FIRST_KEY + dead.start, _SIZE.pack(size) + dead.end


def decode(pairs: Iterable[tuple[bytes, bytes]]) -> Iterator[DeadRange]:
    for key, value in pairs:
        (size,) = _SIZE.unpack_from(value)
        yield DeadRange(
            key[len(FIRST_KEY) :], value[_SIZE.size :], None if size == _UNKNOWN else size
        )


def keys_of(start: bytes, end: bytes) -> tuple[bytes, bytes]:
    """Half-open range of the notes of ranges that begin in `[start, end)`."""
    return FIRST_KEY + start, FIRST_KEY + end
