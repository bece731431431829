"""The cluster that is backed up, asked through the administration of its nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Final

from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
from svc_cluster.administration.exporting import ExportRate
from svc_cluster.administration.operations import OPERATIONS, SERVICE
from svc_cluster.backup.backup_errors import BackupError, InterruptedSourceError
from svc_cluster.backup.coverage import RecordRange
from svc_cluster.backup.row_frames import Row, RowReader
from svc_cluster.backup.source import GroupContent, GroupUnreachableError, StreamBegins
from svc_cluster.base.clock import SystemClock
from svc_cluster.cli.admin.admin_client import AdminClient, AdminError, Target, connected

PATIENCE_SECONDS: Final = 30.0
"""How long a group may have nobody who hands it out, as while a leader is elected."""
PAUSE_SECONDS: Final = 0.3
BEGIN_SECONDS: Final = 15.0
"""How long a node may take to begin its answer: a quorum confirms it within 5 s."""
SILENCE_SECONDS: Final = 60.0
"""How long a node may say nothing within its answer: at the lowest rate a message of small rows
takes half of that. One that hangs is asked behind all others from then on."""
CONTENT_SECONDS: Final = OPERATIONS[f"/{SERVICE}/Export"].seconds_max
"""For what a group holds besides records, which is handed out in one call."""


class NodeSource:
    """Implements Source over some nodes of a cluster; use as an async context manager."""

    def __init__(
        self,
        targets: Sequence[Target],
        bytes_per_second: float,
        patience_seconds: float = PATIENCE_SECONDS,
        begin_seconds: float = BEGIN_SECONDS,
    ) -> None:
        self._targets = targets
        self._patience_seconds = patience_seconds
        self._begin_seconds = begin_seconds
        self._fruitless_since: dict[int, float] = {}
        """By group, when the first of the last answers was asked for that brought no batch."""
        self._rate = ExportRate(SystemClock(), bytes_per_second)
        self._stack = AsyncExitStack()
        self._clients: list[AdminClient] = []
        self._lucky: dict[int, int] = {}
        """Which of the nodes has answered for a group."""
        self._silent: set[int] = set()
        """Nodes that hung when they were asked last."""
        self._cluster_id: str | None = None
        """The cluster of the node that answered first; every other is to be of the same."""
        self.received_bytes = 0

    async def __aenter__(self) -> NodeSource:
        try:
            for target in self._targets:
                self._clients.append(await self._stack.enter_async_context(connected(target)))
        except AdminError as cause:
            raise BackupError(str(cause)) from cause
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def content(self, group_id: int) -> GroupContent:
        request = pb.ExportRequest(group_id=group_id)
        clock = SystemClock()
        give_up_at = clock.monotonic() + self._patience_seconds
        while True:
            refusals = []
            for place in self._order(group_id):
                try:
                    content = await self._content(place, request)
                except AdminError as cause:
                    if cause.is_final:
                        raise BackupError(str(cause)) from cause
                    refusals.append(str(cause))
                else:
                    self._lucky[group_id] = place
                    return content
            if clock.monotonic() >= give_up_at:
                raise GroupUnreachableError("; ".join(refusals))
            await asyncio.sleep(PAUSE_SECONDS)

    def _order(self, group_id: int) -> list[int]:
        first = self._lucky.get(group_id, 0)
        places = [(first + place) % len(self._clients) for place in range(len(self._clients))]
        return sorted(places, key=self._silent.__contains__)

    async def _portions(
        self, place: int, request: pb.ExportRequest
    ) -> AsyncGenerator[pb.ExportPortion, None]:
        """Yield the answer of one node. Raises AdminError where it says nothing for too long, and
        BackupError where it is of another cluster: groups and streams are small numbers in every
        one, so that its records would pass for those that are wanted."""
        seconds = self._begin_seconds
        async with aclosing(self._clients[place].export(request)) as portions:
            while True:
                try:
                    async with asyncio.timeout(seconds):
                        portion = await anext(portions, None)
                except TimeoutError:
                    self._silent.add(place)
                    address = self._targets[place].address
                    raise AdminError(f"{address} said nothing for {seconds:g} s") from None
                if portion is None:
                    return
                self._silent.discard(place)
                seconds = SILENCE_SECONDS
                if portion.HasField("head"):
                    self._check_cluster(place, portion.head.cluster_id)
                yield portion

    def _check_cluster(self, place: int, cluster_id: str) -> None:
        if self._cluster_id is None:
            self._cluster_id = cluster_id
        if cluster_id != self._cluster_id:
            raise BackupError(
                f"{self._targets[place].address} is a node of the cluster {cluster_id}, and others "
                f"are of {self._cluster_id}: name nodes of one cluster"
            )

    async def _content(self, place: int, request: pb.ExportRequest) -> GroupContent:
        reader = RowReader()
        rows: list[Row] = []
        head: pb.ExportHead | None = None
        is_whole = False
        began = SystemClock().monotonic()
        try:
            async with aclosing(self._portions(place, request)) as portions:
                async for portion in portions:
                    if portion.HasField("head"):
                        head = portion.head
                    if portion.rows:
                        rows += reader.feed(portion.rows)
                        await self._spend(len(portion.rows))
                    is_whole = portion.last
        except AdminError as cause:
            if rows and SystemClock().monotonic() - began >= CONTENT_SECONDS:
                raise BackupError(
                    f"{len(rows)} rows of a group were handed out in {CONTENT_SECONDS:g} s, and "
                    "not all: raise --rate, or backup_mib_per_second of the nodes"
                ) from cause
            raise
        if head is None or not is_whole or not reader.is_whole:
            raise AdminError("a node ended its answer early")
        return GroupContent(
            head.cluster_id,
            head.group_id,
            head.applied_index,
            head.applied_term,
            head.taken_at_ms,
            head.encoding,
            tuple(head.kinds),
            tuple(rows),
        )

    async def records(
        self, group_id: int, applied_index: int, ranges: Sequence[RecordRange]
    ) -> AsyncIterator[StreamBegins | Row]:
        request = pb.ExportRequest(group_id=group_id, applied_index=applied_index)
        for each in ranges:
            request.ranges.add(stream_id=each.stream_id, first=each.first, end=each.end)
        reader = RowReader()
        is_whole = has_brought = False
        place = self._order(group_id)[0]
        began = SystemClock().monotonic()
        try:
            async with aclosing(self._portions(place, request)) as portions:
                async for portion in portions:
                    if portion.HasField("stream"):
                        begins = portion.stream
                        yield StreamBegins(begins.stream_id, begins.trim_point, begins.gone)
                    if portion.rows:
                        for row in reader.feed(portion.rows):
                            has_brought = True
                            yield row
                        await self._spend(len(portion.rows))
                    is_whole = portion.last
            if not is_whole or not reader.is_whole:
                raise AdminError("a node ended its answer early")
        except AdminError as cause:
            if cause.is_final:
                raise BackupError(str(cause)) from cause
            # another one next time
            self._lucky[group_id] = (place + 1) % len(self._clients)
            await self._bear(group_id, None if has_brought else began, cause)
            raise InterruptedSourceError(str(cause)) from cause
        self._fruitless_since.pop(group_id, None)

    async def _bear(self, group_id: int, began: float | None, cause: AdminError) -> None:
        """An answer that was asked for at `began` has brought nothing; None: it has. Raises
        GroupUnreachableError where that has been so for too long, as where a group is deleted."""
        if began is None:
            self._fruitless_since.pop(group_id, None)
        else:
            since = self._fruitless_since.setdefault(group_id, began)
            if SystemClock().monotonic() - since >= self._patience_seconds:
                raise GroupUnreachableError(str(cause)) from cause
        await asyncio.sleep(PAUSE_SECONDS)

    async def _spend(self, size: int) -> None:
        self.received_bytes += size
        await self._rate.spent(size)

    async def finished(self, finished_at_ms: int) -> None:
        for client in self._clients:
            try:
                await client.backup_taken(finished_at_ms)
            except AdminError:
                continue  # the others tell it, and the next backup tells this one
