"""Which keys' values stand in which payload file: rows of the store, behind all generations.

One row for each file and owner of keys in it, the owner being the key without its last 8 bytes: the
first and the last key. It is written along with the rows that it speaks of, so a crash loses both.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

FIRST_KEY: Final = b"\xff" * 8
"""Behind the keys of all replica generations, before the notes of deleted ranges."""
END_KEY: Final = b"\xff" * 8 + b"\x01"
TAIL_BYTES: Final = 8
"""What tells the keys of one owner apart, and rises from one to the next."""

_NUMBER: Final = struct.Struct(">Q")
_PREFIX: Final = b"\xff" * 8 + b"\x00"


class References:
    """A picture of the rows in memory: by file and owner, the last bytes of first and last key."""

    def __init__(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """`rows`: all of them, as the store has them."""
        self._owners: dict[int, dict[bytes, tuple[bytes, bytes]]] = {}
        for key, value in rows:
            (number,) = _NUMBER.unpack_from(key, len(_PREFIX))
            owner = key[len(_PREFIX) + _NUMBER.size :]
            tails = value[:TAIL_BYTES], value[TAIL_BYTES:]
            self._owners.setdefault(number, {})[owner] = tails

    def numbers(self) -> list[int]:
        """The files that are named."""
        return sorted(self._owners)

    def with_key(self, number: int, key: bytes) -> tuple[bytes, bytes]:
        """Note that the key's value stands in that file. Returns the row that says so."""
        owner, tail = key[:-TAIL_BYTES], key[-TAIL_BYTES:]
        owners = self._owners.setdefault(number, {})
        first, last = owners.get(owner, (tail, tail))
        owners[owner] = first, last = min(first, tail), max(last, tail)
        return row_prefix(number) + owner, first + last

    def owners(self, number: int) -> list[bytes]:
        """Whose keys are in that file, but for those that were left out."""
        return list(self._owners.get(number, ()))

    def range_of(self, number: int, owner: bytes) -> tuple[bytes, bytes]:
        """The half-open range of keys in which all of the owner's keys in the file are."""
        first, last = self._owners[number][owner]
        return owner + first, owner + last + b"\x00"

    def begin_behind(self, number: int, owner: bytes, key: bytes) -> None:
        """No key of the owner up to this one has its value in the file, and none comes to."""
        _, last = self._owners[number][owner]
        self._owners[number][owner] = key[len(owner) :] + b"\0", last

    def leave_out(self, number: int, owner: bytes) -> None:
        """The owner has nothing in the file any more, and nobody looks for it again."""
        del self._owners[number][owner]

    def forget(self, number: int) -> None:
        self._owners.pop(number, None)


def row_prefix(number: int) -> bytes:
    return _PREFIX + _NUMBER.pack(number)


def rows_of(number: int) -> tuple[bytes, bytes]:
    """The half-open range of the rows of one file."""
    return row_prefix(number), row_prefix(number + 1)
