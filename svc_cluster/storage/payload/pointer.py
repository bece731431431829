"""The state store's row for a value whose bytes stand in a payload file: their place, and the
value's head.

No writer of values begins one with these four bytes, and the checksum over key and row tells the
two apart in any case.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from svc_cluster.base.checksum import crc32c
from svc_cluster.storage.payload.payload_frame import PayloadPlace

_MAGIC: Final = b"\xf5Pt\x01"
_PLACE: Final = struct.Struct("<4sIQII")
_CRC: Final = struct.Struct("<I")


class Pointer(NamedTuple):
    """The value is `head` and what stands at `place`."""

    place: PayloadPlace
    head: bytes


def encode_pointer(key: bytes, pointer: Pointer) -> bytes:
    """The row under this key."""
    row = _PLACE.pack(_MAGIC, *pointer.place) + pointer.head
    return row + _CRC.pack(crc32c(row, crc32c(key)))


def decode_pointer(key: bytes, row: bytes) -> Pointer | None:
    """None for a value that is stored as it is."""
    if row[:4] != _MAGIC or len(row) < _PLACE.size + _CRC.size:
        return None
    said = row[: -_CRC.size]
    if row[-_CRC.size :] != _CRC.pack(crc32c(said, crc32c(key))):
        return None
    _, number, offset, length, checksum = _PLACE.unpack_from(row)
    return Pointer(PayloadPlace(number, offset, length, checksum), said[_PLACE.size :])
