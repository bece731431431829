"""What a node may hold at most, or more than any page shows, put into its logs at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import CATALOG_GROUP, GroupId, NodeId, SeqNum, StreamId, TimestampMs
from svc_cluster.catalog.account_usage import ReportAccountUsage
from svc_cluster.catalog.catalog_commands import CreateBasin
from svc_cluster.catalog.token_commands import IssueToken
from svc_cluster.catalog.token_table import TOKENS_MAX
from svc_cluster.codec.catalog_entry import encode_catalog_entry
from svc_cluster.model.access import ROOT_SCOPE, Scope, prefix
from svc_cluster.model.access_token import NO_PARENT, AccessToken
from svc_cluster.model.record import BatchPlacement, TimestampingMode
from svc_cluster.model.stream_config import BasinConfig, StreamConfig
from svc_cluster.model.usage import (
    ACCOUNT_OPS,
    BASIN_OPS,
    DAY_MINUTES,
    MINUTE_MS,
    REPORT_MINUTES_MAX,
    REPORTER_BYTES,
    Counts,
    UsageReport,
)
from svc_cluster.stream.commands import AppendCommand, CreateStream, IdempotentWrite, ReportUsage
from tests.at_once import encode_entry
from tests.integration.turns import Full, propose

STREAMS: Final = 12_000
BASINS: Final = 10_000
BATCHES: Final = 20_000
"""Of one stream, each of one small record, and each in a minute of its own."""
OUTCOMES: Final = 5_000
MINUTES: Final = 30 * DAY_MINUTES
"""With something counted in each of them: what a query reaches."""
REPORTERS: Final = 500
DOOMED: Final = 12
"""Basins of their own for what ends a basin."""

ELSEWHERE: Final = (NodeId(2),)
BASIN: Final = "full-basin"
MANY: Final = "many-batches"
OF_AN_ENTRY: Final = 500
REPORTS_OF_AN_ENTRY: Final = 20


def stream_name(number: int) -> str:
    """Long, as names may be; in the order of the numbers."""
    return f"{number:05d}" + "n" * 395


def basin_name(number: int) -> str:
    return f"b{number:05d}" + "-x" * 21


def token_id(number: int) -> str:
    return f"t{number:05d}" + "i" * 90


def doomed_name(number: int) -> str:
    return f"doomed-basin-{number:03d}"


@dataclass
class Content:
    """Where things are."""

    group_id: GroupId
    doomed: list[GroupId]
    many: StreamId
    first_minute: int
    term: int
    """Of the catalog's leader."""
    serials: range
    """Of the tokens; the first has issued all others."""


def pieces(commands: Sequence[Any], encode: Any, size: int = OF_AN_ENTRY) -> Iterator[bytes]:
    for first in range(0, len(commands), size):
        yield encode(commands[first : first + size])


async def fill(full: Full) -> Content:
    """A catalog and a basin at their limits, led by this node, flushed to the tables."""
    await _create(full, BASIN)
    for number in range(DOOMED):
        await _create(full, doomed_name(number))
    host = full.node.host
    records = host.catalog.state.basins  # type: ignore[union-attr]
    group_id = records[BASIN].group_id
    await _fill_catalog(full)
    now_ms = TimestampMs(full.node.services.clock.wall_ms())
    first_minute = now_ms // MINUTE_MS - MINUTES + 60
    await _fill_usage(full, group_id, first_minute)
    many = await _fill_streams(full, group_id, first_minute)
    await _fill_outcomes(full, group_id, now_ms)
    await full.flushed()
    doomed = [records[doomed_name(number)].group_id for number in range(DOOMED)]
    term = host.catalog.group.engine.term  # type: ignore[union-attr]
    return Content(group_id, doomed, many, first_minute, term, range(1, TOKENS_MAX - 100))


async def _create(full: Full, name: str) -> None:
    request = pb.Request(group_id=CATALOG_GROUP, deadline_ms=20_000)
    request.create_basin.basin = name
    request.create_basin.authentication_off.SetInParent()
    answer = await full.ask(request)
    assert answer.WhichOneof("result") == "basin", answer
    ready = pb.Request(group_id=answer.basin.group_id, deadline_ms=20_000)
    ready.await_basin.basin = name
    async with asyncio.timeout(20):
        while (await full.ask(ready)).WhichOneof("result") == "refusal":
            await asyncio.sleep(0.01)


async def _fill_catalog(full: Full) -> None:
    catalog = full.node.host.catalog
    assert catalog is not None
    first = catalog.state.next_group_id
    basins = [
        CreateBasin(basin_name(n), GroupId(first + n), ELSEWHERE, BasinConfig(), TimestampMs(n + 1))
        for n in range(BASINS)
    ]
    scope = Scope(
        prefix("b" * 40), prefix("s" * 400), prefix("t" * 90), ROOT_SCOPE.op_groups, ROOT_SCOPE.ops
    )
    tokens = [
        IssueToken(
            AccessToken(0, token_id(n), n.to_bytes(32, "big"), 1 if n else NO_PARENT, scope),
            TimestampMs(1),
        )
        for n in range(TOKENS_MAX - 101)
    ]
    reports = [
        ReportAccountUsage(TimestampMs(1), report(n, 1, [1], ACCOUNT_OPS)) for n in range(REPORTERS)
    ]
    entries = [
        *pieces(basins, encode_catalog_entry),
        *pieces(tokens, encode_catalog_entry),
        *pieces(reports, encode_catalog_entry),
    ]
    await propose(full, CATALOG_GROUP, entries)
    assert len(catalog.state.tokens) == TOKENS_MAX - 101
    assert len(catalog.state.basins) > BASINS


def report(
    reporter: int, sequence: int, minutes: Sequence[int], ops: frozenset[str]
) -> UsageReport:
    counts = Counts(0, 0, 0, 0, 3, 4, 5_000_000, dict.fromkeys(sorted(ops), 7))
    return UsageReport(
        reporter.to_bytes(REPORTER_BYTES, "big"),
        sequence,
        tuple((minute, counts) for minute in minutes),
    )


async def _fill_usage(full: Full, group_id: GroupId, first_minute: int) -> None:
    told = []
    for sequence, first in enumerate(range(0, MINUTES, REPORT_MINUTES_MAX), start=1):
        minutes = range(first_minute + first, first_minute + first + REPORT_MINUTES_MAX)
        # few operations in most minutes: the answer of all of them must fit a message
        counted = report(1, sequence, minutes, frozenset())
        told.append(ReportUsage(TimestampMs(minutes[-1] * MINUTE_MS), counted))
    told += [
        ReportUsage(TimestampMs(1), report(n + 2, 1, [first_minute], BASIN_OPS))
        for n in range(REPORTERS)
    ]
    await propose(full, group_id, pieces(told, encode_entry, REPORTS_OF_AN_ENTRY))


async def _fill_streams(full: Full, group_id: GroupId, first_minute: int) -> StreamId:
    state = full.node.host.basins[group_id].state
    assert state.basin is not None
    first = state.basin.next_stream_id
    at_ms = TimestampMs(first_minute * MINUTE_MS)
    config = StreamConfig()
    names = [MANY, *map(stream_name, range(STREAMS))]
    creations = [
        CreateStream(StreamId(first + n), name, config, at_ms) for n, name in enumerate(names)
    ]
    many = StreamId(first)
    batches = []
    before = TimestampMs(0)
    for n in range(BATCHES):
        arrival = TimestampMs((first_minute + n) * MINUTE_MS)
        place = BatchPlacement(
            SeqNum(n), 1, 30, before, arrival, arrival, TimestampingMode.ARRIVAL, False, None
        )
        batches.append(AppendCommand(many, place, b"r" * 30, arrival))
        before = arrival
    await propose(
        full, group_id, [*pieces(creations, encode_entry), *pieces(batches, encode_entry)]
    )
    stream = state.stream(many)
    assert stream is not None and stream.tail_seq_num == BATCHES
    return many


async def _fill_outcomes(full: Full, group_id: GroupId, now_ms: TimestampMs) -> None:
    writes = [
        IdempotentWrite(n.to_bytes(32, "big"), TimestampMs(now_ms - OUTCOMES + n), b"a" * 100)
        for n in range(OUTCOMES)
    ]
    await propose(full, group_id, list(pieces(writes, encode_entry)))
    assert full.node.host.basins[group_id].state.idempotency.count == OUTCOMES
