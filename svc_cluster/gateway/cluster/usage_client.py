"""What the gateway tells the cluster of its use, and asks of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.clock import Clock
from svc_cluster.base.errors import UnavailableError
from svc_cluster.codec import usage_pb
from svc_cluster.gateway.cluster.leaders import Fill
from svc_cluster.model.usage import Counts, Readings, UsageReport

DEADLINE_SECONDS: Final = 4.0
ASKED_STEPS_MAX: Final = 2_040
"""Buckets of one answer: 34 hours by the minute, as there may be in a turn of either side."""
_HOUR_SECONDS: Final = 3600
NODE_SECONDS: Final = 1.5
"""How long a node may take when all of them are asked."""


class UsageBackend(Protocol):
    """All calls raise ServiceError subclasses and nothing else. `basin` None: the account. Times
    are Unix seconds, from `start` to before `end`, in buckets of `step_seconds` (whole minutes)
    that begin at a multiple of it."""

    async def report(self, basin: str | None, report: UsageReport) -> None:
        """Returns when the report counts; sent again it counts no more. BasinNotFoundError,
        BasinDeletionPendingError, UnavailableError, ReadDeadlineError..."""
        ...

    async def usage(
        self, basin: str | None, start: int, end: int, step_seconds: int
    ) -> list[tuple[int, Counts]]:
        """Buckets with anything in them, in order. BasinNotFoundError."""
        ...

    async def storage(
        self, basin: str, stream: str | None, start: int, end: int, step_seconds: int
    ) -> Readings:
        """Metered bytes that the stream stores, or (None) the basin. Of a stream that is not there:
        nothing. BasinNotFoundError."""
        ...

    async def active_basins(self, start: int, end: int) -> set[str]:
        """Basins that had a stream in the time. UnavailableError when too few nodes answer."""
        ...


class Cluster(Protocol):
    """`gateway.cluster.directory.Directory`, as far as it is needed here."""

    async def ask_catalog(self, fill: Fill, *, write: bool, deadline: float) -> pb.Response: ...

    async def ask_basin(
        self, basin: str, fill: Fill, *, write: bool, deadline: float
    ) -> pb.Response: ...

    async def ask_every_node(self, fill: Fill, seconds: float) -> list[pb.Response | None]: ...


class UsageClient:
    """A UsageBackend over the leaders of basins and of the catalog."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock

    def _deadline(self) -> float:
        return self._clock.monotonic() + DEADLINE_SECONDS

    async def _ask(self, basin: str | None, fill: Fill, deadline: float) -> pb.Response:
        # what is asked here may be asked again: reports are numbered
        if basin is None:
            return await self._cluster.ask_catalog(fill, write=False, deadline=deadline)
        return await self._cluster.ask_basin(basin, fill, write=False, deadline=deadline)

    async def report(self, basin: str | None, report: UsageReport) -> None:
        def fill(request: pb.Request) -> None:
            usage_pb.put_report(request.report_usage, report)

        await self._ask(basin, fill, self._deadline())

    async def usage(
        self, basin: str | None, start: int, end: int, step_seconds: int
    ) -> list[tuple[int, Counts]]:
        deadline = self._deadline()
        buckets: list[tuple[int, Counts]] = []
        for begin, until in pages(start, end, step_seconds):

            def fill(request: pb.Request, begin: int = begin, until: int = until) -> None:
                request.get_usage.start = begin
                request.get_usage.end = until
                request.get_usage.step_seconds = step_seconds

            found = (await self._ask(basin, fill, deadline)).usage
            buckets += [usage_pb.get_counts(bucket) for bucket in found.buckets]
        return buckets

    async def storage(
        self, basin: str, stream: str | None, start: int, end: int, step_seconds: int
    ) -> Readings:
        deadline = self._deadline()
        before: int | None = None
        changes: list[tuple[int, int]] = []
        now: int | None = None
        for number, (begin, until) in enumerate(pages(start, end, step_seconds)):

            def fill(request: pb.Request, begin: int = begin, until: int = until) -> None:
                wanted = request.get_storage
                if stream is not None:
                    wanted.stream = stream
                wanted.start = begin
                wanted.end = until
                wanted.step_seconds = step_seconds

            found = (await self._ask(basin, fill, deadline)).storage
            if not number:
                before = found.before if found.HasField("before") else None
            changes += [(reading.at, reading.stored_bytes) for reading in found.changes]
            now = found.now if found.HasField("now") else None
        return Readings(before, tuple(changes), now)

    async def active_basins(self, start: int, end: int) -> set[str]:
        def fill(request: pb.Request) -> None:
            request.active_basins.SetInParent()
            request.active_basins.start = start
            request.active_basins.end = end

        answers = await self._cluster.ask_every_node(fill, NODE_SECONDS)
        found = [answer.active_basins for answer in answers if answer is not None]
        if 2 * len(found) <= len(answers):
            # a basin may have all its replicas on the others
            raise UnavailableError("too few nodes can be reached")
        return {name for basins in found for name in basins.basins}


def pages(start: int, end: int, step_seconds: int) -> Iterator[tuple[int, int]]:
    """The time in parts of ASKED_STEPS_MAX buckets at most, one behind the other; at least one.

    Parts meet where both an hour and a bucket begin: minutes that become an hour between two
    answers are in exactly one of them.
    """
    unit = max(step_seconds, _HOUR_SECONDS)
    length = ASKED_STEPS_MAX * step_seconds // unit * unit
    begin = start
    while True:
        until = begin // unit * unit + length
        if until >= end:
            yield begin, end
            return
        yield begin, until
        begin = until
