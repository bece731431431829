"""What a basin holds, apart from the form in which its store keeps it: see model/content.py.

Records are taken as they were acknowledged, with their place and times from the batch they are in;
their bytes may be sealed with a key that no replica has. What is purged lazily is no content: the
batches wholly below the trim point of their stream, and those of no stream. The digest of what was
written is none either: it depends on the form of the rows.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from svc_cluster.base.ids import StreamId
from svc_cluster.base.key_reader import KeyReader
from svc_cluster.model.content import Row, Visit, behind
from svc_cluster.model.idempotency_table import canonical_idempotency_row
from svc_cluster.model.usage_table import canonical_counts
from svc_cluster.stream import keys, rows
from svc_cluster.stream.batch_row import HEADER_BYTES, decode_placement, metered_before
from svc_cluster.stream.rows import StreamState

_END: Final = b"\xff"
_APPLIED: Final = struct.Struct(">QQ")
_BATCH: Final = struct.Struct(">BBIIQQQQQQ")
_BATCH_KEY_BYTES: Final = 17
_BATCH_KIND: Final = 4

_UNREADABLE: Final = (msgspec.DecodeError, struct.error, ValueError, AssertionError, IndexError)
"""What decoders raise for bytes that no release wrote."""


class BasinContent:
    """This is the content of a basin's group."""

    def visits(self, view: KeyReader, after: bytes) -> Iterator[Visit]:
        walk = _Batches(view)
        walk.resume(after)
        for key, value in view.scan(behind(after), _END):
            flaw = walk.left(key)
            read_bytes = len(key) + len(value)
            if key[0] == _BATCH_KIND:
                row, found = walk.batch(key, value)
                yield Visit(row, read_bytes, flaw or found)
            else:
                head, found = _canonical(key, value)
                yield Visit(Row(key, head), read_bytes, flaw or found)
        flaw = walk.left(_END)
        if flaw:
            yield Visit(None, 0, flaw)


def _applied(_: bytes, value: bytes) -> bytes:
    applied = rows.decode_applied(value)
    return _APPLIED.pack(applied.applied_index, applied.term)


def _basin(_: bytes, value: bytes) -> bytes:
    return rows.encode_basin(rows.decode_basin(value))


def _entry(key: bytes, value: bytes) -> bytes:
    return rows.encode_entry(rows.decode_entry(keys.name_of(key), value))


def _stream(key: bytes, value: bytes) -> bytes:
    return rows.encode_stream(rows.decode_stream(keys.stream_of(key), value))


_FORMS: Final[dict[int, Callable[[bytes, bytes], bytes]]] = {
    keys.APPLIED_KEY[0]: _applied,
    keys.BASIN_KEY[0]: _basin,
    keys.name_key("")[0]: _entry,
    keys.streams_range()[0][0]: _stream,
    keys.IDEMPOTENCY_ROWS[0]: lambda _, value: canonical_idempotency_row(value),
    keys.USAGE_MINUTES_KIND: lambda _, value: canonical_counts(value),
}
"""By the kind of the key. All other rows are of one form and are taken as they are, so that what is
new in a later release is compared as well."""


def _canonical(key: bytes, value: bytes) -> tuple[bytes, str]:
    form = _FORMS.get(key[0])
    if form is None:
        return value, ""
    try:
        return form(key, value), ""
    except _UNREADABLE as cause:
        return value, f"row {key.hex()} cannot be read: {type(cause).__name__}"


class _Batches:
    """Walks over the batches of stream after stream, which must reach from the trim point of each
    to its tail without a gap."""

    def __init__(self, view: KeyReader) -> None:
        self._view = view
        self._stream_id: StreamId | None = None
        self._stream: StreamState | None = None
        self._next: int | None = None
        """The sequence number that the next batch begins with; None before the first."""

    def resume(self, after: bytes) -> None:
        """Go on behind this key, which may be a batch's."""
        if len(after) == _BATCH_KEY_BYTES and after[0] == _BATCH_KIND:
            stream_id, last_seq_num = keys.batch_key_parts(after)
            self._enter(stream_id)
            # what the walk would go on with may have been trimmed since
            if self._stream is None or self._stream.trim_point <= last_seq_num + 1:
                self._next = last_seq_num + 1

    def left(self, key: bytes) -> str:
        """The walk has come to `key`. Return what is missing at the end of the stream that it has
        left, if it has left one and something is."""
        stream, self_next = self._stream, self._next
        if self._stream_id is None:
            return ""
        if key[0] == _BATCH_KIND and key < keys.batches_range(self._stream_id)[1]:
            return ""
        self._stream_id = self._stream = self._next = None
        if stream is None or self_next is None or self_next >= stream.tail_seq_num:
            return ""
        return f"stream {stream.stream_id}: records from {self_next} to its tail are missing"

    def batch(self, key: bytes, value: bytes) -> tuple[Row | None, str]:
        if len(key) != _BATCH_KEY_BYTES:
            return Row(key, value), f"row {key.hex()} has no key of a batch"
        stream_id, last_seq_num = keys.batch_key_parts(key)
        if stream_id != self._stream_id:
            self._enter(stream_id)
        stream = self._stream
        if stream is None or last_seq_num < stream.trim_point:
            return None, ""
        try:
            placement = decode_placement(value)
        except _UNREADABLE as cause:
            self._next = last_seq_num + 1
            return Row(key, value), f"batch {key.hex()} cannot be read: {type(cause).__name__}"
        first = placement.first_seq_num
        missing_before = first > stream.trim_point if self._next is None else first != self._next
        flaw = ""
        if placement.end_seq_num != last_seq_num + 1 or last_seq_num >= stream.tail_seq_num:
            flaw = f"stream {stream_id}: a batch lies where it does not belong, at {last_seq_num}"
        elif missing_before:
            flaw = f"stream {stream_id}: records before {first} are missing"
        self._next = last_seq_num + 1
        expires_at_ms = placement.expires_at_ms
        head = _BATCH.pack(
            placement.mode,
            placement.uncapped | (expires_at_ms is not None) << 1,
            placement.record_count,
            placement.metered_bytes,
            first,
            placement.base_timestamp_ms,
            placement.arrival_ms,
            placement.last_timestamp_ms,
            expires_at_ms or 0,
            metered_before(value),
        )
        return Row(key, head, value[HEADER_BYTES:]), flaw

    def _enter(self, stream_id: StreamId) -> None:
        """A stream whose row cannot be read has none here: its own row shows the flaw."""
        self._stream_id, self._stream, self._next = stream_id, None, None
        value = self._view.get(keys.stream_key(stream_id))
        if value is not None:
            try:
                self._stream = rows.decode_stream(stream_id, value)
            except _UNREADABLE:
                return
