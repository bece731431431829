"""The values of rows of usage: what a basin and its streams store, and when it had streams."""

from __future__ import annotations

import struct
from typing import Final

import msgspec

Presence = tuple[int, int | None]
"""Unix milliseconds from which on, and until when, a basin had streams; None: it has some."""

_READING: Final = struct.Struct(">Q")
_BASIN_READING: Final = struct.Struct(">QQ")
_presences: Final = msgspec.msgpack.Decoder(tuple[Presence, ...]).decode


class BasinReading(msgspec.Struct, frozen=True):
    """Metered bytes stored by all streams together, and how many streams there are."""

    stored_bytes: int
    streams: int


def encode_reading(stored_bytes: int) -> bytes:
    return _READING.pack(stored_bytes)


def decode_reading(value: bytes) -> int:
    stored_bytes: int = _READING.unpack(value)[0]
    return stored_bytes


def encode_basin_reading(reading: BasinReading) -> bytes:
    return _BASIN_READING.pack(reading.stored_bytes, reading.streams)


def decode_basin_reading(value: bytes) -> BasinReading:
    return BasinReading(*_BASIN_READING.unpack(value))


HOURS_KEPT: Final = 1
"""How usage is kept: 31 days by the minute, 91 by the hour. Without the row: 31 days, no more."""


def encode_kept(kept: int) -> bytes:
    return msgspec.msgpack.encode(kept)


def decode_kept(value: bytes) -> int:
    """Raises ValueError for what a newer release has written."""
    kept = msgspec.msgpack.decode(value, type=int)
    if kept != HOURS_KEPT:
        raise ValueError(f"usage is kept in a way that this release does not know: {kept}")
    return kept


def encode_presence(presence: tuple[Presence, ...]) -> bytes:
    return msgspec.msgpack.encode(presence)


def decode_presence(value: bytes) -> tuple[Presence, ...]:
    return _presences(value)
