"""Which records are in which chunks, and what is still to be fetched. Pure."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from svc_cluster.backup.backup_errors import DamagedError
from svc_cluster.backup.backup_manifest import ChunkEntry, Extent
from svc_cluster.backup.row_frames import Row
from svc_cluster.base.ids import StreamId
from svc_cluster.stream import keys
from svc_cluster.stream.rows import StreamState, decode_stream


@dataclass(frozen=True, slots=True)
class RecordRange:
    """Records of a stream from `first` to before `end`."""

    stream_id: int
    first: int
    end: int


_UNREADABLE: Final = (struct.error, ValueError, AssertionError, msgspec.MsgspecError)
"""What keys and rows raise that no node has written."""


def streams_of(basin: str, rows: Iterable[Row]) -> dict[int, StreamState]:
    """The streams among the rows of a basin, by their ids. Raises DamagedError."""
    start, end = keys.streams_range()
    try:
        return {
            int(keys.stream_of(key)): decode_stream(StreamId(keys.stream_of(key)), value)
            for key, value in rows
            if start <= key < end
        }
    except _UNREADABLE as cause:
        raise DamagedError(f"basin {basin}: a stream's row cannot be read: {cause}") from cause


def first_of(stream: StreamState, trimmed: Mapping[int, int]) -> int:
    """The first record of a stream that a backup has to have."""
    return min(max(stream.trim_point, trimmed.get(stream.stream_id, 0)), stream.tail_seq_num)


def by_stream(chunks: Iterable[ChunkEntry]) -> dict[int, list[Extent]]:
    """All extents of each stream, in order."""
    found: dict[int, list[Extent]] = {}
    for chunk in chunks:
        for extent in chunk.extents:
            found.setdefault(extent[0], []).append(extent)
    for extents in found.values():
        extents.sort(key=lambda extent: (extent[1], extent[2]))
    return found


def covered_until(extents: Iterable[Extent], first: int) -> int:
    """The first record at or behind `first` that is in none of them, which are in order."""
    reached = first
    for _, start, end in extents:
        if start > reached:
            break
        reached = max(reached, end)
    return reached


def missing(
    streams: Mapping[int, StreamState], chunks: Iterable[ChunkEntry], trimmed: Mapping[int, int]
) -> list[RecordRange]:
    """What is in none of the chunks and has to be, at most one range of each stream, by its id."""
    extents = by_stream(chunks)
    out = []
    for stream_id, stream in sorted(streams.items()):
        first = covered_until(extents.get(stream_id, ()), first_of(stream, trimmed))
        if first < stream.tail_seq_num:
            out.append(RecordRange(stream_id, first, stream.tail_seq_num))
    return out


def still_wanted(
    streams: Mapping[int, StreamState], chunks: Iterable[ChunkEntry]
) -> tuple[ChunkEntry, ...]:
    """Those of the chunks that hold a record that some stream still has."""
    return tuple(
        chunk
        for chunk in chunks
        if any(
            stream_id in streams
            and end > streams[stream_id].trim_point
            and first < streams[stream_id].tail_seq_num
            for stream_id, first, end in chunk.extents
        )
    )
