"""What a gateway counts, and how it tells: once each, whatever becomes of the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from svc_cluster.base.clock import Clock
from svc_cluster.base.errors import (
    BasinDeletionPendingError,
    BasinNotFoundError,
    InvalidError,
    ReadDeadlineError,
    ServiceError,
    UnavailableError,
)
from svc_cluster.base.ids import TimestampMs
from svc_cluster.base.metrics import Metrics
from svc_cluster.gateway.endpoints.table import ENDPOINTS
from svc_cluster.gateway.request.endpoint import Endpoint
from svc_cluster.gateway.request.request_head import RequestHead
from svc_cluster.gateway.usage.reporter import BEFORE_QUERY_SECONDS, UsageReporter
from svc_cluster.gateway.usage.usage_ledger import APPENDING_MAX, PLACES_MAX, Place, UsageLedger
from svc_cluster.http.message import Connection, Request, Response
from svc_cluster.model.record import AppendAck, StoredBatch
from svc_cluster.model.stream_config import BasinConfig, NewStream
from svc_cluster.model.usage import (
    MINUTE_MS,
    REPORT_MINUTES_MAX,
    REPORTER_BYTES,
    Counts,
    UsageReport,
    is_report,
)
from svc_cluster.model.usage_table import REPORT_GIVEN_UP_SECONDS
from tests.contract.memory_backend import MemoryBackend
from tests.simulation.clock import WALL_START_MS, SimClock
from tests.simulation.loop import run
from tests.unit.gateway.scripted import ScriptedBackend, get, make_app, nothing, post, records

REPORTER = b"g" * REPORTER_BYTES
BASIN = "basin-0001"


class HandClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def wall_ms(self) -> TimestampMs:
        return TimestampMs(600 * MINUTE_MS + round(self.seconds * 1000))


def ledger_on(clock: Clock) -> UsageLedger:
    return UsageLedger(clock, REPORTER)


def test_a_connection_carries_one_unit_a_minute_to_each_stream() -> None:
    """Until the minute is over by the gateway's clock; one that was certainly not appended is
    carried by the next batch."""
    clock = HandClock()
    ledger = ledger_on(clock)
    one, other = object(), object()

    def units(connection: object, stream: str = "s") -> int:
        return ledger.append_units(connection, BASIN, stream)

    assert [units(one), units(one), units(other), units(one, "t"), units(one)] == [1, 0, 1, 1, 0]
    ledger.units_unused(one, BASIN, "s")
    assert [units(one), units(one)] == [1, 0]
    clock.seconds = 60
    assert [units(one), units(one)] == [1, 0]


def test_a_repeated_append_carries_no_unit_and_leaves_it_to_the_next() -> None:
    """What is answered from an outcome is in no batch: the next append of the connection is the
    first of the minute."""

    class Units(MemoryBackend):
        """Notes what each batch that is appended is to be counted as."""

        def __init__(self, clock: Clock) -> None:
            super().__init__(clock)
            self.units: list[int] = []

        async def append(  # type: ignore[override]  # as it is called here
            self, basin: str, stream: str, batch: StoredBatch, **named: Any
        ) -> AppendAck:
            self.units.append(batch.op_units)
            return await super().append(basin, stream, batch, **named)

    async def main() -> None:
        backend = Units(SimClock(asyncio.get_running_loop()))
        app, _ = make_app(backend)
        await backend.create_basin(BASIN, BasinConfig())
        await backend.create_stream(BASIN, "s", NewStream())
        connections = [Connection("10.0.0.1"), Connection("10.0.0.2")]

        async def append(number: int, *headers: tuple[str, str]) -> None:
            body = b'{"records": [{"body": ""}]}'
            request = post("/v1/streams/s/records", body, *headers)
            request.connection = connections[number]
            assert (await app.handle(request)).status == 200

        key = ("svc-request-token", "again")
        await append(0, key)
        await append(1, key)
        assert (await backend.check_tail(BASIN, "s")).seq_num == 1, "it is the same append"
        for _ in range(3):
            await append(1)
        assert (await backend.check_tail(BASIN, "s")).seq_num == 4
        # the second is answered as the first was, and is in no batch
        assert backend.units == [1, 1, 1, 0, 0]

    run(lambda _: main())


def test_connections_that_append_are_bounded() -> None:
    ledger = ledger_on(HandClock())
    for number in range(APPENDING_MAX + 1):
        assert ledger.append_units(number, BASIN, "s") == 1
    assert len(ledger._appending) == APPENDING_MAX
    assert ledger.append_units(APPENDING_MAX, BASIN, "s") == 0
    assert ledger.append_units(0, BASIN, "s") == 1


def _endpoint(operation: str) -> Endpoint:
    (endpoint,) = (row for row in ENDPOINTS if row.operation == operation)
    return endpoint


@pytest.mark.parametrize(
    ("operation", "status", "place", "op"),
    [
        ("list-basins", 200, None, "list-basins"),
        ("ensure-basin", 201, None, "create-basin"),
        ("ensure-basin", 200, None, "reconfigure-basin"),
        ("revoke-access-token", 204, None, "revoke-access-token"),
        ("account-metrics", 200, None, "account-metrics"),
        ("basin-metrics", 200, BASIN, "basin-metrics"),
        ("ensure-stream", 201, BASIN, "create-stream"),
        ("ensure-stream", 200, BASIN, "reconfigure-stream"),
        ("delete-stream", 202, BASIN, "delete-stream"),
    ],
)
def test_requests_count_by_what_they_did(
    operation: str, status: int, place: Place, op: str
) -> None:
    ledger = ledger_on(HandClock())
    head = RequestHead(Request("GET", "/", "", []), BASIN)
    ledger.served(_endpoint(operation), head, Response(404, [], b""))
    assert ledger.due() == []
    ledger.served(_endpoint(operation), head, Response(status, [], b""))
    report = ledger.next_report(place)
    assert report is not None
    assert report.minutes == ((600, Counts(ops={op: 1})),)


def test_only_a_unary_read_counts_as_a_request() -> None:
    """Appends and streams are counted where they happen, probes nowhere."""
    ledger = ledger_on(HandClock())
    head = RequestHead(Request("GET", "/", "", []), BASIN)

    async def stream() -> Any:
        yield b""

    ledger.served(_endpoint("read"), head, Response(200, [], stream()))
    ledger.served(_endpoint("append"), head, Response(200, [], b""))
    ledger.served(_endpoint("metrics"), head, Response(200, [], b""))
    assert ledger.due() == []
    ledger.served(_endpoint("read"), head, Response(200, [], b""))
    report = ledger.next_report(BASIN)
    assert report is not None
    assert report.minutes == ((600, Counts(read_ops_unary=1)),)


def test_a_report_is_the_same_until_it_is_taken() -> None:
    """What is counted meanwhile is in the next one, which has a higher number. By minute, in
    order."""
    clock = HandClock()
    ledger = ledger_on(clock)
    assert ledger.next_report(BASIN) is None
    clock.seconds = 60
    ledger.read_bytes(BASIN, 5)
    clock.seconds = 0
    ledger.read_bytes(BASIN, 3)
    first = ledger.next_report(BASIN)
    ledger.streaming_read(BASIN, 2)
    assert ledger.next_report(BASIN) is first
    assert first == UsageReport(
        REPORTER, 1, ((600, Counts(read_bytes=3)), (601, Counts(read_bytes=5)))
    )
    ledger.taken(BASIN)
    second = ledger.next_report(BASIN)
    assert second == UsageReport(REPORTER, 2, ((600, Counts(read_ops_streaming=2)),))
    ledger.taken(BASIN)
    assert ledger.due() == []


def test_an_outage_of_hours_fits_into_a_report() -> None:
    """The oldest minutes join the oldest that is told; nothing is lost."""
    clock = HandClock()
    ledger = ledger_on(clock)
    for minute in range(REPORT_MINUTES_MAX + 50):
        clock.seconds = 60.0 * minute
        ledger.read_bytes(BASIN, 1)
    report = ledger.next_report(BASIN)
    assert report is not None
    assert is_report(report, frozenset())
    assert report.minutes[0] == (650, Counts(read_bytes=51))
    assert sum(counts.read_bytes for _, counts in report.minutes) == REPORT_MINUTES_MAX + 50


def test_places_are_bounded() -> None:
    ledger = ledger_on(HandClock())
    for number in range(PLACES_MAX + 3):
        ledger.unary_read(f"basin-{number:05}")
    assert len(ledger.due()) == PLACES_MAX
    assert ledger.dropped == 3


class Cluster:
    """Takes reports as a leader does; answers as it is told."""

    def __init__(self, *answers: ServiceError | Callable[[], Any] | None) -> None:
        self.answers = list(answers)
        self.seen: list[tuple[Place, UsageReport]] = []
        self.counted = 0
        self._last = 0

    async def report(self, basin: str | None, report: UsageReport) -> None:
        self.seen.append((basin, report))
        answer = self.answers.pop(0) if self.answers else None
        is_lost = isinstance(answer, UnavailableError)
        if not is_lost and report.sequence > self._last:
            self._last = report.sequence
            self.counted += sum(counts.read_bytes for _, counts in report.minutes)
        if isinstance(answer, ServiceError):
            raise answer
        if callable(answer):
            await answer()

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


def reporting(cluster: Cluster) -> tuple[UsageLedger, UsageReporter, Metrics]:
    metrics = Metrics()
    ledger = ledger_on(SimClock(asyncio.get_running_loop()))
    return ledger, UsageReporter(ledger, cluster, metrics), metrics


def results(metrics: Metrics) -> dict[str, float]:
    return {
        sample.labels["result"]: sample.value
        for metric in metrics.usage_reports.collect()
        for sample in metric.samples
    }


def test_nothing_is_sent_while_there_is_nothing_to_tell() -> None:
    """And each interval one report to each place where there is."""

    async def body() -> None:
        cluster = Cluster()
        ledger, reporter, _ = reporting(cluster)
        reporter.start()
        await asyncio.sleep(60)
        assert cluster.seen == []
        ledger.read_bytes(BASIN, 1)
        ledger.read_bytes(BASIN, 1)
        ledger.unary_read("basin-0002")
        await asyncio.sleep(60)
        assert [place for place, _ in cluster.seen] == [BASIN, "basin-0002"]
        await reporter.close()

    run(lambda _: body())


def test_a_report_without_an_answer_is_sent_again_and_counts_once() -> None:
    """Lost on the way there, or on the way back: the same number until it is known to count."""

    async def body() -> None:
        cluster = Cluster(UnavailableError("x"), ReadDeadlineError("x"), ReadDeadlineError("x"))
        ledger, reporter, metrics = reporting(cluster)
        for _ in range(4):
            ledger.read_bytes(BASIN, 10)
            await reporter.report_all()
        assert [report.sequence for _, report in cluster.seen] == [1, 1, 1, 1, 2]
        assert cluster.counted == 40
        assert ledger.due() == []
        assert results(metrics) == {"failed": 3, "taken": 2}

    run(lambda _: body())


@pytest.mark.parametrize(
    ("refusal", "result"),
    [
        (BasinNotFoundError(), "basin_gone"),
        (BasinDeletionPendingError(), "basin_gone"),
        (InvalidError("x"), "refused"),
    ],
)
def test_what_nobody_will_ever_take_is_dropped(refusal: ServiceError, result: str) -> None:
    async def body() -> None:
        cluster = Cluster(refusal)
        ledger, reporter, metrics = reporting(cluster)
        ledger.read_bytes(BASIN, 10)
        await reporter.report_all()
        assert (ledger.due(), ledger.dropped, results(metrics)) == ([], 1, {result: 1})

    run(lambda _: body())


def test_a_report_is_given_up_before_anybody_forgets_its_number() -> None:
    async def body() -> None:
        cluster = Cluster(*[UnavailableError("x")] * 3)
        ledger, reporter, metrics = reporting(cluster)
        ledger.read_bytes(BASIN, 10)
        await reporter.report_all()
        await asyncio.sleep(REPORT_GIVEN_UP_SECONDS - 1)
        await reporter.report_all()
        assert ledger.is_due(BASIN)
        await asyncio.sleep(2)
        await reporter.report_all()
        assert (ledger.due(), results(metrics)) == ([], {"failed": 2, "given_up": 1})

    run(lambda _: body())


def test_two_that_tell_at_one_time_tell_it_once() -> None:
    """A query and the regular report: the second waits for the first, and tells what is left."""

    async def body() -> None:
        cluster = Cluster(lambda: asyncio.sleep(0.5))
        ledger, reporter, _ = reporting(cluster)
        ledger.read_bytes(BASIN, 1)

        async def later() -> None:
            await asyncio.sleep(0.1)
            ledger.read_bytes(BASIN, 2)
            await reporter.before_query(BASIN)
            assert cluster.counted == 3

        await asyncio.gather(reporter.report(BASIN), later())
        assert [report.sequence for _, report in cluster.seen] == [1, 2]

    run(lambda _: body())


def test_a_query_does_not_wait_for_long() -> None:
    """And leaves the report to be sent again."""

    async def body() -> None:
        cluster = Cluster(lambda: asyncio.sleep(60))
        ledger, reporter, _ = reporting(cluster)
        ledger.read_bytes(BASIN, 1)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        await reporter.before_query(BASIN)
        assert loop.time() - begun == BEFORE_QUERY_SECONDS
        await reporter.report(BASIN)
        assert ([report.sequence for _, report in cluster.seen], cluster.counted) == ([1, 1], 1)

    run(lambda _: body())


def test_a_gateway_that_ends_tells_the_rest() -> None:
    async def body() -> None:
        cluster = Cluster()
        ledger, reporter, _ = reporting(cluster)
        reporter.start()
        ledger.read_bytes(BASIN, 7)
        await reporter.close()
        assert cluster.counted == 7

    run(lambda _: body())


def test_a_streaming_read_is_an_operation_for_each_minute_it_has_begun() -> None:
    """Also of a client that is told nothing but heartbeats; its bytes are those it was sent."""

    async def body() -> None:
        backend = ScriptedBackend([records(0, 3, tail=3), nothing(3)])
        cluster = Cluster()
        app, _ = make_app(backend, usage=cluster)
        response = await app.handle(
            get("/v1/streams/s/records", "seq_num=0&wait=150", ("accept", "text/event-stream"))
        )
        assert not isinstance(response.body, bytes)
        async for _ in response.body:
            pass
        await app.close()
        told: dict[int, Counts] = {}
        for _, report in cluster.seen:
            for minute, counts in report.minutes:
                told.setdefault(minute, Counts(ops={})).add(counts)
        assert sum(counts.read_ops_streaming for counts in told.values()) == 3
        assert sum(counts.read_bytes for counts in told.values()) == 24
        assert sum(counts.read_ops_unary for counts in told.values()) == 0
        first = WALL_START_MS // MINUTE_MS
        assert [minute - first for minute in sorted(told)] == [0, 1, 2]

    run(lambda _: body())
