"""A basin's use of the service, counted as its log is applied.

Bytes and operations of appends are counted with the very entry that appends, by the time of arrival
in it; reads and other operations come in reports (model/usage.py). What is stored is kept as
readings: of a stream, and of the basin as a whole, one row for each minute in which it changed.
All of it is part of the basin's state: it depends on nothing but the log, and is written together
with what it counts. Counting begins with an entry that says so (`Bootstrap`, `CountUsage`), so that
replicas that apply older entries at different times stay equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from svc_cluster.base.ids import StreamId, TimestampMs
from svc_cluster.base.key_reader import KeyReader
from svc_cluster.base.limits import STREAM_STATES_CACHED_MAX
from svc_cluster.base.write_set import WriteSet
from svc_cluster.model.record import SequencedBatch
from svc_cluster.model.usage import (
    FINE_MINUTES,
    KEPT_MINUTES,
    MINUTE_MS,
    Counts,
    UsageReport,
)
from svc_cluster.model.usage_table import UsageDraft, UsageTable
from svc_cluster.stream import keys
from svc_cluster.stream.batch_row import metered_before
from svc_cluster.stream.commands import AppendCommand
from svc_cluster.stream.old_readings import age
from svc_cluster.stream.rows import StreamState, decode_stream
from svc_cluster.stream.usage_rows import (
    HOURS_KEPT,
    BasinReading,
    Presence,
    decode_basin_reading,
    decode_kept,
    decode_presence,
    decode_reading,
    encode_basin_reading,
    encode_kept,
    encode_presence,
    encode_reading,
)

_EXPRESS: Final = "express"

PRESENCES_MAX: Final = 64
"""Times during which a basin had streams; beyond that the oldest two become one."""


class StorageReading(msgspec.Struct, frozen=True):
    """Metered bytes stored by a stream, as of the last minute in which that changed."""

    minute: int
    stored_bytes: int


class BasinUsage:
    """What is applied. Only `commit` changes it, once the store has what the draft wrote."""

    def __init__(
        self,
        reader: KeyReader,
        *,
        cached_max: int = STREAM_STATES_CACHED_MAX,
    ) -> None:
        self.reader = reader
        self._cached_max = cached_max
        self.table = UsageTable(reader, keys.USAGE_MINUTES_KIND, keys.USAGE_REPORTERS_KIND)
        kept = reader.get(keys.USAGE_KEPT_KEY)
        if kept is not None:
            decode_kept(kept)  # a way that this release does not know ends here
        self.keeps_hours = kept is not None
        """What is too old for its minutes is kept by the hour, since an entry that said so."""
        value = reader.get(keys.PRESENCE_KEY)
        self.presence: tuple[Presence, ...] = () if value is None else decode_presence(value)
        self.reading: tuple[int, BasinReading] | None = None
        """The reading of the basin, and its minute; None: nothing is counted yet."""
        for key, value in reader.scan(*keys.readings_range(keys.WHOLE_BASIN), reverse=True):
            self.reading = (keys.reading_minute(key), decode_basin_reading(value))
            break
        # Least recently used first.
        self._readings: dict[StreamId, StorageReading] = {}

    @property
    def counts(self) -> bool:
        return self.reading is not None

    def stream_reading(self, stream: StreamState) -> StorageReading:
        """The last one of a stream as it is applied, where usage is counted."""
        known = self._readings.pop(stream.stream_id, None)
        if known is None:
            known = self._read(stream)
            if len(self._readings) >= self._cached_max:
                del self._readings[next(iter(self._readings))]
        self._readings[stream.stream_id] = known
        return known

    def _read(self, stream: StreamState) -> StorageReading:
        for key, value in self.reader.scan(*keys.readings_range(stream.stream_id), reverse=True):
            return StorageReading(keys.reading_minute(key), decode_reading(value))
        # it is older than the counting
        return StorageReading(0, stored_metered_bytes(self.reader, stream))

    def had_streams(self, start_ms: int, end_ms: int) -> bool:
        """Whether the basin had a stream at any time from `start_ms` to before `end_ms`."""
        return any(
            since_ms < max(end_ms, start_ms + 1) and (until_ms is None or until_ms > start_ms)
            for since_ms, until_ms in self.presence
        )

    def commit(self, draft: EntryUsage) -> None:
        self.reading = draft.reading
        self.presence = draft.presence
        self.keeps_hours = draft.keeps_hours
        self.table.commit(draft.counts)
        for stream_id, reading in draft.readings.items():
            self._readings.pop(stream_id, None)
            if reading is not None:
                self._readings[stream_id] = reading  # now the one used last
        while len(self._readings) > self._cached_max:
            del self._readings[next(iter(self._readings))]


class _HeldReading(msgspec.Struct):
    """A stream's reading while an entry changes it."""

    minute: int
    stored_bytes: int
    in_new_minute: bool
    before: int = 0
    """The minute of the reading before."""


_NOTHING: Final = Counts()
"""Stands for the counts of no minute; never added to."""


class EntryUsage:
    """What one log entry adds to a basin's usage."""

    __slots__ = (
        "_batch_counts",
        "_batch_minute",
        "_held",
        "_is_touched",
        "_minute",
        "_purged",
        "_state",
        "_stored_bytes",
        "_streams",
        "counts",
        "is_counting",
        "keeps_hours",
        "presence",
        "reading",
        "readings",
    )

    def __init__(self, state: BasinUsage) -> None:
        self._state = state
        self.counts = UsageDraft(state.table)
        self.presence = state.presence
        self.reading = state.reading
        """The reading of the basin, as `write` has left it."""
        self.readings: dict[StreamId, StorageReading | None] = {}
        """The readings of the streams that the entry changed, as `write` has left them; None:
        purged."""
        self.is_counting = state.reading is not None
        self.keeps_hours = state.keeps_hours
        self._minute = self._stored_bytes = self._streams = 0
        """The reading of the basin, as far as it has come."""
        if state.reading is not None:
            self._minute, whole = state.reading
            self._stored_bytes, self._streams = whole.stored_bytes, whole.streams
        self._held: dict[StreamId, _HeldReading] = {}
        self._purged: list[StreamId] = []
        self._is_touched = False
        self._batch_minute = -1
        self._batch_counts = _NOTHING

    # -- what commands do

    def begin(self, at_ms: TimestampMs) -> None:
        """Count from here on, in a basin that has nothing yet."""
        self.begin_with(at_ms, {}, lambda _: ())

    def begin_with(
        self,
        at_ms: TimestampMs,
        changed: Mapping[StreamId, StreamState | None],
        batches: Callable[[StreamId], Sequence[SequencedBatch]],
    ) -> None:
        """Count from here on, in a basin from before anything was counted: a look at each of its
        streams. `changed`, `batches`: what the entry did to streams so far."""
        if self.is_counting:
            return
        self.is_counting = True
        reader = self._state.reader
        for key, value in reader.scan(*keys.streams_range()):
            stream_id = keys.stream_of(key)
            if stream_id not in changed:
                stored_bytes = stored_metered_bytes(reader, decode_stream(stream_id, value))
                self._touch(at_ms, stored_bytes, 1)
        for stream_id, stream in changed.items():
            if stream is not None:
                stored_bytes = stored_metered_bytes(reader, stream, batches(stream_id))
                self._held[stream_id] = _HeldReading(at_ms // MINUTE_MS, stored_bytes, False)
                self._touch(at_ms, stored_bytes, 1)
        self._touch(at_ms, 0, 0)
        if self._streams:
            self.presence = ((at_ms, None),)

    def keep_hours(self) -> None:
        """Keep the hours of what is too old for its minutes, from here on."""
        if self.is_counting:
            self.keeps_hours = True

    def take(self, report: UsageReport, at_ms: TimestampMs) -> None:
        if self.is_counting:
            self.counts.take(report, at_ms // MINUTE_MS)

    def created(self, stream: StreamState) -> None:
        if not self.is_counting:
            return
        at_ms = stream.created_at_ms
        self._held[stream.stream_id] = _HeldReading(at_ms // MINUTE_MS, 0, False)
        self._touch(at_ms, 0, 1)
        if self._streams == 1:
            kept = KEPT_MINUTES if self.keeps_hours else FINE_MINUTES
            self.presence = (*_within_reach(self.presence, at_ms, kept), (at_ms, None))

    def appended(
        self,
        command: AppendCommand,
        before: StreamState,
        after: StreamState,
        batches: Sequence[SequencedBatch],
    ) -> None:
        """`batches`: those that the entry appended to the stream so far, with this one."""
        if not self.is_counting:
            return
        placement = command.placement
        more_bytes = placement.metered_bytes
        minute = placement.arrival_ms // MINUTE_MS
        if minute != self._batch_minute:
            self._batch_minute = minute
            self._batch_counts = self.counts.counts(minute)
        counts = self._batch_counts
        if before.config.storage_class == _EXPRESS:
            counts.append_bytes_express += more_bytes
            counts.append_ops_express += command.op_units
        else:
            counts.append_bytes_standard += more_bytes
            counts.append_ops_standard += command.op_units
        held = self._held.get(after.stream_id)
        if held is None:
            held = self._hold(before)
        if after.trim_point > before.trim_point:
            left = stored_metered_bytes(self._state.reader, after, batches)
            more_bytes = left - held.stored_bytes
        held.stored_bytes += more_bytes
        if minute > held.minute:
            held.minute = minute
            held.in_new_minute = True
        self._stored_bytes += more_bytes
        if minute > self._minute:
            self._minute = minute
        self._is_touched = True

    def trimmed(
        self,
        before: StreamState,
        after: StreamState,
        batches: Sequence[SequencedBatch],
        at_ms: TimestampMs,
    ) -> None:
        if not self.is_counting or after.trim_point <= before.trim_point:
            return
        held = self._hold(before)
        left = stored_metered_bytes(self._state.reader, after, batches)
        self._touch(at_ms, left - held.stored_bytes, 0)
        held.stored_bytes = left
        if at_ms // MINUTE_MS > held.minute:
            held.minute = at_ms // MINUTE_MS
            held.in_new_minute = True

    def purged(self, stream: StreamState, at_ms: TimestampMs) -> None:
        """Its readings go with it."""
        if not self.is_counting:
            return
        stored_bytes = self._hold(stream).stored_bytes
        del self._held[stream.stream_id]
        self._purged.append(stream.stream_id)
        self._touch(at_ms, -stored_bytes, -1)
        if self._streams == 0 and self.presence:
            since_ms, _ = self.presence[-1]
            self.presence = (*self.presence[:-1], (since_ms, max(at_ms, since_ms)))

    # -- what becomes of it

    def write(self, write_set: WriteSet) -> None:
        """Each row that is touched, once."""
        self.counts.write(write_set, keeps_hours=self.keeps_hours)
        reader, hours = self._state.reader, self.keeps_hours
        if hours and not self._state.keeps_hours:
            write_set.put(keys.USAGE_KEPT_KEY, encode_kept(HOURS_KEPT))
        for stream_id, held in self._held.items():
            minute = held.minute
            write_set.put(keys.reading_key(stream_id, minute), encode_reading(held.stored_bytes))
            if held.in_new_minute:
                age(write_set, reader, stream_id, (held.before, minute), keeps_hours=hours)
            self.readings[stream_id] = StorageReading(minute, held.stored_bytes)
        for stream_id in self._purged:
            write_set.delete_range(*keys.readings_range(stream_id), frees=0)
            self.readings[stream_id] = None
        if self._is_touched:
            self._write_whole(write_set)
        if self.presence is not self._state.presence:
            write_set.put(keys.PRESENCE_KEY, encode_presence(self.presence))

    def _write_whole(self, write_set: WriteSet) -> None:
        """The reading of the basin."""
        whole = BasinReading(max(self._stored_bytes, 0), max(self._streams, 0))
        write_set.put(keys.reading_key(keys.WHOLE_BASIN, self._minute), encode_basin_reading(whole))
        if self.reading is not None and self._minute > self.reading[0]:
            minutes, hours = (self.reading[0], self._minute), self.keeps_hours
            age(write_set, self._state.reader, keys.WHOLE_BASIN, minutes, keeps_hours=hours)
        self.reading = (self._minute, whole)

    # -- helpers

    def _hold(self, stream: StreamState) -> _HeldReading:
        """The reading of a stream, to be changed."""
        held = self._held.get(stream.stream_id)
        if held is None:
            known = self._state.stream_reading(stream)
            held = self._held[stream.stream_id] = _HeldReading(
                known.minute, known.stored_bytes, False, known.minute
            )
        return held

    def _touch(self, at_ms: TimestampMs, more_bytes: int, more_streams: int) -> None:
        """A minute that is over is not written again: the last row is always the newest."""
        self._minute = max(at_ms // MINUTE_MS, self._minute)
        self._stored_bytes += more_bytes
        self._streams += more_streams
        self._is_touched = True


def stored_metered_bytes(
    reader: KeyReader, stream: StreamState, batches: Sequence[SequencedBatch] = ()
) -> int:
    """Metered bytes of the batches that are kept of a stream: the one that holds the trim point,
    and all behind it. `batches`: the last ones, as far as the store does not have them yet."""
    first_key = keys.batch_key(stream.stream_id, stream.trim_point)
    end_key = keys.batch_key(stream.stream_id, stream.tail_seq_num)
    for _, value in reader.scan(first_key, end_key):
        return stream.metered_bytes_appended - metered_before(value)
    kept = 0
    for batch in reversed(batches):
        if batch.placement.end_seq_num <= stream.trim_point:
            break
        kept += batch.placement.metered_bytes
    return kept


def _within_reach(
    presence: tuple[Presence, ...], now_ms: int, kept_minutes: int
) -> tuple[Presence, ...]:
    """Without what no query reaches any more, and with room for one more."""
    earliest_ms = now_ms - kept_minutes * MINUTE_MS
    kept = tuple(one for one in presence if one[1] is None or one[1] >= earliest_ms)
    if len(kept) < PRESENCES_MAX:
        return kept
    (since_ms, _), (_, until_ms), *others = kept
    return ((since_ms, until_ms), *others)
