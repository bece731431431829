"""Batches of a group on their way into chunks: a run of rows, and which records they are. Pure."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from svc_cluster.backup.backup_errors import DamagedError
from svc_cluster.backup.backup_manifest import (
    CHUNK_BYTES,
    ChunkEntry,
    Extent,
    compressed,
    decompressed,
)
from svc_cluster.backup.row_frames import Row, frame, rows_of
from svc_cluster.model.record import BatchPlacement
from svc_cluster.stream import keys
from svc_cluster.stream.batch_row import decode_placement

EXTENTS_MAX: Final = 20_000
"""Streams in one chunk."""

_UNREADABLE: Final = (struct.error, ValueError, AssertionError, IndexError)


def placed(key: bytes, value: bytes) -> tuple[int, BatchPlacement]:
    """The stream and the place of a batch. Raises DamagedError for a row that is none, or lies in
    another one's place."""
    try:
        stream_id, last = keys.batch_key_parts(key)
        placement = decode_placement(value)
    except _UNREADABLE as cause:
        raise DamagedError(f"row {key.hex()} is no batch: {type(cause).__name__}") from cause
    if placement.end_seq_num != last + 1:
        raise DamagedError(f"stream {stream_id}: a batch lies where it does not belong, at {last}")
    return int(stream_id), placement


class BatchChunkBuilder:
    """Takes the batches of stream after stream until there are enough for a chunk."""

    def __init__(self, bytes_max: int = CHUNK_BYTES) -> None:
        self._bytes_max = bytes_max
        self._frames = bytearray()
        self._extents: list[Extent] = []

    @property
    def is_empty(self) -> bool:
        return not self._extents

    @property
    def is_full(self) -> bool:
        return len(self._frames) >= self._bytes_max or len(self._extents) >= EXTENTS_MAX

    def add(self, stream_id: int, placement: BatchPlacement, row: Row) -> None:
        """Batches of a stream come in their order. That nothing is missing between two of them,
        but what is known to be, the caller has seen."""
        first, end = int(placement.first_seq_num), int(placement.end_seq_num)
        before = self._extents[-1] if self._extents else None
        if before is not None and before[0] == stream_id and before[2] == first:
            self._extents[-1] = (stream_id, before[1], end)
        else:
            self._extents.append((stream_id, first, end))
        self._frames += frame(*row)

    def take(self) -> tuple[bytes, tuple[Extent, ...]]:
        """The content of the chunk, compressed, and what is in it; the next one begins empty."""
        content = compressed(bytes(self._frames)), tuple(self._extents)
        self._frames.clear()
        self._extents = []
        return content


def batches_of(entry: ChunkEntry, data: bytes) -> Iterator[tuple[int, BatchPlacement, Row]]:
    """The batches of a chunk, which have to be what its entry says. Raises DamagedError."""
    if entry.kind != "rows":
        raise DamagedError(f"{entry.name} is of the kind {entry.kind!r}, which is not known here")
    found: list[Extent] = []
    for row in rows_of(decompressed(entry.name, data)):
        stream_id, placement = placed(*row)
        first, end = int(placement.first_seq_num), int(placement.end_seq_num)
        if found and found[-1][0] == stream_id and found[-1][2] == first:
            found[-1] = (stream_id, found[-1][1], end)
        else:
            found.append((stream_id, first, end))
        yield stream_id, placement, row
    if tuple(found) != entry.extents:
        raise DamagedError(f"{entry.name} is damaged: it has other records than the manifest says")
