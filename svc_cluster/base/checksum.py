"""This is the one checksum of everything stored, CRC32C (Castagnoli), computed in hardware."""

from __future__ import annotations

from crc32c import crc32c as _crc32c


def crc32c(data: bytes | bytearray | memoryview, seed: int = 0) -> int:
    """CRC32C of `data`, 0 <= result < 2**32.

    `seed` is the checksum of what stands before `data`, so that pieces can be summed without being
    joined: `crc32c(b, crc32c(a)) == crc32c(a + b)`.
    """
    return _crc32c(data, seed)
