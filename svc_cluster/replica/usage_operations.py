"""Usage on a leader: takes reports of gateways, and tells what was counted and is stored.

What it tells is linearizable, as reads are. A long time is looked through in steps, between which
others have the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import ErrorCode, MalformedError
from svc_cluster.base.ids import CATALOG_GROUP, StreamId, TimestampMs
from svc_cluster.base.key_reader import KeyReader
from svc_cluster.catalog.account_usage import sequence_report
from svc_cluster.codec import usage_pb
from svc_cluster.model import versions
from svc_cluster.model.usage import (
    DAY_MINUTES,
    KEPT_MINUTES,
    MINUTE_SECONDS,
    Counts,
    Readings,
    bucket_range,
    sum_by_step,
)
from svc_cluster.model.usage_table import UsageTable
from svc_cluster.replica.basin import BasinReplica
from svc_cluster.replica.basin_operations import Change
from svc_cluster.replica.catalog import CatalogReplica
from svc_cluster.replica.cluster_version import ClusterVersion
from svc_cluster.replica.repeatable import Fill, Operation, say_done
from svc_cluster.replica.service_session import Encoded
from svc_cluster.stream import keys, usage_requests
from svc_cluster.stream.basin_usage import BasinUsage
from svc_cluster.stream.commands import BasinCommand
from svc_cluster.stream.usage_rows import decode_basin_reading, decode_reading

ROWS_PER_STEP: Final = 256
"""Rows looked at before others have the event loop: about a millisecond."""

ANSWER_STEPS_MAX: Final = 2_048
"""Buckets of one answer, from active version 3 on: releases before ask for all at once."""

_STEP_SECONDS_MAX: Final = DAY_MINUTES * MINUTE_SECONDS
_MINUTES_MAX: Final = KEPT_MINUTES + 2 * DAY_MINUTES


class UsageOperations:
    """The operations of a node that concern usage. All but `active_basins` are a leader's."""

    def __init__(
        self,
        basin: Callable[[pb.Request], BasinReplica],
        catalog: Callable[[pb.Request], CatalogReplica],
        change: Change,
        deadline: Callable[[pb.Request], float],
        basins: Callable[[], Iterable[BasinReplica]],
        version: ClusterVersion,
    ) -> None:
        """The calls `basin` and `catalog` find what a request asks, or raise. The call `change` is
        as in Provisioning; `basins` gives all that have a replica here."""
        self._basin = basin
        self._catalog = catalog
        self._change = change
        self._deadline = deadline
        self._basins = basins
        self._version = version
        self.operations: dict[str, Operation] = {
            "report_usage": self._report_usage,
            "get_usage": self._get_usage,
            "get_storage": self._get_storage,
            "active_basins": self._active_basins,
        }

    def _minutes(self, start: int, end: int, step_seconds: int) -> tuple[int, int]:
        is_paged = self._version.active >= versions.PAGED_USAGE
        return minutes(start, end, step_seconds, ANSWER_STEPS_MAX if is_paged else _MINUTES_MAX)

    async def _report_usage(self, request: pb.Request) -> Fill:
        """Answered when the report is counted, now or before."""
        usage_pb.check_lengths(request.report_usage)
        report = usage_pb.get_report(request.report_usage)
        if request.group_id == CATALOG_GROUP:
            catalog = self._catalog(request)
            await catalog.change(
                lambda now_ms: sequence_report(catalog.state.usage, report, now_ms),
                self._deadline(request),
            )
            return say_done
        basin = self._basin(request)

        def sequence(now_ms: TimestampMs) -> BasinCommand | None:
            usage = basin.state.usage
            return basin.sequencer.decide(
                lambda view: usage_requests.report(view, usage, report, now_ms)
            )

        # what a report takes in an entry, and in the turn that applies it, goes by its length
        await self._change(request, basin, sequence, request.report_usage.ByteSize())
        return say_done

    async def _get_usage(self, request: pb.Request) -> Fill:
        wanted = request.get_usage
        first, end = self._minutes(wanted.start, wanted.end, wanted.step_seconds)
        if request.group_id == CATALOG_GROUP:
            catalog = self._catalog(request)
            await catalog.linearize()
            table = catalog.state.usage
        else:
            basin = self._basin(request)
            await basin.reader.linearize()
            table = basin.state.usage.table
        return await _encoded(await _sums(table, first, end, wanted.step_seconds))

    async def _get_storage(self, request: pb.Request) -> Fill:
        """Return nothing of a stream that is not there."""
        wanted = request.get_storage
        first, end = self._minutes(wanted.start, wanted.end, wanted.step_seconds)
        basin = self._basin(request)
        await basin.reader.linearize()
        readings = Readings()
        usage = basin.state.usage
        if not wanted.HasField("stream"):
            if usage.reading is not None:
                now = usage.reading[1].stored_bytes
                readings = await _readings(
                    usage, keys.WHOLE_BASIN, first, end, wanted.step_seconds, now
                )
        else:
            stream = basin.state.stream_by_name(wanted.stream)
            if stream is not None and usage.counts:
                now = usage.stream_reading(stream).stored_bytes
                readings = await _readings(
                    usage, stream.stream_id, first, end, wanted.step_seconds, now
                )

        def fill(response: pb.Response) -> None:
            out = response.storage
            out.SetInParent()
            if readings.before is not None:
                out.before = readings.before
            if readings.now is not None:
                out.now = readings.now
            for at, stored_bytes in readings.changes:
                out.changes.add(at=at, stored_bytes=stored_bytes)

        return fill

    async def _active_basins(self, request: pb.Request) -> Fill:
        """Return the basins that were active, as applied here: whoever wants all of them asks every
        node."""
        wanted = request.active_basins
        # the second that the time ends with counts: whoever asks knows no fractions
        start_ms, end_ms = wanted.start * 1000, wanted.end * 1000 + 1000
        names = sorted(
            basin.state.basin.name
            for basin in self._basins()
            if basin.state.basin is not None and basin.state.usage.had_streams(start_ms, end_ms)
        )

        def fill(response: pb.Response) -> None:
            response.active_basins.SetInParent()
            response.active_basins.basins.extend(names)

        return fill


def minutes(start: int, end: int, step_seconds: int, steps_max: int) -> tuple[int, int]:
    """The half-open range of minutes that the buckets of a query consist of. Raises
    MalformedError for what no gateway asks, such as more than `steps_max` buckets."""
    if (
        step_seconds % MINUTE_SECONDS
        or not MINUTE_SECONDS <= step_seconds <= _STEP_SECONDS_MAX
        or not 0 <= end - start <= _MINUTES_MAX * MINUTE_SECONDS
    ):
        raise MalformedError(ErrorCode.BAD_PROTO, "no such time to look at")
    steps = bucket_range(start, end, step_seconds)
    if len(steps) > steps_max:
        raise MalformedError(ErrorCode.BAD_PROTO, f"more than {steps_max} buckets at once")
    return steps[0] // MINUTE_SECONDS, (steps[-1] + step_seconds) // MINUTE_SECONDS


async def _sums(table: UsageTable, first: int, end: int, step_seconds: int) -> dict[int, Counts]:
    buckets: dict[int, Counts] = {}
    while True:
        rows = table.rows(first, end, ROWS_PER_STEP)
        sum_by_step(rows, step_seconds, buckets)
        if len(rows) < ROWS_PER_STEP:
            return buckets
        first = rows[-1][0] + 1
        await asyncio.sleep(0)


async def _encoded(buckets: dict[int, Counts]) -> Encoded:
    """An answer of any number of buckets, made in steps. What protobuf writes one after the other
    it reads as one message, with all of the buckets."""
    parts = [_with_buckets([])]
    ordered = sorted(buckets.items())
    for first in range(0, len(ordered), ROWS_PER_STEP):
        parts.append(_with_buckets(ordered[first : first + ROWS_PER_STEP]))
        await asyncio.sleep(0)
    return Encoded(b"".join(parts))


def _with_buckets(buckets: list[tuple[int, Counts]]) -> bytes:
    response = pb.Response()
    response.usage.SetInParent()
    for at, counts in buckets:
        usage_pb.put_counts(response.usage.buckets.add(), at, counts)
    encoded: bytes = response.SerializeToString()
    return encoded


async def _readings(
    usage: BasinUsage, stream_id: StreamId, first: int, end: int, step_seconds: int, now: int
) -> Readings:
    reader = usage.reader
    start_key, _ = keys.readings_range(stream_id)
    before = None
    for _, value in reader.scan(start_key, keys.reading_key(stream_id, first), reverse=True):
        before = _stored(stream_id, value)
        break
    changes: dict[int, int] = {}
    while True:
        rows = _reading_rows(reader, stream_id, first, end)
        for minute, stored_bytes in rows:
            changes[minute * MINUTE_SECONDS // step_seconds * step_seconds] = stored_bytes
        if len(rows) < ROWS_PER_STEP:
            return Readings(before, tuple(changes.items()), now)
        first = rows[-1][0] + 1
        await asyncio.sleep(0)


def _reading_rows(
    reader: KeyReader, stream_id: StreamId, first: int, end: int
) -> list[tuple[int, int]]:
    rows: list[tuple[int, int]] = []
    pairs = reader.scan(keys.reading_key(stream_id, first), keys.reading_key(stream_id, end))
    for key, value in pairs:
        rows.append((keys.reading_minute(key), _stored(stream_id, value)))
        if len(rows) == ROWS_PER_STEP:
            break
    return rows


def _stored(stream_id: StreamId, value: bytes) -> int:
    if stream_id == keys.WHOLE_BASIN:
        return decode_basin_reading(value).stored_bytes
    return decode_reading(value)
