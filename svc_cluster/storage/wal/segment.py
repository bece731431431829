"""One file of the WAL and its header, which says in which of its lives the file is.

The header stands twice, in two blocks of its own, and is changed one block after the other with a
sync between: a crash tears at most one of them, and a damaged block does not lose the segment. The
copy with the higher generation counts.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, NamedTuple

from svc_cluster.base.checksum import crc32c
from svc_cluster.model import versions
from svc_cluster.storage.disk import DiskFile
from svc_cluster.storage.wal.wal_settings import WalFormatError

FORMAT: Final = versions.newest_read(versions.WAL_SEGMENT)
"""2 gives the length of the file, and says that a `wal-reach` stands beside it."""

FORMAT_WITHOUT_LENGTH: Final = 1
SLOT_BYTES: Final = 4096
DATA_START: Final = 2 * SLOT_BYTES
FREE: Final = 0
ACTIVE: Final = 1

_MAGIC: Final = b"svcWALsg"
_FIELDS: Final = struct.Struct("<8sIIQQQ")
_CRC: Final = struct.Struct("<I")
_LENGTH: Final = struct.Struct("<Q")
_SLOT_USED: Final = _FIELDS.size + _CRC.size + _LENGTH.size + _CRC.size
_NAME: Final = "wal-{:08d}.segment"


class SegmentHeader(NamedTuple):
    """A SegmentHeader has a `generation`, which grows with every change of the file's header. The
    `segment_seq` is the segment's place in the log (0 while the file is free). The `length` is the
    file's, in bytes, and 0 in a header of the format that does not give it."""

    state: int
    generation: int
    segment_seq: int
    length: int = 0


@dataclass(slots=True, eq=False)
class Segment:
    """A file that is, or is about to be, part of the log."""

    file: DiskFile
    header: SegmentHeader
    size: int

    @property
    def seq(self) -> int:
        return self.header.segment_seq

    @property
    def generation(self) -> int:
        return self.header.generation

    @property
    def is_cut(self) -> bool:
        """The file is not as long as it was made."""
        return self.header.length not in (0, self.size)


def segment_name(number: int) -> str:
    return _NAME.format(number)


def segment_number(name: str) -> int | None:
    """The number in a segment file's name; None for any other file."""
    stem = name.removeprefix("wal-").removesuffix(".segment")
    return int(stem) if stem.isdigit() and _NAME.format(int(stem)) == name else None


def encode_header(header: SegmentHeader, node_tag: int) -> bytes:
    """The first part is as long, and has its checksum, in every format. So each program can tell
    that a header is of a format that it does not know."""
    version = FORMAT if header.length else FORMAT_WITHOUT_LENGTH
    fields = _FIELDS.pack(
        _MAGIC, version, header.state, node_tag, header.generation, header.segment_seq
    )
    data = fields + _CRC.pack(crc32c(fields))
    if header.length:
        data += _LENGTH.pack(header.length)
        data += _CRC.pack(crc32c(data))
    return data


def tag_of(file: DiskFile) -> int | None:
    """Return the tag of the node that wrote the file, as its first readable header has it."""
    for slot in (0, 1):
        data = file.pread(_SLOT_USED, slot * SLOT_BYTES)
        if len(data) >= _FIELDS.size + _CRC.size:
            magic, _, _, tag, _, _ = _FIELDS.unpack_from(data)
            if magic == _MAGIC and _CRC.unpack_from(data, _FIELDS.size)[0] == crc32c(
                data[: _FIELDS.size]
            ):
                return int(tag)
    return None


def read_slots(file: DiskFile, node_tag: int) -> list[SegmentHeader | None]:
    """Both header copies, None for one that is torn, damaged or was never written.

    Raises WalFormatError when a valid copy is of another node or of a format of the future.
    """
    return [
        _decode_slot(file.pread(_SLOT_USED, slot * SLOT_BYTES), node_tag, file.name)
        for slot in (0, 1)
    ]


def _decode_slot(data: bytes, node_tag: int, name: str) -> SegmentHeader | None:
    if len(data) < _FIELDS.size + _CRC.size:
        return None
    magic, version, state, tag, generation, segment_seq = _FIELDS.unpack_from(data)
    (crc,) = _CRC.unpack_from(data, _FIELDS.size)
    if magic != _MAGIC or crc != crc32c(data[: _FIELDS.size]):
        return None
    if version not in (FORMAT_WITHOUT_LENGTH, FORMAT):
        raise WalFormatError(
            f"{name} has WAL format {version}, this program reads formats up to {FORMAT}: start "
            "the version of the program that wrote it"
        )
    if tag != node_tag:
        raise WalFormatError(
            f"{name} was written by another node identity: give this node its own data directory, "
            "or restore the identity that belongs to this one"
        )
    if version == FORMAT_WITHOUT_LENGTH:
        return SegmentHeader(state, generation, segment_seq)
    checked = _FIELDS.size + _CRC.size + _LENGTH.size
    if len(data) < _SLOT_USED or data[checked:] != _CRC.pack(crc32c(data[:checked])):
        return None
    (length,) = _LENGTH.unpack_from(data, _FIELDS.size + _CRC.size)
    return SegmentHeader(state, generation, segment_seq, length)
