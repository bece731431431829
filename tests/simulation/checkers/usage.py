"""Usage adds up: what replicas count is what was appended, and what gateways told, once each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from svc_cluster.gateway.cluster.usage_client import UsageBackend
from svc_cluster.model.usage import Counts, Readings, UsageReport
from svc_cluster.stream import keys, rows
from svc_cluster.stream.batch_row import decode_placement
from svc_cluster.stream.usage_rows import decode_basin_reading, decode_reading
from tests.simulation.checkers.raft import InvariantError

USAGE_INTERVAL_S: Final = 1.0
"""Between two reports of a gateway, in virtual time."""

_counts: Final = msgspec.msgpack.Decoder(Counts).decode


@dataclass
class ReportedUsage:
    """What a gateway has tried to tell, by basin; and how much of it was answered."""

    told: dict[str | None, dict[tuple[bytes, int], UsageReport]] = field(default_factory=dict)
    answered: dict[str | None, set[tuple[bytes, int]]] = field(default_factory=dict)
    sent: int = 0
    """With repetitions."""


class SeenReports:
    """A UsageBackend that keeps a record of what goes through."""

    def __init__(self, backend: UsageBackend, seen: ReportedUsage) -> None:
        self._backend = backend
        self._seen = seen

    async def report(self, basin: str | None, report: UsageReport) -> None:
        key = (report.reporter, report.sequence)
        known = self._seen.told.setdefault(basin, {}).setdefault(key, report)
        assert known == report, "a report is sent again as it was"
        self._seen.sent += 1
        await self._backend.report(basin, report)
        self._seen.answered.setdefault(basin, set()).add(key)

    async def usage(
        self, basin: str | None, start: int, end: int, step_seconds: int
    ) -> list[tuple[int, Counts]]:
        return await self._backend.usage(basin, start, end, step_seconds)

    async def storage(
        self, basin: str, stream: str | None, start: int, end: int, step_seconds: int
    ) -> Readings:
        return await self._backend.storage(basin, stream, start, end, step_seconds)

    async def active_basins(self, start: int, end: int) -> set[str]:
        return await self._backend.active_basins(start, end)


def check_replica(pairs: Mapping[bytes, bytes], reported: Iterable[ReportedUsage]) -> None:
    """Raises InvariantError where the pairs of a basin's replica do not add up: bytes counted by
    minute against the streams' own totals, what is stored against the batches, and reports: all
    that were answered, nothing that was not told, nothing twice."""
    if keys.BASIN_KEY not in pairs:
        return
    basin = rows.decode_basin(pairs[keys.BASIN_KEY])
    total = Counts(ops={})
    for key, value in pairs.items():
        if key[0] == keys.USAGE_MINUTES_KIND:
            total.add(_counts(value))
    _check_appends(pairs, basin.next_stream_id - 1, total)
    _check_stored(pairs)
    _check_reports(basin.name, total, list(reported))


def _check_appends(pairs: Mapping[bytes, bytes], created: int, total: Counts) -> None:
    start, end = keys.streams_range()
    streams = [
        rows.decode_stream(keys.stream_of(key), value)
        for key, value in pairs.items()
        if start <= key < end
    ]
    appended = sum(stream.metered_bytes_appended for stream in streams)
    counted = total.append_bytes_standard + total.append_bytes_express
    # what was appended to streams that are gone is known from nowhere else
    if counted < appended or (len(streams) == created and counted != appended):
        raise InvariantError(f"usage-adds-up: {counted} bytes counted, {appended} appended")


def _check_stored(pairs: Mapping[bytes, bytes]) -> None:
    stored: dict[int, int] = {}
    readings: dict[int, tuple[int, int]] = {}
    for key, value in pairs.items():
        if key[0] == keys.batch_key(keys.WHOLE_BASIN, 0)[0]:
            stream_id, _ = keys.batch_key_parts(key)
            metered_bytes = decode_placement(value).metered_bytes
            stored[stream_id] = stored.get(stream_id, 0) + metered_bytes
        elif key[0] == keys.reading_key(keys.WHOLE_BASIN, 0)[0]:
            stream = int.from_bytes(key[1:9], "big")
            reading = (
                decode_basin_reading(value).stored_bytes
                if stream == keys.WHOLE_BASIN
                else decode_reading(value)
            )
            readings[stream] = max(
                readings.get(stream, (-1, 0)), (keys.reading_minute(key), reading)
            )
    stored[keys.WHOLE_BASIN] = sum(stored.values())
    for stream, amount in stored.items():
        if readings.get(stream, (0, 0))[1] != amount:
            raise InvariantError(
                f"usage-adds-up: stream {stream} stores {amount}, last read {readings.get(stream)}"
            )


def _check_reports(basin: str, total: Counts, reported: list[ReportedUsage]) -> None:
    least = most = 0
    for usage in reported:
        answered = usage.answered.get(basin, set())
        for key, report in usage.told.get(basin, {}).items():
            size = sum(_size(counts) for _, counts in report.minutes)
            most += size
            least += size if key in answered else 0
    counted = _size(total)
    if basin.startswith("churned"):
        least = 0  # an earlier basin of this name has taken some with it
    if not least <= counted <= most:
        raise InvariantError(
            f"usage-adds-up: {counted} counted of reports in {basin}, {least} to {most} told"
        )


def _size(counts: Counts) -> int:
    """All that reports tell, as one number: bytes and operations alike."""
    return (
        counts.read_ops_unary
        + counts.read_ops_streaming
        + counts.read_bytes
        + sum(counts.ops.values())
    )
