"""A cluster as backups see it: the states that real commands make, in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence

from svc_cluster.backup.backup_errors import InterruptedSourceError
from svc_cluster.backup.coverage import RecordRange
from svc_cluster.backup.row_frames import Row
from svc_cluster.backup.source import GroupContent, GroupUnreachableError, StreamBegins
from svc_cluster.base.ids import (
    CATALOG_GROUP,
    GroupId,
    LogIndex,
    NodeId,
    SeqNum,
    StreamId,
    Term,
    TimestampMs,
)
from svc_cluster.base.write_set import WriteSet
from svc_cluster.catalog.active_version import NodeVersion, RaiseActiveVersion
from svc_cluster.catalog.catalog_commands import CatalogCommand, CreateBasin, RegisterNode
from svc_cluster.catalog.catalog_state import CatalogState
from svc_cluster.codec.entry_version import Known
from svc_cluster.model import versions
from svc_cluster.model.record import BatchPlacement, TimestampingMode
from svc_cluster.model.stream_config import BasinConfig, StreamConfig
from svc_cluster.stream import keys
from svc_cluster.stream.apply import commit, plan
from svc_cluster.stream.basin_state import BasinState
from svc_cluster.stream.commands import (
    AppendCommand,
    BasinCommand,
    Bootstrap,
    CreateStream,
    ExpirePrefix,
)

AT_MS = 1_600_000_000_000
TERM = Term(3)


class Rows:
    """Ordered rows. Implements KeyReader."""

    def __init__(self, rows: Sequence[Row] = ()) -> None:
        self.rows = dict(rows)

    def get(self, key: bytes) -> bytes | None:
        return self.rows.get(key)

    def scan(self, start: bytes, end: bytes, *, reverse: bool = False) -> Iterator[Row]:
        for key in sorted(self.rows, reverse=reverse):
            if start <= key < end:
                yield key, self.rows[key]

    def write(self, write_set: WriteSet) -> None:
        for key, value, end in write_set.ops:
            if value is not None:
                self.rows[key] = value
            elif end is None:
                self.rows.pop(key, None)
            else:
                for one in [each for each in self.rows if key <= each < end]:
                    del self.rows[one]


class Basin:
    """One basin, changed by commands."""

    def __init__(self, name: str) -> None:
        self.rows = Rows()
        self.state = BasinState(self.rows)
        self.does(Bootstrap(name, BasinConfig(), TimestampMs(AT_MS), counts_usage=True))

    def does(self, *commands: BasinCommand) -> None:
        planned = plan(self.state, LogIndex(self.state.applied_index + 1), TERM, list(commands))
        self.rows.write(planned.write_set)
        commit(self.state, planned)

    def create(self, name: str) -> StreamId:
        assert self.state.basin is not None
        stream_id = self.state.basin.next_stream_id
        self.does(CreateStream(stream_id, name, StreamConfig(), TimestampMs(AT_MS)))
        return stream_id

    def append(self, stream_id: StreamId, records: bytes, *, count: int, at_ms: int) -> None:
        """One batch."""
        stream = self.state.stream(stream_id)
        assert stream is not None
        placement = BatchPlacement(
            first_seq_num=stream.tail_seq_num,
            record_count=count,
            metered_bytes=len(records),
            base_timestamp_ms=stream.last_timestamp_ms,
            arrival_ms=TimestampMs(at_ms),
            last_timestamp_ms=TimestampMs(max(at_ms, stream.last_timestamp_ms)),
            mode=TimestampingMode.CLIENT_PREFER,
            uncapped=False,
            expires_at_ms=None,
        )
        start = TimestampMs(max(at_ms, stream.last_timestamp_ms))
        self.does(AppendCommand(stream_id, placement, records, start))
        after = self.state.stream(stream_id)
        assert after is not None
        assert after.tail_seq_num == placement.end_seq_num, "the batch was taken"

    def trim(self, stream_id: StreamId, trim_point: int) -> None:
        self.does(ExpirePrefix(stream_id, SeqNum(trim_point), TimestampMs(AT_MS)))


class MemoryCluster:
    """Implements Source."""

    def __init__(self, cluster_id: str = "cluster-a", incarnations: str = "ab") -> None:
        self.cluster_id = cluster_id
        self.catalog_rows = Rows()
        self.catalog = CatalogState(self.catalog_rows)
        self.basins: dict[int, Basin] = {}
        self.finished_ms: list[int] = []
        self.read_batches = 0
        self.ends_after: int | None = None
        """An answer with records ends early behind so many batches, once."""
        self.before_records: Callable[[], None] = lambda: None
        """Runs when records are asked for."""
        for number, incarnation in enumerate(incarnations, 1):
            self.decide(RegisterNode(NodeId(number), incarnation * 32, f"n{number}:1"))

    def decide(self, command: CatalogCommand) -> None:
        planned = self.catalog.plan(LogIndex(self.catalog.applied_index + 1), TERM, [command])
        self.catalog_rows.write(planned.write_set)
        self.catalog.commit(planned)

    def raise_version(self) -> None:
        """To the newest that there is, which all of its nodes speak."""
        for version in range(versions.FIRST + 1, versions.NEWEST + 1):
            nodes = self.catalog.nodes.values()
            said = [NodeVersion(node.node_id, node.incarnation, version) for node in nodes]
            self.decide(RaiseActiveVersion(version, tuple(said)))

    def add(self, name: str) -> Basin:
        group_id = self.catalog.next_group_id
        self.decide(CreateBasin(name, group_id, (NodeId(1),), BasinConfig(), TimestampMs(AT_MS)))
        self.basins[int(group_id)] = Basin(name)
        return self.basins[int(group_id)]

    def group_of(self, name: str) -> GroupId:
        return self.catalog.basins[name].group_id

    async def content(self, group_id: int) -> GroupContent:
        known = Known()
        if group_id == CATALOG_GROUP:
            index, rows, kinds = self.catalog.applied_index, self.catalog_rows, known.catalog
        elif group_id in self.basins:
            basin = self.basins[group_id]
            index, rows, kinds = basin.state.applied_index, basin.rows, known.basin
        else:
            raise GroupUnreachableError("no such group")
        batches = (keys.batches_range(StreamId(0))[0], keys.IDEMPOTENCY_ROWS)
        is_basin = group_id != CATALOG_GROUP
        return GroupContent(
            self.cluster_id,
            group_id,
            int(index),
            int(TERM),
            AT_MS,
            known.encoding,
            tuple(sorted(kinds)),
            tuple(
                (key, value)
                for key, value in sorted(rows.rows.items())
                if not (is_basin and batches[0] <= key < batches[1])
            ),
        )

    async def records(
        self, group_id: int, applied_index: int, ranges: Sequence[RecordRange]
    ) -> AsyncIterator[StreamBegins | Row]:
        self.before_records()
        basin = self.basins[group_id]
        assert basin.state.applied_index >= applied_index
        for wanted in ranges:
            stream_id = StreamId(wanted.stream_id)
            stream = basin.state.stream(stream_id)
            if stream is None:
                yield StreamBegins(wanted.stream_id, 0, gone=True)
                continue
            yield StreamBegins(wanted.stream_id, stream.trim_point, gone=False)
            start = keys.batch_key(stream_id, max(wanted.first, stream.trim_point))
            for row in list(basin.rows.scan(start, keys.batch_key(stream_id, wanted.end))):
                if self.ends_after is not None:
                    self.ends_after -= 1
                    if self.ends_after < 0:
                        self.ends_after = None
                        raise InterruptedSourceError("cut")
                self.read_batches += 1
                yield row

    async def finished(self, finished_at_ms: int) -> None:
        self.finished_ms.append(finished_at_ms)
