"""The walks over a basin's rows by which it is handed out: everything but the batches, and the
batches of some records. Batches never change, so the two may be of different moments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from svc_cluster.base.ids import StreamId
from svc_cluster.base.key_reader import KeyReader
from svc_cluster.stream import keys, rows

Row = tuple[bytes, bytes]


class StreamWalk(NamedTuple):
    """What is there of the wanted records of one stream."""

    trim_point: int | None
    """None: the stream is gone."""
    batches: Iterable[Row]
    """In their order; those of records below the trim point are left out."""


def all_but_batches(reader: KeyReader, end: bytes) -> Iterator[Row]:
    """Yield all other rows of a basin, in their order. `end` is behind all of its keys."""
    yield from reader.scan(b"", keys.batches_range(StreamId(0))[0])
    yield from reader.scan(keys.IDEMPOTENCY_ROWS, end)


def batches_between(reader: KeyReader, stream_id: int, first: int, end: int) -> StreamWalk:
    """Look at the batches that hold the records from `first` to before `end`."""
    row = reader.get(keys.stream_key(StreamId(stream_id)))
    if row is None:
        return StreamWalk(None, ())
    trim_point = rows.decode_stream(StreamId(stream_id), row).trim_point
    start = keys.batch_key(StreamId(stream_id), max(first, trim_point))
    stop = keys.batch_key(StreamId(stream_id), end)
    return StreamWalk(trim_point, reader.scan(start, stop) if start < stop else ())
