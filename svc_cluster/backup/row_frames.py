"""Rows one behind the other in bytes: lengths of key and value, four bytes each, then both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from svc_cluster.backup.backup_errors import DamagedError

_LENGTH: Final = 4
KEY_BYTES_MAX: Final = 64 * 1024
VALUE_BYTES_MAX: Final = 64 * 1024 * 1024
"""No release wrote a larger row; what says so is no row."""
_PIECE_BYTES: Final = 1024 * 1024

Row = tuple[bytes, bytes]


def frame(key: bytes, value: bytes) -> bytes:
    return len(key).to_bytes(_LENGTH, "big") + len(value).to_bytes(_LENGTH, "big") + key + value


class RowReader:
    """Takes pieces as they come, and gives the rows that are whole. Raises DamagedError."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, piece: bytes) -> Iterator[Row]:
        """To be used up before the next piece."""
        held = self._held
        held += piece
        place = 0
        while len(held) - place >= 2 * _LENGTH:
            key_bytes = int.from_bytes(held[place : place + _LENGTH], "big")
            value_bytes = int.from_bytes(held[place + _LENGTH : place + 2 * _LENGTH], "big")
            if key_bytes > KEY_BYTES_MAX or value_bytes > VALUE_BYTES_MAX:
                raise DamagedError("a row has a length that no row has")
            start = place + 2 * _LENGTH
            end = start + key_bytes + value_bytes
            if len(held) < end:
                break
            yield bytes(held[start : start + key_bytes]), bytes(held[start + key_bytes : end])
            place = end
        del held[:place]

    @property
    def is_whole(self) -> bool:
        """Nothing of a row is waiting for the rest of it."""
        return not self._held


def rows_of(data: bytes) -> Iterator[Row]:
    """All rows of `data`, of which a piece at a time is copied: a caller may need the first ones
    alone. Raises DamagedError where it ends within one."""
    reader = RowReader()
    for start in range(0, len(data), _PIECE_BYTES):
        yield from reader.feed(data[start : start + _PIECE_BYTES])
    if not reader.is_whole:
        raise DamagedError("the last row is cut")
