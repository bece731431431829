"""A basin's rows on their way from a backup into a cluster: whole, renamed, or up to a moment.

Batches may come in any order. What a stream is cut at is known once all were seen: the first batch
that is not wanted any more. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from svc_cluster.backup.backup_errors import DamagedError
from svc_cluster.backup.coverage import covered_until, first_of, streams_of
from svc_cluster.backup.row_frames import Row
from svc_cluster.base.ids import LogIndex, SeqNum, StreamId, Term, TimestampMs
from svc_cluster.model.record import BatchPlacement
from svc_cluster.stream import keys, rows
from svc_cluster.stream.batch_row import metered_before
from svc_cluster.stream.rows import AppliedRow, StreamState

_IDEMPOTENCY: Final = (
    keys.IDEMPOTENCY_ROWS,
    keys.IDEMPOTENCY_TIMES,
    keys.IDEMPOTENCY_COUNT_KEY,
)
_USAGE_FIRST: Final = keys.USAGE_REPORTERS_KIND


@dataclass(frozen=True, slots=True)
class BasinWish:
    """What is wanted of a basin. `name`: the one that it gets; `positions`: by a stream's name, the
    record that it is cut ahead of."""

    name: str
    until_ms: int | None = None
    positions: Mapping[str, int] = field(default_factory=dict)

    def is_whole_of(self, basin: str) -> bool:
        """Whether it is all of the basin, under its own name."""
        return self == BasinWish(basin)


@dataclass(slots=True)
class _Found:
    """What was seen of one stream."""

    first: int
    """The first record that it has to have."""
    lost_until: int | None = None
    """Not all records ahead of this one are there; it is cut ahead of it, or may be. None: it is
    not, or all are."""
    extents: list[tuple[int, int, int]] = field(default_factory=list)
    cut: int | None = None
    """The first record that is not wanted."""
    cut_timestamp_ms: int = 0
    cut_metered: int = 0
    last_arrival_ms: int | None = None
    last: tuple[int, int, int] = (0, 0, 0)
    """The end of the last batch that is wanted, its last timestamp, and the metered bytes of the
    stream behind it."""


class RestoredBasin:
    """One basin. `batch` for each batch, then `rows` and `surplus`. Raises DamagedError."""

    def __init__(
        self, basin: str, source: Iterable[Row], trimmed: Mapping[int, int], wanted: BasinWish
    ) -> None:
        self._basin = basin
        self._rows = list(source)
        self._wanted = wanted
        self.streams = streams_of(basin, self._rows)
        unknown = set(wanted.positions) - {stream.name for stream in self.streams.values()}
        if unknown:
            raise DamagedError(f"basin {basin} has no stream {sorted(unknown)[0]}")
        self._found = {
            stream_id: _Found(first_of(stream, trimmed))
            for stream_id, stream in self.streams.items()
        }
        for stream_id, first in trimmed.items():
            stream = self.streams.get(stream_id)
            if stream is not None and (
                wanted.until_ms is not None or wanted.positions.get(stream.name, first + 1) <= first
            ):
                self._found[stream_id] = _Found(int(stream.trim_point), lost_until=first)
        self._dropped = {
            stream_id
            for stream_id, stream in self.streams.items()
            if wanted.until_ms is not None and stream.created_at_ms > wanted.until_ms
        }
        self.keeps_outcomes = wanted.is_whole_of(basin)
        """Every request with a token has had the effect here that its outcome tells."""
        self.keeps_usage = self.keeps_outcomes and not trimmed
        """Nothing is renamed, cut, or lacks what was trimmed: what was counted holds still."""

    def batch(self, stream_id: int, placement: BatchPlacement, value: bytes) -> bool:
        """Whether the batch is to be taken, as far as is known by now."""
        stream, found = self.streams.get(stream_id), self._found.get(stream_id)
        if stream is None or found is None or stream_id in self._dropped:
            return False
        first, end = int(placement.first_seq_num), int(placement.end_seq_num)
        if end <= found.first or first >= stream.tail_seq_num:
            return False
        limit, until_ms = self._wanted.positions.get(stream.name), self._wanted.until_ms
        if (limit is not None and end > limit) or (
            until_ms is not None and placement.arrival_ms > until_ms
        ):
            if found.cut is None or first < found.cut:
                found.cut = first
                found.cut_timestamp_ms = placement.base_timestamp_ms
                found.cut_metered = metered_before(value)
            return False
        if found.extents and found.extents[-1][2] == first:
            found.extents[-1] = (stream_id, found.extents[-1][1], end)
        else:
            found.extents.append((stream_id, first, end))
        if end > found.last[0]:
            behind = metered_before(value) + placement.metered_bytes
            found.last = (end, placement.last_timestamp_ms, behind)
        if found.last_arrival_ms is None or placement.arrival_ms > found.last_arrival_ms:
            found.last_arrival_ms = placement.arrival_ms
        return True

    def _settle(self) -> None:
        """Where records are lost, a stream is the last run of them ahead of its cut."""
        for stream_id, found in self._found.items():
            lost_until, found.lost_until = found.lost_until, None
            if lost_until is None:
                continue
            if found.cut is None or found.cut > lost_until:
                found.first = lost_until
                continue
            runs: list[tuple[int, int]] = []
            for _, first, end in sorted(found.extents):
                begins = runs.pop()[0] if runs and runs[-1][1] >= first else first
                runs.append((begins, end))
            if runs:
                found.first = max(runs[-1][0], int(self.streams[stream_id].trim_point))
                found.cut, found.cut_timestamp_ms, found.cut_metered = found.last
            else:
                found.first = found.cut

    def surplus(self) -> Iterator[tuple[bytes, bytes]]:
        """Half-open ranges of batches that were taken, and lie behind a cut that was seen later,
        or ahead of what is lost."""
        self._settle()
        for stream_id, found in self._found.items():
            stream = self.streams[stream_id]
            if found.first > stream.trim_point:
                trim_point = keys.batch_key(stream.stream_id, stream.trim_point)
                yield trim_point, keys.batch_key(stream.stream_id, found.first)
            if found.cut is not None:
                end = keys.batches_range(StreamId(stream_id))[1]
                yield keys.batch_key(StreamId(stream_id), found.cut), end

    def check(self) -> None:
        """Raises DamagedError where a stream lacks records that it has to have."""
        self._settle()
        for stream_id, found in sorted(self._found.items()):
            if stream_id in self._dropped:
                continue
            stream = self.streams[stream_id]
            end = stream.tail_seq_num if found.cut is None else found.cut
            reached = covered_until(sorted(found.extents), found.first)
            if reached < end:
                raise DamagedError(
                    f"basin {self._basin}, stream {stream.name}: the records from {reached} to "
                    f"before {end} are in no chunk"
                )

    def rows(self, log_index: LogIndex, term: Term, digest: int) -> Iterator[Row]:
        """All rows but the batches, as the state of the basin at that place of a new log."""
        self.check()
        streams = {
            stream_id: self._ended(stream)
            for stream_id, stream in self.streams.items()
            if stream_id not in self._dropped
        }
        names = {stream.name: stream for stream in streams.values()}
        first_name, end_name = keys.name_range("", "")
        first_stream, end_stream = keys.streams_range()
        for key, value in self._rows:
            if key == keys.APPLIED_KEY:
                yield key, rows.encode_applied(AppliedRow(log_index, term, digest))
            elif key == keys.BASIN_KEY:
                head = rows.decode_basin(value)
                # the restored catalog has it as one that is there: nothing would delete it further
                head = msgspec.structs.replace(head, name=self._wanted.name, sealed_at_ms=None)
                yield key, rows.encode_basin(head)
            elif first_name <= key < end_name:
                if (stream := names.get(keys.name_of(key))) is not None:
                    yield key, rows.encode_entry(stream.entry)
            elif first_stream <= key < end_stream:
                if (kept := streams.get(int(keys.stream_of(key)))) is not None:
                    yield key, rows.encode_stream(kept)
            elif self._keeps(key):
                yield key, value

    def _keeps(self, key: bytes) -> bool:
        if key[:1] in _IDEMPOTENCY:
            return self.keeps_outcomes
        return self.keeps_usage or key[0] < _USAGE_FIRST

    def _ended(self, stream: StreamState) -> StreamState:
        found = self._found[int(stream.stream_id)]
        deleted_at_ms, until_ms = stream.deleted_at_ms, self._wanted.until_ms
        if deleted_at_ms is not None and until_ms is not None and deleted_at_ms > until_ms:
            deleted_at_ms = None  # it was there at that time
        tail = int(stream.tail_seq_num) if found.cut is None else found.cut
        ended = msgspec.structs.replace(
            stream,
            deleted_at_ms=deleted_at_ms,
            tail_seq_num=SeqNum(tail),
            trim_point=SeqNum(min(found.first, tail)),
        )
        if found.cut is None:
            return ended
        return msgspec.structs.replace(
            ended,
            last_timestamp_ms=TimestampMs(found.cut_timestamp_ms),
            metered_bytes_appended=found.cut_metered,
            last_arrival_ms=(
                None if found.last_arrival_ms is None else TimestampMs(found.last_arrival_ms)
            ),
            # by a record that may lie ahead of the trim point, or behind the cut
            fencing_token="",
        )

    def cuts(self) -> list[tuple[str, int]]:
        """Streams that end earlier than in the backup, and their tails."""
        return sorted(
            (self.streams[stream_id].name, found.cut)
            for stream_id, found in self._found.items()
            if found.cut is not None
        )

    @property
    def dropped(self) -> list[str]:
        """Streams that were not there yet."""
        return sorted(self.streams[stream_id].name for stream_id in self._dropped)
