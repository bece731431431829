"""What a backup says of itself. Values, and their bytes.

A manifest names, for each group, one applied index and a part; a part has all rows of the group but
its batches as of that index, and the list of chunks that its batches are in. Chunks are shared by
backups: a later one names those of an earlier one again.
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec
import zstandard

from svc_cluster.backup.backup_errors import DamagedError, NewerFormatError

FORMAT_VERSION: Final = 1
"""The version of manifests, parts, chunks and the vault's object; raised when one changes."""

CHUNK_BYTES: Final = 8 * 1024 * 1024
"""Rows of a chunk, ahead of compression; the row that goes over it is its last."""

CONTENT_BYTES_MAX: Final = 2 * 1024 * 1024 * 1024
"""What one object may be decompressed to."""

_ZSTD_LEVEL: Final = 3

Extent = tuple[int, int, int]
"""Stream id, first record, and the record behind the last one: whole batches, without a gap."""


class VaultFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What makes a place one of backups, and whose. Not sealed: it is read ahead of the key."""

    format: int
    vault_id: str
    cluster_id: str
    key_id: str
    """By which the key is known; empty: not sealed."""


class ChunkEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One object with batches. Its kind says how they are in there."""

    name: str
    stored_bytes: int
    extents: tuple[Extent, ...]
    kind: str = "rows"
    """`rows`: rows of the store. A later release may take payload segments as they are."""


class GroupPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One group as of one applied index."""

    format: int
    group_id: int
    applied_index: int
    applied_term: int
    taken_at_ms: int
    encoding: int
    kinds: tuple[str, ...]
    """The kinds of commands by which the rows were made, as snapshots say it."""
    rows: bytes
    """Framed as `row_frames` has it: everything but batches."""
    chunks: tuple[ChunkEntry, ...] = ()
    trimmed: dict[int, int] = {}
    """By stream id, the first record that was still there when it was read, where that is behind
    the trim point of the applied index."""


class GroupEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a manifest says of one group."""

    group_id: int
    basin: str
    """Empty: the catalog."""
    applied_index: int
    taken_at_ms: int
    part: str
    """The name of the object that the part is in."""
    streams: int = 0
    records: int = 0
    stored_bytes: int = 0
    """The bytes of its chunks, also where they are shared with other backups."""


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One backup of a cluster."""

    format: int
    number: int
    """From 1 on, one more with each."""
    vault_id: str
    cluster_id: str
    release: str
    started_at_ms: int
    finished_at_ms: int
    nodes: tuple[tuple[int, str], ...]
    """Ids and incarnations of the cluster's data directories: a cluster that has none of them is
    another one, whatever its name is, such as the one that a restore has made."""
    catalog: GroupEntry
    basins: tuple[GroupEntry, ...]
    missed: tuple[str, ...] = ()
    """Basins that were created or deleted while it was taken, and are not in it."""
    moved_bytes: int = 0
    """What this backup has added."""


def missed(manifest: Manifest) -> list[str]:
    """What is to be said wherever a backup is shown, checked or restored, a line each; empty for
    one that has every basin."""
    if not manifest.missed:
        return []
    names = ", ".join(manifest.missed)
    return [f"not in backup {manifest.number}, created or deleted while it was taken: {names}"]


class Progress(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One chunk that an unfinished backup has kept already."""

    format: int
    group_id: int
    nodes: tuple[tuple[int, str], ...]
    chunk: ChunkEntry


class _FormatOnly(msgspec.Struct):
    format: int


_T = TypeVar("_T", VaultFile, GroupPart, Manifest, Progress)


def encode_plain(value: VaultFile) -> bytes:
    return msgspec.json.encode(value)


def encode(value: GroupPart | Manifest | Progress) -> bytes:
    return compressed(msgspec.msgpack.encode(value))


def decode_plain(name: str, data: bytes) -> VaultFile:
    """Raises DamagedError, NewerFormatError."""
    try:
        _refuse_newer(name, msgspec.json.decode(data, type=_FormatOnly).format)
        return msgspec.json.decode(data, type=VaultFile)
    except (msgspec.DecodeError, UnicodeDecodeError) as cause:
        raise DamagedError(f"{name} is damaged: {cause}") from cause


def decode(name: str, data: bytes, kind: type[_T]) -> _T:
    """Raises DamagedError, NewerFormatError; `name` is for their texts."""
    raw = decompressed(name, data)
    try:
        _refuse_newer(name, msgspec.msgpack.decode(raw, type=_FormatOnly).format)
        return msgspec.msgpack.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as cause:
        raise DamagedError(f"{name} is damaged: {cause}") from cause


def _refuse_newer(name: str, version: int) -> None:
    if version != FORMAT_VERSION:
        raise NewerFormatError(
            f"{name} has format {version}, and this release reads {FORMAT_VERSION}: use the "
            "release that wrote it, or a newer one"
        )


def compressed(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(data)


def decompressed(name: str, data: bytes) -> bytes:
    """Raises DamagedError."""
    try:
        size = zstandard.frame_content_size(data)
        if size > CONTENT_BYTES_MAX:
            raise DamagedError(f"{name} is damaged: it would be {size} bytes")
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=CONTENT_BYTES_MAX)
    except zstandard.ZstdError as cause:
        raise DamagedError(f"{name} is damaged: {cause}") from cause
