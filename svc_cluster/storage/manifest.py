"""Cuts the torn end of RocksDB's MANIFEST, which RocksDB itself takes for corruption.

An edit of the MANIFEST is appended and then synced. A power cut in between leaves any of its
sectors: a missing end is forgiven by RocksDB, a hole in the middle is not, and the store would not
open although nothing that was synced is lost. Cutting back to the edit before is always safe: it
is an earlier whole state of the store, and a replica starts from a state only where its log
continues it (replica/host.py), else it recovers from its peers.

The format is RocksDB's log format: blocks of 32 KiB, records of masked CRC32C, length, type.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Final

from svc_cluster.base.checksum import crc32c

EDIT_BYTES_MAX: Final = 64 * 1024
"""Longest torn end: more than one edit writes. A fault further inside is rot, not a power cut."""

EDIT_RECORDS_MAX: Final = 3
"""Whole records that may stand behind the fault: one edit is written as a few records."""

_BLOCK: Final = 32 * 1024
_HEADER: Final = struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


def cut_torn_end(store: Path) -> int:
    """Bytes cut off the MANIFEST's end; 0 when its fault is not a torn end, and nothing is done.

    Blocking; the store must be closed. The cut file is synced before it takes the place of the
    torn one, so that a crash leaves either. Raises OSError.
    """
    current = store / "CURRENT"
    manifest = store / current.read_text(errors="replace").strip()
    if manifest.parent != store or not manifest.name.startswith("MANIFEST-"):
        return 0
    data = manifest.read_bytes()
    end = whole_end(data)
    rest = len(data) - end
    if end == 0 or rest == 0 or rest > EDIT_BYTES_MAX:
        return 0
    if _whole_records(data, end + 1) > EDIT_RECORDS_MAX:
        return 0
    whole = store / "manifest.cut"
    with whole.open("wb") as out:
        out.write(data[:end])
        out.flush()
        os.fsync(out.fileno())
    whole.rename(manifest)
    handle = os.open(store, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    return rest


def whole_end(data: bytes) -> int:
    """Offset behind the last edit before the first fault: the length of what can be kept."""
    end = position = 0
    while position < len(data):
        left = _BLOCK - position % _BLOCK
        if left < _HEADER.size:
            position += left
            continue
        kind, length = _record_at(data, position)
        if kind == 0:
            break
        position += _HEADER.size + length
        if kind in (_FULL, _LAST):
            end = position
    return end


def _record_at(data: bytes, position: int) -> tuple[int, int]:
    """Type and payload length of the record there; type 0 when none stands there."""
    if position + _HEADER.size > len(data):
        return 0, 0
    masked, length, kind = _HEADER.unpack_from(data, position)
    payload = position + _HEADER.size
    if not _FULL <= kind <= _LAST or payload + length > len(data):
        return 0, 0
    if position % _BLOCK + _HEADER.size + length > _BLOCK:
        return 0, 0
    checksum = crc32c(memoryview(data)[position + 6 : payload + length])
    return (kind, length) if _mask(checksum) == masked else (0, 0)


def _mask(checksum: int) -> int:
    """A checksum of data that holds checksums is stored changed, by RocksDB's rule."""
    return (((checksum >> 15) | (checksum << 17)) + 0xA282EAD8) & 0xFFFF_FFFF


def _whole_records(data: bytes, start: int) -> int:
    """How many records verify behind a fault, wherever they begin."""
    found = 0
    position = start
    while position < len(data):
        kind, length = _record_at(data, position)
        if kind:
            found += 1
            position += _HEADER.size + length
        else:
            position += 1
    return found
