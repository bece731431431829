"""Series over ninety days: asked for two days at a time, and held as numbers alone."""

from __future__ import annotations

import asyncio
import json
import random
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc_cluster.base.metrics import Metrics
from svc_cluster.gateway.api.usage_series import RANGE_SECONDS_MAX, WHOLE_BYTES_MAX
from svc_cluster.gateway.app import GatewayApp
from svc_cluster.gateway.limits.gateway_memory import GATEWAY_BYTES_MAX
from svc_cluster.gateway.usage.usage_columns import SPAN_SECONDS, Columns, spans
from svc_cluster.http.message import Request
from svc_cluster.model.usage import Counts, Readings, UsageReport
from tests.contract.memory_backend import MemoryBackend
from tests.simulation.clock import WALL_START_MS, SimClock
from tests.simulation.loop import run

MINUTES = RANGE_SECONDS_MAX // 60
END = WALL_START_MS // 86_400_000 * 86400
START = END - RANGE_SECONDS_MAX
MIB = 1024 * 1024
TWO_DAYS = 2 * 86400


class EveryMinute:
    """A UsageBackend with something in each minute; it notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []

    async def report(self, basin: str | None, report: UsageReport) -> None:
        pass

    async def usage(
        self, basin: str | None, start: int, end: int, step_seconds: int
    ) -> list[tuple[int, Counts]]:
        self.asked.append((start, end))
        first = start // step_seconds * step_seconds
        return [
            (at, Counts(append_bytes_standard=at, ops={"list-streams": 1}))
            for at in range(first, end, step_seconds)
        ]

    async def storage(
        self, basin: str, stream: str | None, start: int, end: int, step_seconds: int
    ) -> Readings:
        self.asked.append((start, end))
        return Readings(start, ((start, start + 1),), end)

    async def active_basins(self, start: int, end: int) -> set[str]:
        return set()


def ask(query: str, bytes_max: int = GATEWAY_BYTES_MAX) -> tuple[Any, EveryMinute, list[int]]:
    """The answer's JSON, what the cluster was asked, and the bytes that answers held: while the
    client had not taken it, and then."""
    backend = EveryMinute()

    async def main() -> tuple[Any, list[int]]:
        clock = SimClock(asyncio.get_running_loop())
        app = GatewayApp(
            MemoryBackend(clock),
            clock=clock,
            rng=random.Random(7),
            metrics=Metrics(),
            usage=backend,
            memory_bytes_max=bytes_max,
            body_bytes_in_flight_max=MIB,
        )
        path = "/v1/metrics/some-basin"
        response = await app.handle(Request("GET", path, query, [("svc-request", "x")]))
        held = [app.memory.answers.held_bytes]
        body = response.body
        if not isinstance(body, bytes):
            body = b"".join([piece async for piece in body])
        response.place = None
        held.append(app.memory.answers.held_bytes)
        await app.close()
        return {"status": response.status, **json.loads(body)}, held

    answer, held = run(lambda loop: main())
    return answer, backend, held


def test_ninety_days_of_minutes_are_asked_two_days_at_a_time_and_add_up() -> None:
    """All 129,600 of them, each once, in order; what they take is counted until the client has
    them, and is no more than their numbers."""
    answer, backend, held = ask(f"set=append-throughput&start={START}&end={END}&interval=minute")
    assert answer["status"] == 200
    standard, express = (metric["accumulation"] for metric in answer["values"])
    assert standard["values"] == [[at, float(at)] for at in range(START, END, 60)]
    assert (len(standard["values"]), express["values"]) == (MINUTES, [])
    assert MINUTES == 129_600
    assert all(end - start <= TWO_DAYS for start, end in backend.asked)
    assert backend.asked[0][0] == START and backend.asked[-1][1] == END
    assert held[0] == 3 * 8 * MINUTES + WHOLE_BYTES_MAX
    assert held[1] == 0


@pytest.mark.parametrize("interval", ["hour", "day"])
def test_buckets_are_told_once_though_the_time_is_cut(interval: str) -> None:
    """Of whatever length they are: no bucket has a part in two spans."""
    answer, _, _ = ask(f"set=basin-ops&start={START + 77}&end={END}&interval={interval}")
    (metric,) = answer["values"]
    told = [at for at, _ in metric["accumulation"]["values"]]
    step = {"hour": 3600, "day": 86400}[interval]
    assert told == list(range((START + 77) // step * step, END, step))


def test_what_is_stored_is_put_together_of_all_spans() -> None:
    """The first tells what was there before, the last what is there now, each its changes."""
    answer, backend, _ = ask(f"set=storage&start={START}&end={END}")
    (metric,) = answer["values"]
    values = dict(map(tuple, metric["gauge"]["values"]))
    for start, _end in backend.asked[1:]:
        assert values[start] == start + 1
        assert values[start - 3600] < start
    assert len(values) == RANGE_SECONDS_MAX // 3600


def test_more_than_ninety_days_are_refused() -> None:
    """It is told how many days were asked for, and how many may be."""
    most = "start and end are at most 90 days apart (7776000 seconds); these are"
    for more, told in (
        (1, "more than 90 days (7776001 seconds)"),
        (86_400, "91 days (7862400 seconds)"),
    ):
        answer, backend, _ = ask(f"set=append-ops&start={START - more}&end={END}")
        assert (answer["status"], answer["code"], backend.asked) == (400, "invalid", [])
        assert answer["message"] == f"{most} {told}"


def test_a_series_without_room_is_refused_and_gives_back_what_it_held() -> None:
    """Amid its spans; without effect on anybody."""
    answer, _, held = ask(
        f"set=append-throughput&start={START}&end={END}&interval=minute", 4 * MIB + MIB // 2
    )
    assert (answer["status"], answer["code"]) == (502, "hot_server")
    assert held[-1] == 0


@given(start=st.integers(0, 2**32 - 1), length=st.integers(0, RANGE_SECONDS_MAX))
def test_spans_are_the_time_cut_where_all_buckets_begin(start: int, length: int) -> None:
    """Nothing is left out or told twice; an empty time is one span."""
    cut = list(spans(start, start + length))
    assert (cut[0][0], cut[-1][1]) == (start, start + length)
    assert all(one[1] == other[0] for one, other in pairwise(cut))
    assert all(end - begin <= SPAN_SECONDS for begin, end in cut)
    assert all(begin % SPAN_SECONDS == 0 for begin, _ in cut[1:])
    assert len(cut) == 1 or all(end > begin for begin, end in cut)


def test_columns_that_begin_late_are_zero_before() -> None:
    columns = Columns(["a"])
    columns.add(60, [])
    columns.add(120, [("b", 2**64 - 1)])
    columns.add(180, [("a", 1)])
    assert columns.names == ["a", "b"]
    assert list(columns.series("a")) == [(60, 0), (120, 0), (180, 1)]
    assert list(columns.series("b")) == [(60, 0), (120, 2**64 - 1), (180, 0)]
    assert columns.held_bytes == 9 * 8
