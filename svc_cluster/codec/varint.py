"""Numbers as protobuf writes them, for code that walks messages as bytes."""

from __future__ import annotations

from typing import Final

VARINT_BYTES_MAX: Final = 10


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The number at `position`, which the library wrote, and the position behind it."""
    value = data[position]
    position += 1
    if value < 0x80:
        return value, position
    value &= 0x7F
    shift = 7
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def short_varint(data: bytes, position: int) -> tuple[int, int]:
    """Does what `read_varint` does. Raises ValueError for one of more than 10 bytes, or without an
    end."""
    if position < len(data) and (value := data[position]) < 0x80:
        return value, position + 1  # nearly always
    value = 0
    for place, byte in enumerate(data[position : position + VARINT_BYTES_MAX], start=1):
        if byte < 0x80:
            return value | byte << 7 * (place - 1), position + place
        value |= (byte & 0x7F) << 7 * (place - 1)
    raise ValueError("no number of 64 bits")


def varint(value: int) -> bytes:
    """`value`, not negative, as the library writes it."""
    assert value >= 0, "lengths are not negative"
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
