"""What can be read of a damaged replica becomes one that has no damage, but lacks rows.

The rows are written anew, so that its log is applied to them as to any others. A stream that lacks
its row, or its name's, gets it from what else is there of it; of one whose row is lost and that has
no batch nobody knows how far it was, and it is left out. Where batches are missing, all others are
kept; the stream goes on from the last run of them, because readers are told of no gaps.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec

from svc_cluster.backup.row_holes import Hole, UnreadableStateError, readable
from svc_cluster.base.ids import SeqNum, StreamId, TimestampMs
from svc_cluster.base.key_reader import KeyReader
from svc_cluster.base.write_set import WriteSet
from svc_cluster.model.stream_config import Retention, StreamConfig
from svc_cluster.stream import keys, rows
from svc_cluster.stream.batch_row import decode_placement, metered_before
from svc_cluster.stream.rows import StreamEntry, StreamState

COPIED_BYTES: Final = 1024 * 1024
"""So much is written at a time."""
_STREAMS: Final = keys.streams_range()
_NAMES: Final = keys.name_range("", "")
_OUTCOMES: Final = (keys.IDEMPOTENCY_ROWS, bytes([keys.IDEMPOTENCY_COUNT_KEY[0] + 1]))
_USAGE: Final = bytes([keys.USAGE_REPORTERS_KIND])
_BATCH_KIND: Final = keys.batch_key(StreamId(0), 0)[:1]
_BATCH_KEY_BYTES: Final = len(keys.batch_key(StreamId(0), 0))
_CONFIG: Final = StreamConfig(retention=Retention(None))
"""A stream whose own configuration cannot be read has this one: it keeps everything."""

Put = Callable[[WriteSet], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class StreamLoss:
    """The records of a stream that are lost, as ranges from a first one to before an end."""

    name: str
    ranges: tuple[tuple[int, int], ...]
    begins_at: int
    """The first record behind the last loss: the stream goes on from it."""
    runs: tuple[int, ...]
    """Records ahead of that can be read as well: where each run of them ends."""


@dataclass(slots=True)
class Salvage:
    """What is known to be missing of a replica."""

    holes: list[Hole] = field(default_factory=list)
    mended: list[str] = field(default_factory=list)
    """What was put in the place of rows that cannot be read, and what was given up: sentences."""
    streams: dict[int, StreamLoss] = field(default_factory=dict)
    """By stream id, where records are lost."""


async def salvaged(source: KeyReader, end: bytes, put: Put, made: KeyReader) -> Salvage:
    """Write what can be read of `source`, whose keys lie before `end`, with `put`; `made` reads
    what was put. Raises UnreadableStateError where the basin's own rows cannot be read."""
    out = Salvage()
    write_set, size = WriteSet(), 0
    # usage is counted by what is there: it is counted anew
    for key, value in readable(source, b"", min(end, _USAGE), out.holes):
        write_set.put(key, value)
        size += len(key) + len(value)
        if size >= COPIED_BYTES:
            await put(write_set)
            write_set, size = WriteSet(), 0
    await put(write_set)
    for own, what in ((keys.APPLIED_KEY, "how far it is"), (keys.BASIN_KEY, "the basin")):
        if made.get(own) is None:
            raise UnreadableStateError(f"the row that says {what} cannot be read")
    await put(_mended(made, out))
    return out


def _mended(made: KeyReader, out: Salvage) -> WriteSet:
    """The rows that are worked out from others."""
    write_set = WriteSet()
    if any(hole.start < _OUTCOMES[1] and hole.end > _OUTCOMES[0] for hole in out.holes):
        write_set.delete_range(*_OUTCOMES)
        out.mended.append(
            "the outcomes of requests with a token are LOST: such a request is a new one"
        )
    states = {keys.stream_of(key) for key, _ in made.scan(*_STREAMS)}
    named: set[StreamId] = set()
    for key, value in made.scan(*_NAMES):
        entry = rows.decode_entry(keys.name_of(key), value)
        named.add(entry.stream_id)
        if entry.stream_id in states:
            continue
        state = _rebuilt(made, entry)
        if state is None:
            write_set.delete(key)
            out.mended.append(
                f"{entry.name}: its row is LOST, and no record of it can be read: it is LEFT OUT, "
                "as nobody knows from which record it would go on"
            )
            continue
        write_set.put(keys.stream_key(entry.stream_id), rows.encode_stream(state))
        out.mended.append(f"{entry.name}: its row is LOST: {_told_of_rebuilt(state)}")
    for stream_id in sorted(states - named):
        state = _state(made, stream_id)
        write_set.put(keys.name_key(state.name), rows.encode_entry(state.entry))
    for stream_id in _nameless(made, states | named, out.holes):
        entry = StreamEntry(
            _made_name(made, stream_id), stream_id, _begun(made, stream_id), None, None
        )
        write_set.put(keys.name_key(entry.name), rows.encode_entry(entry))
        state = _rebuilt(made, entry)
        assert state is not None, "it was found by its batches"
        write_set.put(keys.stream_key(stream_id), rows.encode_stream(state))
        out.mended.append(
            f"{entry.name}: a stream whose name and row are LOST; it may have been deleted, and "
            f"nobody reads it where it had a cipher: {_told_of_rebuilt(state)}"
        )
    return write_set


def _nameless(made: KeyReader, known: set[StreamId], holes: Iterable[Hole]) -> Iterator[StreamId]:
    """Streams with batches, and neither a name nor a row: both were among what cannot be read."""
    kinds = (_NAMES, _STREAMS)
    found = [any(h.start < end and h.end > start for h in holes) for start, end in kinds]
    if not all(found):
        return
    at, end = _BATCH_KIND, bytes([_BATCH_KIND[0] + 1])
    while (pair := next(iter(made.scan(at, end)), None)) is not None:
        stream_id, _ = keys.batch_key_parts(pair[0])
        if stream_id not in known:
            yield stream_id
        at = keys.batches_range(stream_id)[1]


def _made_name(made: KeyReader, stream_id: StreamId) -> str:
    name = f"recovered-{stream_id}"
    while made.get(keys.name_key(name)) is not None:
        name += "-"
    return name


def _begun(made: KeyReader, stream_id: StreamId) -> TimestampMs:
    _, value = next(iter(made.scan(*keys.batches_range(stream_id))))
    return decode_placement(value).arrival_ms


def _rebuilt(made: KeyReader, entry: StreamEntry) -> StreamState | None:
    """The row of a stream as its batches make it; None: there is none, and it cannot be made."""
    batches = keys.batches_range(entry.stream_id)
    first = next(iter(made.scan(*batches)), None)
    if first is None:
        return None
    state = StreamState(
        entry.stream_id,
        entry.name,
        _CONFIG,
        entry.created_at_ms,
        entry.cipher,
        entry.deleted_at_ms,
    )
    _, last = next(iter(made.scan(*batches, reverse=True)))
    trim_point = decode_placement(first[1]).first_seq_num
    return msgspec.structs.replace(_ended(state, last), trim_point=trim_point)


def _told_of_rebuilt(state: StreamState) -> str:
    """What nobody knows of a stream any more that has its row from its batches."""
    first, tail = int(state.trim_point), int(state.tail_seq_num)
    return (
        f"it has what can be read of its records {first} to {tail - 1}, keeps them for ever and "
        f"goes on from record {tail}; records from {tail} on and ahead of {first} may be LOST, and "
        "its fencing token and configuration are: set them anew"
    )


def _ended(stream: StreamState, last: bytes) -> StreamState:
    """The stream as it was right behind this batch."""
    placement = decode_placement(last)
    return msgspec.structs.replace(
        stream,
        tail_seq_num=placement.end_seq_num,
        last_timestamp_ms=placement.last_timestamp_ms,
        metered_bytes_appended=metered_before(last) + placement.metered_bytes,
        last_arrival_ms=placement.arrival_ms,
    )


def _state(made: KeyReader, stream_id: StreamId) -> StreamState:
    value = made.get(keys.stream_key(stream_id))
    assert value is not None, "it was found by its row"
    return rows.decode_stream(stream_id, value)


def settled(made: KeyReader, out: Salvage) -> WriteSet:
    """Note the records that are lost, once everything is applied. The rows of streams that end
    earlier, because their last records are."""
    write_set = WriteSet()
    for key, value in made.scan(*_STREAMS):
        stream = rows.decode_stream(keys.stream_of(key), value)
        reached, begins_at, last = int(stream.trim_point), int(stream.trim_point), None
        ranges: list[tuple[int, int]] = []
        runs: list[int] = []
        start = keys.batch_key(stream.stream_id, stream.trim_point)
        for _, batch in made.scan(start, keys.batch_key(stream.stream_id, stream.tail_seq_num)):
            placement = decode_placement(batch)
            if placement.first_seq_num > reached:
                ranges.append((reached, int(placement.first_seq_num)))
                begins_at = int(placement.first_seq_num)
                runs += [reached] if last is not None else []
            reached, last = int(placement.end_seq_num), batch
        tail = int(stream.tail_seq_num)
        if reached < tail:
            ranges.append((reached, tail))
            if last is None:
                begins_at = tail
                write_set.put(key, _emptied(stream))
            else:
                write_set.put(key, rows.encode_stream(_ended(stream, last)))
        if ranges:
            out.streams[int(stream.stream_id)] = StreamLoss(
                stream.name, tuple(ranges), begins_at, tuple(runs)
            )
    return write_set


def _emptied(stream: StreamState) -> bytes:
    """The row of a stream of which no batch is left: it goes on with the next number."""
    trimmed = msgspec.structs.replace(stream, trim_point=SeqNum(stream.tail_seq_num))
    return rows.encode_stream(trimmed)


# -- what is told


def described(hole: Hole) -> str:
    """What cannot be read, for a person; batches are told by their streams."""
    if hole.end == hole.start + b"\x00":
        return f"the row of {_of(hole.start)} cannot be read"
    return f"what stands from {_of(hole.start)} on, ahead of {_of(hole.end)}, cannot be read"


def is_among_batches(hole: Hole) -> bool:
    """Whether nothing but batches, which are told by their numbers, can stand there."""
    return hole.start[:1] == _BATCH_KIND and hole.end[:1] == _BATCH_KIND


def _of(key: bytes) -> str:
    kind = key[:1]
    if kind < _NAMES[0]:
        return "the basin"
    if kind == _NAMES[0]:
        return f"the name {key[1:].decode(errors='replace').rstrip(chr(0))!r}"
    if kind in (_STREAMS[0], _BATCH_KIND):
        padded = key[1:].ljust(_BATCH_KEY_BYTES - 1, b"\x00")
        stream, record = int.from_bytes(padded[:8], "big"), int.from_bytes(padded[8:16], "big")
        return f"stream {stream}" + (f"'s record {record}" if kind == _BATCH_KIND else "")
    return "the outcomes of requests" if kind < _OUTCOMES[1] else "the usage"
