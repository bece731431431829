"""One checksummed unit of the WAL: its bytes, and its translation from and to log operations.

A frame is an 80-byte header, the payload, and zeros up to the next multiple of 8. The header's
checksum is seeded with the node's tag and the frame's offset and covers the segment's sequence
number and generation, so a frame that is old, moved or another node's is never valid.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from svc_cluster.base.checksum import crc32c
from svc_cluster.base.configuration import (
    Configuration,
    ConfigurationFormatError,
    decode_configuration,
    encode_configuration,
    is_of_newer_format,
)
from svc_cluster.base.ids import GroupId
from svc_cluster.base.log_ops import (
    AppendEntries,
    Configure,
    CreateReplica,
    DestroyReplica,
    InstallSnapshot,
    LogOp,
    SetCommit,
    SetHardState,
    TrimPrefix,
    TruncateSuffix,
)
from svc_cluster.storage.payload.payload_frame import PLACE_BYTES, EntryName

ALIGNMENT: Final = 8
MAGIC: Final = b"\xf5WF\x01"

ENTRY: Final = 1
TRUNCATE: Final = 2
HARD_STATE: Final = 3
COMMIT: Final = 4
TRIM: Final = 5
SNAPSHOT: Final = 6
CREATE: Final = 7
DESTROY: Final = 8
STATE: Final = 9
BATCH: Final = 10
"""The batch header: first frame of a sync batch, or, alone, a mark; tells of batches before it."""
END: Final = 11
"""Last frame of a segment: the log goes on in the segment with the next sequence number."""
ENTRY_AT: Final = 12
"""An ENTRY whose payload stands in a payload file; the frame's own payload is the place."""

CONFIGURE: Final = 13
"""The replica begins another configuration: `log_index` is the last that stays, `term` that one's
first or a later one that it was in, and the payload is the configuration."""
NEWEST_KIND: Final = CONFIGURE

FLAG_DAMAGED: Final = 2
"""On a STATE frame to be written: the replica is damaged from here on."""

FLAG_VOTED: Final = 1
"""On HARD_STATE: `log_index` holds the node voted for."""

_REST: Final = struct.Struct("<BBHIIIIIQQQQQQ")
_HEAD: Final = struct.Struct("<4sI")
_OFFSET: Final = struct.Struct("<Q")
_GENERATION: Final = struct.Struct("<Q")
_STATE: Final = struct.Struct("<BQQQQQQQQ")
_BATCH_HEADER: Final = struct.Struct("<QI")
_BATCH_HEADER_ITEM: Final = struct.Struct("<QI")
HEADER_BYTES: Final = _HEAD.size + _REST.size
STATE_BYTES: Final = _STATE.size
assert HEADER_BYTES % ALIGNMENT == 0, "headers keep frames aligned"

Position = tuple[int, int]
"""(segment sequence, offset in it): a place in the log; compares in log order."""


class FrameBody(NamedTuple):
    """What a frame says, without its place."""

    kind: int
    group: GroupId
    log_index: int = 0
    term: int = 0
    payload: bytes = b""
    flags: int = 0


class WalFrame(NamedTuple):
    """A frame as read. `payload_ok` is false when only the header can be believed."""

    body: FrameBody
    group_seq: int
    durable_before: Position
    crc: int
    prev_crc: int
    end: int
    payload_ok: bool


class GroupState(NamedTuple):
    """Content of a STATE frame: all that is known of a replica but its entries."""

    generation: int
    base_index: int
    base_term: int
    term: int
    voted_for: int | None
    commit_index: int
    last_index: int
    last_term: int
    damaged: bool
    configuration: Configuration | None = None


class BatchHeader(NamedTuple):
    """The last `group_seq` of every group with a frame in `[covers_from, this frame)`."""

    covers_from: Position
    items: dict[int, int]


def frame_bytes(payload_bytes: int) -> int:
    """Room that a frame takes on disk, padding included."""
    return HEADER_BYTES + -(-payload_bytes // ALIGNMENT) * ALIGNMENT


class FrameCoder:
    """Makes and checks the frame headers of one node."""

    __slots__ = ("_tag_seed",)

    def __init__(self, node_tag: int) -> None:
        self._tag_seed = crc32c(_OFFSET.pack(node_tag))

    def header(
        self,
        body: FrameBody,
        *,
        place: Position,
        generation: int,
        group_seq: int,
        durable_before: Position,
        prev_crc: int,
    ) -> tuple[bytes, int]:
        """The header of a frame that will stand at `place`, and its checksum."""
        kind, group, log_index, term, payload, flags = body
        rest = _REST.pack(
            kind,
            flags,
            0,
            len(payload),
            crc32c(payload),
            prev_crc,
            group_seq,
            durable_before[1],
            place[0],
            generation,
            durable_before[0],
            group,
            log_index,
            term,
        )
        crc = crc32c(rest, crc32c(_OFFSET.pack(place[1]), self._tag_seed))
        return _HEAD.pack(MAGIC, crc) + rest, crc

    def parse(
        self, data: bytes, offset: int, segment_seq: int | None, generation: int | None
    ) -> tuple[WalFrame, int, int] | None:
        """The frame at `offset` of a segment's bytes with its (segment_seq, generation).

        None when there is no believable header, or one of another life of the segment than the
        one asked for (None accepts any).
        """
        if len(data) - offset < HEADER_BYTES:
            return None
        magic, crc = _HEAD.unpack_from(data, offset)
        if magic != MAGIC:
            return None
        fields = _REST.unpack_from(data, offset + _HEAD.size)
        if segment_seq is not None and (fields[8], fields[9]) != (segment_seq, generation):
            return None
        rest = data[offset + _HEAD.size : offset + HEADER_BYTES]
        if crc != crc32c(rest, crc32c(_OFFSET.pack(offset), self._tag_seed)):
            return None
        length = fields[3]
        start = offset + HEADER_BYTES
        if start + length > len(data):
            return None
        payload = data[start : start + length]
        body = FrameBody(fields[0], GroupId(fields[11]), fields[12], fields[13], payload, fields[1])
        end = offset + frame_bytes(length)
        payload_ok = crc32c(payload) == fields[4]
        frame = WalFrame(body, fields[6], (fields[10], fields[7]), crc, fields[5], end, payload_ok)
        return frame, fields[8], fields[9]


def encode_ops(group: GroupId, ops: Sequence[LogOp]) -> Iterator[FrameBody]:
    """The frames of `ops`, in their order; one for each entry."""
    for op in ops:
        match op:
            case AppendEntries(entries):
                for entry in entries:
                    yield FrameBody(ENTRY, group, entry.log_index, entry.term, entry.payload)
            case TruncateSuffix(first_removed):
                yield FrameBody(TRUNCATE, group, first_removed)
            case SetHardState(term, None):
                yield FrameBody(HARD_STATE, group, 0, term)
            case SetHardState(term, voted_for):
                yield FrameBody(HARD_STATE, group, voted_for or 0, term, b"", FLAG_VOTED)
            case SetCommit(commit_index):
                yield FrameBody(COMMIT, group, commit_index)
            case TrimPrefix(log_index, term):
                yield FrameBody(TRIM, group, log_index, term)
            case InstallSnapshot(log_index, term, generation):
                yield FrameBody(SNAPSHOT, group, log_index, term, _GENERATION.pack(generation))
            case CreateReplica(generation):
                yield FrameBody(CREATE, group, 0, 0, _GENERATION.pack(generation))
            case DestroyReplica():
                yield FrameBody(DESTROY, group)
            case Configure(configuration, last_index):
                payload = encode_configuration(configuration)
                yield FrameBody(CONFIGURE, group, last_index, op.term, payload)


def entry_name(body: FrameBody) -> EntryName:
    """Which entry an ENTRY or ENTRY_AT frame is about."""
    return EntryName(body.group, body.log_index, body.term)


def voted_for(body: FrameBody) -> int | None:
    """The vote in a HARD_STATE frame."""
    return body.log_index if body.flags & FLAG_VOTED else None


def generation_of(body: FrameBody) -> int:
    """The state generation in a CREATE or SNAPSHOT frame."""
    (generation,) = _GENERATION.unpack(body.payload)
    return int(generation)


_LENGTHS: Final = {
    CREATE: _GENERATION.size,
    SNAPSHOT: _GENERATION.size,
    ENTRY_AT: PLACE_BYTES,
    **dict.fromkeys((TRUNCATE, HARD_STATE, COMMIT, TRIM, DESTROY, END), 0),
}


def is_well_formed(body: FrameBody) -> bool:
    """Whether the kind is known and the payload as long as that kind's must be."""
    size = len(body.payload)
    if body.kind == ENTRY:
        return True
    if body.kind == BATCH:
        items = size - _BATCH_HEADER.size
        return items >= 0 and items % _BATCH_HEADER_ITEM.size == 0
    if body.kind == STATE:
        return size == STATE_BYTES or _is_configuration(body.payload[STATE_BYTES:])
    if body.kind == CONFIGURE:
        return _is_configuration(body.payload)
    return _LENGTHS.get(body.kind) == size


def is_of_newer_release(body: FrameBody) -> bool:
    """Whether a frame that has its checksums says what only a newer release understands. To go on
    without it could be to forget a promise."""
    payload = body.payload[STATE_BYTES:] if body.kind == STATE else body.payload
    told = body.kind in (STATE, CONFIGURE) and is_of_newer_format(payload)
    return told or body.kind > NEWEST_KIND


def _is_configuration(payload: bytes) -> bool:
    try:
        decode_configuration(payload)
    except ConfigurationFormatError:
        return False
    return True


def configuration_in(body: FrameBody) -> Configuration:
    """The configuration in a CONFIGURE frame."""
    return decode_configuration(body.payload)


def encode_state(state: GroupState) -> bytes:
    """Always `state_bytes` of its configuration long."""
    configuration = state.configuration
    behind = b"" if configuration is None else encode_configuration(configuration)
    return _fixed_state(state) + behind


def state_bytes(configuration: Configuration | None) -> int:
    """The length of the payload of a STATE frame. Of a replica in the configuration that its group
    was created with, it is what every release reads."""
    behind = 0 if configuration is None else len(encode_configuration(configuration))
    return STATE_BYTES + behind


def _fixed_state(state: GroupState) -> bytes:
    return _STATE.pack(
        (state.voted_for is not None) | state.damaged << 1,
        state.generation,
        state.base_index,
        state.base_term,
        state.term,
        state.voted_for or 0,
        state.commit_index,
        state.last_index,
        state.last_term,
    )


def decode_state(payload: bytes) -> GroupState:
    configuration = payload[STATE_BYTES:]
    flags, generation, base_index, base_term, term, vote, commit, last, last_term = (
        _STATE.unpack_from(payload)
    )
    return GroupState(
        generation,
        base_index,
        base_term,
        term,
        vote if flags & 1 else None,
        commit,
        last,
        last_term,
        bool(flags & 2),
        decode_configuration(configuration) if configuration else None,
    )


def encode_batch_header(header: BatchHeader) -> bytes:
    pieces = [_BATCH_HEADER.pack(*header.covers_from)]
    pieces += [_BATCH_HEADER_ITEM.pack(group, seq) for group, seq in header.items.items()]
    return b"".join(pieces)


def decode_batch_header(payload: bytes) -> BatchHeader:
    seq, offset = _BATCH_HEADER.unpack_from(payload)
    items = dict(_BATCH_HEADER_ITEM.iter_unpack(payload[_BATCH_HEADER.size :]))
    return BatchHeader((seq, offset), items)
