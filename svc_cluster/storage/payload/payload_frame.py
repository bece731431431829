"""The bytes of a payload file: block 0, which says whose the file is, then frames.

A frame is a header of 64 bytes, the payload of one entry, and zeros up to the next block of 4 KiB:
no block holds acknowledged bytes and bytes to come, so a torn write hurts no neighbour. The
header's checksum is seeded with the node's tag, the file's number and the frame's offset; a number
is never given twice, so a frame of an earlier life of the file is never valid.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from svc_cluster.base.checksum import crc32c

FORMAT: Final = 1
BLOCK_BYTES: Final = 4096

_HEAD_MAGIC: Final = b"svcPAYfl"
_HEAD: Final = struct.Struct("<8sIIQQ")
_CRC: Final = struct.Struct("<I")
_HEAD_USED: Final = _HEAD.size + _CRC.size
_LANE_APPENDED: Final = 0
_FRAME_MAGIC: Final = b"\xf5PF\x01"
_FRAME: Final = struct.Struct("<4sI")
_REST: Final = struct.Struct("<QQQII24x")
_SEED: Final = struct.Struct("<QQQ")
_PLACE: Final = struct.Struct("<IQII")
FRAME_HEADER_BYTES: Final = _FRAME.size + _REST.size
PLACE_BYTES: Final = _PLACE.size
_NAME: Final = "payload-{:08d}.segment"


class PayloadPlace(NamedTuple):
    """Where bytes stand: the file's number, offset and length in bytes, and their CRC32C."""

    number: int
    offset: int
    length: int
    checksum: int


class EntryName(NamedTuple):
    """Which entry a frame holds."""

    group: int
    log_index: int
    term: int


def file_name(number: int) -> str:
    return _NAME.format(number)


def file_number(name: str) -> int | None:
    """The number in a payload file's name; None for any other file."""
    stem = name.removeprefix("payload-").removesuffix(".segment")
    return int(stem) if stem.isdigit() and _NAME.format(int(stem)) == name else None


def encode_head(number: int, node_tag: int) -> bytes:
    """Block 0 of the file `number`."""
    fields = _HEAD.pack(_HEAD_MAGIC, FORMAT, _LANE_APPENDED, node_tag, number)
    return (fields + _CRC.pack(crc32c(fields))).ljust(BLOCK_BYTES, b"\0")


def decode_head(data: bytes) -> tuple[int, int, int] | None:
    """(format, node tag, number) as block 0 says; None where it is torn or was never written."""
    if len(data) < _HEAD_USED:
        return None
    magic, version, _, node_tag, number = _HEAD.unpack_from(data)
    (crc,) = _CRC.unpack_from(data, _HEAD.size)
    if magic != _HEAD_MAGIC or crc != crc32c(data[: _HEAD.size]):
        return None
    return version, node_tag, number


def frame_bytes(payload_bytes: int) -> int:
    """Room that a frame takes on disk, padding included."""
    return -(-(FRAME_HEADER_BYTES + payload_bytes) // BLOCK_BYTES) * BLOCK_BYTES


def encode_frame(
    node_tag: int, number: int, offset: int, entry: EntryName, payload: bytes
) -> tuple[bytes, bytes, PayloadPlace]:
    """The header of the frame at `offset`, the zeros that end it, and the payload's place."""
    checksum = crc32c(payload)
    rest = _REST.pack(*entry, len(payload), checksum)
    crc = crc32c(rest, crc32c(_SEED.pack(node_tag, number, offset)))
    padding = bytes(frame_bytes(len(payload)) - FRAME_HEADER_BYTES - len(payload))
    place = PayloadPlace(number, offset + FRAME_HEADER_BYTES, len(payload), checksum)
    return _FRAME.pack(_FRAME_MAGIC, crc) + rest, padding, place


def holds(header: bytes, node_tag: int, place: PayloadPlace, entry: EntryName) -> bool:
    """Whether this header, read from before `place`, is that of the entry's frame there."""
    if len(header) < FRAME_HEADER_BYTES:
        return False
    magic, crc = _FRAME.unpack_from(header)
    rest = header[_FRAME.size : FRAME_HEADER_BYTES]
    seed = crc32c(_SEED.pack(node_tag, place.number, place.offset - FRAME_HEADER_BYTES))
    if magic != _FRAME_MAGIC or crc != crc32c(rest, seed):
        return False
    *said, length, checksum = _REST.unpack(rest)
    return (tuple(said), length, checksum) == (tuple(entry), place.length, place.checksum)


def encode_place(place: PayloadPlace) -> bytes:
    """Always PLACE_BYTES long."""
    return _PLACE.pack(*place)


def decode_place(data: bytes) -> PayloadPlace:
    return PayloadPlace(*_PLACE.unpack(data))
