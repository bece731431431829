"""What is kept already of a group, and may be gone on with.

A cluster whose data directories were all put back to an earlier state has the same directories and
may have gone on differently: what is kept is used only where its end is in the group's own history.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from svc_cluster.backup.backup_errors import DamagedError, InterruptedSourceError
from svc_cluster.backup.backup_manifest import ChunkEntry, GroupEntry, GroupPart, Manifest
from svc_cluster.backup.chunk import batches_of, placed
from svc_cluster.backup.coverage import RecordRange, still_wanted, streams_of
from svc_cluster.backup.row_frames import Row, rows_of
from svc_cluster.backup.source import RANGES_AT_ONCE, GroupContent, Source, StreamBegins
from svc_cluster.backup.vault import Vault
from svc_cluster.model.record import BatchPlacement
from svc_cluster.stream import keys
from svc_cluster.stream.batch_row import metered_before
from svc_cluster.stream.rows import StreamState

_End = tuple[int, int, int | None, int]
"""Where a stream ends: the record behind its last one, the last timestamp, when the last batch
arrived, and the metered bytes of all."""


@dataclass(frozen=True, slots=True)
class _LastBatch:
    """The last batch that is kept of a stream."""

    wanted: RecordRange
    digest: bytes
    end: _End


class Continued:
    """Earlier backups, published or not, as far as one of these data directories goes on with them.
    `there`: the names of parts and chunks that the place has."""

    def __init__(
        self,
        vault: Vault,
        source: Source,
        say: Callable[[str], None],
        nodes: tuple[tuple[int, str], ...],
        there: set[str],
        *,
        is_full: bool,
    ) -> None:
        self._vault = vault
        self._source = source
        self._say = say
        self._nodes = nodes
        self._there = there
        self._is_full = is_full
        self.notes: list[str] = []
        """Notes of progress, which are of no use once the backup is there."""

    async def base(self) -> Manifest | None:
        """The last backup, where it is of these very data directories. Another cluster may have
        gone on differently from the same records, as one does that was restored from a backup."""
        last = None if self._is_full else await self._vault.last(self._say)
        if last is None:
            return None
        if not set(last.nodes) & set(self._nodes):
            self._say(
                "the data directories are all other ones than those of the last backup: all "
                "records are taken anew"
            )
            return None
        return last

    async def known(self, before: GroupEntry | None) -> GroupPart | None:
        """What the last backup says of a group, where that can be read."""
        if before is None:
            return None
        try:
            return await self._vault.part(before)
        except DamagedError as cause:
            self._say(f"{before.basin}: {cause}: its records are taken anew")
            return None

    def is_unchanged(self, known: GroupPart | None, content: GroupContent) -> bool:
        """Whether what is kept is all there is."""
        return (
            known is not None
            and known.applied_index == content.applied_index
            and _is_same_history(known, content)
            and self._there.issuperset(chunk.name for chunk in known.chunks)
        )

    async def held(
        self,
        name: str,
        content: GroupContent,
        before: GroupEntry | None,
        known: GroupPart | None,
        streams: Mapping[int, StreamState],
    ) -> list[ChunkEntry]:
        """The chunks of a basin that are used again."""
        notes = await self._noted(name, content.group_id)
        if before is not None and went_back(before, known, content):
            self._say(
                f"{name}: the last backup has it up to index {before.applied_index}, and it is at "
                f"{content.applied_index} now: its data directories were put back, and all its "
                "records are taken anew"
            )
            await self._forget(notes)
            return []
        old = [] if known is None else [each for each in known.chunks if each.name in self._there]
        same = _same_ends(name, known, streams)
        # each for itself: the notes may be of an attempt that did not go on with that backup
        kept = await self._agreeing(name, content, streams, old, same)
        names = {chunk.name for chunk in old}
        new = [chunk for chunk in notes.values() if chunk.name not in names]
        agreeing = await self._agreeing(name, content, streams, new, set())
        left = {chunk.name for chunk in agreeing}
        await self._forget(note for note, chunk in notes.items() if chunk.name not in names | left)
        return [*kept, *agreeing]

    async def _noted(self, name: str, group_id: int) -> dict[str, ChunkEntry]:
        """The chunks of unfinished backups by the names of their notes. A damaged note is said and
        taken away, so that it can be written anew; a full backup looks into none."""
        found = {}
        for note in await self._vault.notes(group_id):
            self.notes.append(note)
            if self._is_full:
                continue
            try:
                progress = await self._vault.progress(note)
            except DamagedError as cause:
                self._say(f"{name}: {cause}: what it was about is taken anew")
                await self._vault.store.delete(note)
                continue
            if (
                progress is not None
                and set(progress.nodes) & set(self._nodes)
                and progress.chunk.name in self._there
            ):
                found[note] = progress.chunk
        return found

    async def _forget(self, notes: Iterable[str]) -> None:
        """What does not go on in this attempt must not in the next one, beside what this one
        keeps."""
        for note in notes:
            await self._vault.store.delete(note)

    async def _agreeing(
        self,
        name: str,
        content: GroupContent,
        streams: Mapping[int, StreamState],
        chunks: Sequence[ChunkEntry],
        same: set[int],
    ) -> list[ChunkEntry]:
        """Those of the chunks in which every stream is the one that the group has now, as its last
        batch in any of them tells. `same`: streams that are known to be."""
        left = list(still_wanted(streams, chunks))
        while True:
            ends = _ends(left, streams, same)
            last, damaged = await self._last_batches(left, ends)
            if not damaged:
                break
            self._say(f"{name}: {damaged[0]}: its records are taken anew")
            left = [chunk for chunk in left if chunk.name != damaged[1]]
        other = ends.keys() - last.keys()
        asked = {
            stream_id: batch
            for stream_id, batch in last.items()
            if batch.end != _end_of(streams[stream_id])
        }
        other |= await self._differing(content, asked)
        if other:
            self._say(
                f"{name}: {len(other)} streams do not go on from what is kept of them: their "
                "records are taken anew"
            )
        return [chunk for chunk in left if not other & {extent[0] for extent in chunk.extents}]

    async def _last_batches(
        self, chunks: Sequence[ChunkEntry], ends: Mapping[int, tuple[int, str]]
    ) -> tuple[dict[int, _LastBatch], tuple[str, str] | None]:
        """The batches that end there, one chunk in memory at a time; or what is wrong with a chunk,
        and its name."""
        found: dict[int, _LastBatch] = {}
        needed: dict[str, set[int]] = {}
        for stream_id, (_, name) in ends.items():
            needed.setdefault(name, set()).add(stream_id)
        for chunk in chunks:
            wanted = needed.get(chunk.name)
            if wanted is None:
                continue
            try:
                data = await self._vault.read(chunk.name)
                for stream_id, placement, row in batches_of(chunk, data):
                    if stream_id in wanted and int(placement.end_seq_num) == ends[stream_id][0]:
                        found[stream_id] = _last_batch(stream_id, placement, row)
            except DamagedError as cause:
                return {}, (str(cause), chunk.name)
        return found, None

    async def _differing(self, content: GroupContent, asked: Mapping[int, _LastBatch]) -> set[int]:
        """The streams of which the group gives another batch there, or none."""
        differing: set[int] = set()
        ranges = [asked[stream_id].wanted for stream_id in sorted(asked)]
        for first in range(0, len(ranges), RANGES_AT_ONCE):
            some = ranges[first : first + RANGES_AT_ONCE]
            while (given := await self._given(content, some)) is None:
                pass
            differing |= {
                each.stream_id
                for each in some
                if given.get(each.stream_id) != [asked[each.stream_id].digest]
            }
        return differing

    async def _given(
        self, content: GroupContent, ranges: Sequence[RecordRange]
    ) -> dict[int, list[bytes]] | None:
        """The digests of the batches of these ranges; None: the answer ended early."""
        found: dict[int, list[bytes]] = {}
        rows = self._source.records(content.group_id, content.applied_index, ranges)
        try:
            async for item in rows:
                if not isinstance(item, StreamBegins):
                    found.setdefault(placed(*item)[0], []).append(_digest(item))
        except InterruptedSourceError:
            return None
        return found


def went_back(before: GroupEntry, known: GroupPart | None, content: GroupContent) -> bool:
    """Whether a group is at an earlier place of its log than it was, or at a place that this log
    cannot have. Neither the index nor the term of what is applied ever decreases, and of one index
    there is one history. Pure."""
    if content.applied_index < before.applied_index:
        return True
    if known is None:
        return False
    if content.applied_index == before.applied_index:
        return not _is_same_history(known, content)
    return content.applied_term < known.applied_term


def _is_same_history(known: GroupPart, content: GroupContent) -> bool:
    """Whether both have applied the very same entries, by the row that has a digest of all of them.
    Index and term do not tell: disks that were put back may come to the same term once more, by
    another election, and to the same index with other records."""
    try:
        before = _applied_row(rows_of(known.rows))
    except DamagedError:
        return False
    return before is not None and before == _applied_row(content.rows)


def _applied_row(rows: Iterable[Row]) -> bytes | None:
    return next((value for key, value in rows if key == keys.APPLIED_KEY), None)


def _same_ends(name: str, known: GroupPart | None, streams: Mapping[int, StreamState]) -> set[int]:
    """The streams to which nothing was appended since."""
    if known is None:
        return set()
    try:
        before = streams_of(name, rows_of(known.rows))
    except DamagedError:
        return set()
    return {
        stream_id
        for stream_id, stream in streams.items()
        if stream_id in before and _end_of(stream) == _end_of(before[stream_id])
    }


def _ends(
    chunks: Iterable[ChunkEntry], streams: Mapping[int, StreamState], same: set[int]
) -> dict[int, tuple[int, str]]:
    """By stream, where the last kept record ends that it may still have, and the chunk."""
    found: dict[int, tuple[int, str]] = {}
    for chunk in chunks:
        for stream_id, _, end in chunk.extents:
            stream = streams.get(stream_id)
            if stream is None or stream_id in same or end <= stream.trim_point:
                continue
            if stream_id not in found or end > found[stream_id][0]:
                found[stream_id] = (end, chunk.name)
    return found


def _end_of(stream: StreamState) -> _End:
    return (
        int(stream.tail_seq_num),
        int(stream.last_timestamp_ms),
        stream.last_arrival_ms,
        stream.metered_bytes_appended,
    )


def _last_batch(stream_id: int, placement: BatchPlacement, row: Row) -> _LastBatch:
    first, end = int(placement.first_seq_num), int(placement.end_seq_num)
    metered = metered_before(row[1]) + placement.metered_bytes
    ends = (end, int(placement.last_timestamp_ms), placement.arrival_ms, metered)
    return _LastBatch(RecordRange(stream_id, first, end), _digest(row), ends)


def _digest(row: Row) -> bytes:
    hasher = hashlib.blake2b(row[0], digest_size=20)
    hasher.update(row[1])
    return hasher.digest()
