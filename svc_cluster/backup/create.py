"""Taking a backup: what is new of each group goes into chunks, and a manifest names all of it.

What was kept before an interruption is found again: each chunk is noted as it is kept. The manifest
comes last; until then there is no backup.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from svc_cluster.backup.backup_errors import BackupError, DamagedError, InterruptedSourceError
from svc_cluster.backup.backup_manifest import (
    CHUNK_BYTES,
    FORMAT_VERSION,
    ChunkEntry,
    GroupEntry,
    GroupPart,
    Manifest,
    Progress,
    encode,
)
from svc_cluster.backup.catalog_rows import CatalogContentRows, read_catalog
from svc_cluster.backup.chunk import BatchChunkBuilder, placed
from svc_cluster.backup.continued import Continued
from svc_cluster.backup.coverage import RecordRange, first_of, missing, still_wanted, streams_of
from svc_cluster.backup.publish import Publisher
from svc_cluster.backup.row_frames import frame
from svc_cluster.backup.source import (
    RANGES_AT_ONCE,
    GroupContent,
    GroupUnreachableError,
    Source,
    StreamBegins,
)
from svc_cluster.backup.vault import CHUNKS, PARTS, Vault
from svc_cluster.base.clock import Clock
from svc_cluster.base.ids import CATALOG_GROUP
from svc_cluster.stream import keys
from svc_cluster.stream.rows import StreamState, decode_basin

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Creation:
    """How a backup is to be taken."""

    release: str
    is_full: bool = False
    """Nothing of earlier backups is used."""
    chunk_bytes: int = CHUNK_BYTES


@dataclass(slots=True)
class _Fetched:
    """The batches of one group as they come."""

    streams: dict[int, StreamState]
    chunks: list[ChunkEntry]
    trimmed: dict[int, int] = field(default_factory=dict)


class BackupRun:
    """One backup. `run` once."""

    def __init__(
        self, vault: Vault, source: Source, clock: Clock, creation: Creation, say: Say
    ) -> None:
        self._vault = vault
        self._source = source
        self._clock = clock
        self._creation = creation
        self._say = say
        self._publisher = Publisher(vault)
        self._nodes: tuple[tuple[int, str], ...] = ()
        self._noted: list[str] = []
        """Notes of progress, which are of no use once the backup is there."""

    async def run(self) -> Manifest:
        """Take it and return what it is. Raises BackupError, with nothing half done that counts."""
        started_at_ms = self._clock.wall_ms()
        await self._publisher.begin()
        there: set[str] = set()
        for folder in (PARTS, CHUNKS):
            there.update(each.name for each in await self._vault.store.list(folder))
        warning = self._vault.store.bounds.warning(len(there), self._vault.store.place)
        if warning is not None:
            self._say(warning)
        content = await self._content(CATALOG_GROUP)
        catalog = read_catalog(content.rows)
        self._nodes = catalog.nodes
        continued = Continued(
            self._vault,
            self._source,
            self._say,
            self._nodes,
            there,
            is_full=self._creation.is_full,
        )
        part = await self._part_of(content, ())
        entry = GroupEntry(
            content.group_id, "", content.applied_index, content.taken_at_ms, part, 0, 0, 0
        )
        basins, missed = await self._basins(catalog, continued)
        await self._check_version(catalog.active_version)
        numbers = await self._vault.numbers()
        manifest = Manifest(
            FORMAT_VERSION,
            (numbers[-1] if numbers else 0) + 1,
            self._vault.file.vault_id,
            content.cluster_id,
            self._creation.release,
            started_at_ms,
            self._clock.wall_ms(),
            self._nodes,
            entry,
            tuple(basins),
            tuple(missed),
            self._vault.written_bytes,
        )
        await self._publisher.publish(manifest)
        for name in (*self._noted, *continued.notes):
            await self._vault.store.delete(name)
        await self._source.finished(manifest.finished_at_ms)
        return manifest

    async def _basins(
        self, catalog: CatalogContentRows, continued: Continued
    ) -> tuple[list[GroupEntry], list[str]]:
        base = await continued.base()
        known = {} if base is None else {entry.group_id: entry for entry in base.basins}
        basins: list[GroupEntry] = []
        missed: list[str] = []
        for record in catalog.basins:
            if record.deleted_at_ms is not None:
                continue
            try:
                before = known.get(record.group_id)
                entry = await self._basin(record.group_id, record.name, before, continued)
            except GroupUnreachableError as cause:
                if await self._is_there(record.group_id):
                    raise BackupError(
                        f"basin {record.name} cannot be read ({cause}): bring its nodes back, and "
                        "repeat"
                    ) from cause
                entry = None
            if entry is None:
                missed.append(record.name)
                self._say(f"{record.name}: created or deleted meanwhile, not in this backup")
            else:
                basins.append(entry)
        return basins, missed

    async def _check_version(self, before: int) -> None:
        """Raises BackupError where the active version has risen since. Basins that were read later
        than the catalog may hold rows of it, and a restore goes by the catalog's."""
        now = read_catalog((await self._content(CATALOG_GROUP)).rows).active_version
        if now > before:
            raise BackupError(
                f"the cluster's active version rose from {before} to {now} while it was taken: "
                "repeat the backup"
            )

    async def _is_there(self, group_id: int) -> bool:
        catalog = read_catalog((await self._content(CATALOG_GROUP)).rows)
        return any(
            record.group_id == group_id and record.deleted_at_ms is None
            for record in catalog.basins
        )

    async def _content(self, group_id: int) -> GroupContent:
        try:
            content = await self._source.content(group_id)
        except GroupUnreachableError as cause:
            if group_id == CATALOG_GROUP:
                raise BackupError(f"the catalog cannot be read: {cause}") from cause
            raise
        if content.cluster_id != self._vault.file.cluster_id:
            raise BackupError(
                f"{self._vault.store.place} has backups of the cluster "
                f"{self._vault.file.cluster_id}, and this is {content.cluster_id}: choose another "
                "place, one for each cluster"
            )
        return content

    async def _basin(
        self, group_id: int, name: str, before: GroupEntry | None, continued: Continued
    ) -> GroupEntry | None:
        """None: it has not begun, so that nobody has been told that it is there, or it is sealed.
        A basin is that while it is being deleted, and would be restored as one that takes no
        write."""
        content = await self._content(group_id)
        head = next((value for key, value in content.rows if key == keys.BASIN_KEY), None)
        if head is None or decode_basin(head).sealed_at_ms is not None:
            return None
        known = await continued.known(before)
        if before is not None and continued.is_unchanged(known, content):
            self._say(f"{name}: nothing has changed")
            return before
        streams = streams_of(name, content.rows)
        held = await continued.held(name, content, before, known, streams)
        fetched = _Fetched(streams, list(still_wanted(streams, held)))
        await self._fetch(content, fetched)
        chunks = still_wanted(streams, fetched.chunks)
        part = await self._part_of(content, chunks, fetched.trimmed)
        records = sum(
            stream.tail_seq_num - first_of(stream, fetched.trimmed) for stream in streams.values()
        )
        stored = sum(chunk.stored_bytes for chunk in chunks)
        self._say(
            f"{name}: {len(streams)} streams, {records} records up to index {content.applied_index}"
        )
        return GroupEntry(
            group_id,
            name,
            content.applied_index,
            content.taken_at_ms,
            part,
            len(streams),
            records,
            stored,
        )

    async def _part_of(
        self,
        content: GroupContent,
        chunks: Sequence[ChunkEntry],
        trimmed: dict[int, int] | None = None,
    ) -> str:
        part = GroupPart(
            FORMAT_VERSION,
            content.group_id,
            content.applied_index,
            content.applied_term,
            content.taken_at_ms,
            content.encoding,
            content.kinds,
            b"".join(frame(*row) for row in content.rows),
            tuple(chunks),
            trimmed or {},
        )
        return await self._vault.keep(PARTS, encode(part))

    # -- batches

    async def _fetch(self, content: GroupContent, fetched: _Fetched) -> None:
        """Until nothing is missing. What an answer brought before it ended early is kept."""
        builder = BatchChunkBuilder(self._creation.chunk_bytes)
        while wanted := missing(fetched.streams, fetched.chunks, fetched.trimmed):
            reached = {each.stream_id: each.first for each in wanted}
            # what answers bring that end early is kept; one that brings nothing is up to the source
            with contextlib.suppress(InterruptedSourceError):
                for first in range(0, len(wanted), RANGES_AT_ONCE):
                    some = wanted[first : first + RANGES_AT_ONCE]
                    await self._take(content, some, fetched, builder, reached)
            if not builder.is_empty:
                await self._keep(content, fetched, builder)

    async def _take(
        self,
        content: GroupContent,
        ranges: Sequence[RecordRange],
        fetched: _Fetched,
        builder: BatchChunkBuilder,
        reached: dict[int, int],
    ) -> None:
        ends = {each.stream_id: each.end for each in ranges}
        now: StreamBegins | None = None
        async for item in self._source.records(content.group_id, content.applied_index, ranges):
            if isinstance(item, StreamBegins):
                _close(now, ends, reached, fetched)
                now = item
                continue
            stream_id, placement = placed(*item)
            if now is None or stream_id != now.stream_id or stream_id not in ends:
                raise DamagedError(f"a node gave a batch of stream {stream_id}, and was not asked")
            first, end = int(placement.first_seq_num), int(placement.end_seq_num)
            if first > reached[stream_id]:
                if first > now.trim_point:
                    raise _lacks(content, stream_id, reached[stream_id])
                # trimmed since, and not only in part
                fetched.trimmed[stream_id] = first
            elif end <= reached[stream_id] or end > ends[stream_id]:
                raise DamagedError(f"a node gave records of stream {stream_id} out of their order")
            builder.add(stream_id, placement, item)
            reached[stream_id] = end
            if builder.is_full:
                await self._keep(content, fetched, builder)
        _close(now, ends, reached, fetched)
        for stream_id, end in ends.items():
            if reached[stream_id] != end:
                raise _lacks(content, stream_id, reached[stream_id])

    async def _keep(
        self, content: GroupContent, fetched: _Fetched, builder: BatchChunkBuilder
    ) -> None:
        data, extents = builder.take()
        name = await self._vault.keep(CHUNKS, data)
        chunk = ChunkEntry(name, len(data), extents)
        progress = Progress(FORMAT_VERSION, content.group_id, self._nodes, chunk)
        self._noted.append(await self._vault.note_progress(progress))
        fetched.chunks.append(chunk)


def _close(
    stream: StreamBegins | None,
    ends: dict[int, int],
    reached: dict[int, int],
    fetched: _Fetched,
) -> None:
    """The rows of a stream are over: what is not there any more is not missing."""
    if stream is None or stream.stream_id not in ends:
        return
    end = ends[stream.stream_id]
    if stream.gone or stream.trim_point >= end:
        fetched.trimmed[stream.stream_id] = reached[stream.stream_id] = end


def _lacks(content: GroupContent, stream_id: int, first: int) -> DamagedError:
    return DamagedError(
        f"group {content.group_id}, stream {stream_id}: the node does not have the records from "
        f"{first} on: its scrub will find the replica damaged; repeat the backup then"
    )
