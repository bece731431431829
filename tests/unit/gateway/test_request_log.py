"""Which requests are told in the log, where their time went, and how many lines there are."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from svc_cluster.base.metrics import Metrics
from svc_cluster.gateway.cluster.backend import ReadResult
from svc_cluster.gateway.request.request_log import (
    SLOW_LINES_AT_ONCE,
    SLOW_LINES_PER_SECOND,
    RequestLine,
    RequestLog,
)
from svc_cluster.http.message import Response
from svc_cluster.model.leader_stages import LeaderStages
from tests.simulation.clock import SimClock
from tests.simulation.loop import run
from tests.unit.gateway.scripted import ReadCall, ScriptedBackend, get, make_app, nothing, records

RECORDS = "/v1/streams/s/records"


def told(
    *steps: Any,
    query: str = "seq_num=0",
    count: int = 1,
    apart_seconds: float = 0.0,
    **options: Any,
) -> tuple[list[RequestLine], int, float]:
    """The lines of so many reads, how many were left out, and what the metric says of that."""

    async def main() -> tuple[list[RequestLine], int, float]:
        metrics = Metrics()
        clock = SimClock(asyncio.get_running_loop())
        log = RequestLog(clock, metrics.request_lines_left_out, **options)
        app, _ = make_app(ScriptedBackend(list(steps)), request_log=log)
        for _ in range(count):
            response: Response = await app.handle(get(RECORDS, query))
            assert response.status == 200
            await asyncio.sleep(apart_seconds)
        counted = metrics.registry.get_sample_value("svc_request_log_left_out_total")
        assert counted is not None
        return *log.take(), counted

    found: tuple[list[RequestLine], int, float] = run(lambda loop: main())
    return found


async def late(call: ReadCall) -> ReadResult:
    """The cluster takes three seconds."""
    await asyncio.sleep(3)
    return records(0, 1, tail=1)


def test_only_what_takes_longer_is_slow_and_says_where() -> None:
    """Three seconds are slow at a bound of two, and all of them were the cluster's; at a bound of
    four, and without one, nothing is told."""
    lines, left_out, _ = told(late, slow_seconds=2.0)
    assert [line.event for line in lines] == ["request_slow"]
    assert left_out == 0
    assert lines[0].fields["duration_ms"] == pytest.approx(3000)
    assert lines[0].fields["stages_ms"]["cluster"] == pytest.approx(3000)
    assert told(late, slow_seconds=4.0) == ([], 0, 0.0)
    assert told(late) == ([], 0, 0.0)


def test_what_a_client_wants_to_wait_for_is_not_slow() -> None:
    """A long poll at the tail takes its five seconds."""
    lines, _, _ = told(nothing(0), query="seq_num=0&wait=5", slow_seconds=2.0)
    assert lines == []


async def a_little_late(call: ReadCall) -> ReadResult:
    await asyncio.sleep(0.01)
    return records(0, 1, tail=1)


def test_of_a_crowd_of_slow_requests_few_are_told() -> None:
    """All the others are counted; a second later there is room for one more."""
    slow: Any = {"slow_seconds": 0.001}
    lines, left_out, counted = told(a_little_late, count=SLOW_LINES_AT_ONCE + 10, **slow)
    assert [line.event for line in lines] == ["request_slow"] * SLOW_LINES_AT_ONCE
    assert (left_out, counted) == (10, 10.0)
    apart: Any = {"apart_seconds": 0.5 / SLOW_LINES_PER_SECOND, "count": 3 * SLOW_LINES_AT_ONCE}
    lines, left_out, _ = told(a_little_late, **apart, **slow)
    assert len(lines) + left_out == 3 * SLOW_LINES_AT_ONCE
    assert 2 * SLOW_LINES_AT_ONCE <= len(lines) <= 2.6 * SLOW_LINES_AT_ONCE


def test_lines_beyond_the_bound_of_a_second_are_counted_and_left_out() -> None:
    """Of ten requests at once four are told, and the other six counted; of ten in ten seconds all
    but those for which there is no room while nobody writes."""
    told_of = records(0, 1, tail=1)
    bound: Any = {"every_request": True, "lines_per_second_max": 4}
    lines, left_out, counted = told(told_of, count=10, **bound)
    assert [line.event for line in lines] == ["request_served"] * 4
    assert (left_out, counted) == (6, 6.0)
    lines, left_out, counted = told(told_of, count=10, apart_seconds=1.0, **bound)
    assert len(lines) == 4
    assert (left_out, counted) == (6, 6.0)
    lines, left_out, counted = told(told_of, count=10, apart_seconds=1.0, every_request=True)
    assert len(lines) == 10
    assert (left_out, counted) == (0, 0.0)


def test_what_a_leader_tells_is_taken_from_the_time_of_the_cluster() -> None:
    """Of three seconds in the cluster two and a half were the leader's, each stage by its name; the
    stages add up to the whole. A leader whose clock runs faster leaves nothing below zero."""

    async def main() -> list[RequestLine]:
        clock = SimClock(asyncio.get_running_loop())
        log = RequestLog(clock, Metrics().request_lines_left_out, slow_seconds=1.0)
        for stages in (LeaderStages(0.25, 1.0, 1.0, 0.25), LeaderStages(wal=4.0)):
            timed = log.begin(get(RECORDS))
            timed.enter("cluster")
            await asyncio.sleep(3)
            timed.led(stages)
            timed.enter("answer")
            log.made(get(RECORDS), None, timed, Response(200))
        return log.take()[0]

    first, second = run(lambda loop: main())
    assert first.fields["stages_ms"] == {
        "admission": 0.0,
        "cluster": pytest.approx(500),
        "leader_queue": 250.0,
        "leader_wal": 1000.0,
        "leader_quorum": 1000.0,
        "leader_apply": 250.0,
        "answer": 0.0,
    }
    assert first.fields["duration_ms"] == pytest.approx(3000)
    assert second.fields["stages_ms"]["cluster"] == 0.0
    assert second.fields["stages_ms"]["leader_wal"] == 4000.0
