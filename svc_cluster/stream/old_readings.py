"""What becomes of readings that are too old: see model/usage.py for how long what is kept."""

from __future__ import annotations

from itertools import islice, pairwise
from typing import Final

from svc_cluster.base.ids import StreamId
from svc_cluster.base.key_reader import KeyReader
from svc_cluster.base.write_set import WriteSet
from svc_cluster.model.usage import FINE_MINUTES, HOUR_MINUTES, KEPT_MINUTES
from svc_cluster.model.usage_table import prune
from svc_cluster.stream import keys

AGED_READINGS_MAX: Final = 60
"""So many readings of one stream that are too old for their minutes are looked at with an entry: an
hour's worth. What is beyond them, behind a pause of more than an hour, stays until it goes."""


def age(
    write_set: WriteSet,
    reader: KeyReader,
    stream_id: StreamId,
    minutes: tuple[int, int],
    *,
    keeps_hours: bool,
) -> None:
    """Take away what is too old once there is a reading of a new minute. `minutes`: that of the
    reading before, and the new one. `keeps_hours`: the log has said that the hours stay."""
    before, newest = minutes
    kept = KEPT_MINUTES if keeps_hours else FINE_MINUTES
    if newest > kept:
        _prune(write_set, reader, stream_id, newest - kept)
    if keeps_hours and newest > FINE_MINUTES:
        first = max(before - FINE_MINUTES, newest - KEPT_MINUTES, 0)
        _thin(write_set, reader, stream_id, first, newest - FINE_MINUTES)


def _prune(write_set: WriteSet, reader: KeyReader, stream_id: StreamId, before: int) -> None:
    """What is older than that minute goes, but for the last: that held until the next reading."""
    start, _ = keys.readings_range(stream_id)
    prune(write_set, reader, start, keys.reading_key(stream_id, before), keep_last=True)


def _thin(
    write_set: WriteSet, reader: KeyReader, stream_id: StreamId, first: int, end: int
) -> None:
    """Take away those readings of these minutes that another one of the same hour follows. What is
    left is the last of each hour. The one before them may be such a one, too."""
    if first >= end:
        return
    hour = first // HOUR_MINUTES * HOUR_MINUTES
    pairs = reader.scan(keys.reading_key(stream_id, hour), keys.reading_key(stream_id, end))
    rows = [(keys.reading_minute(key), key) for key, _ in islice(pairs, AGED_READINGS_MAX)]
    for (minute, key), (following, _) in pairwise(rows):
        if minute // HOUR_MINUTES == following // HOUR_MINUTES:
            write_set.delete(key)
