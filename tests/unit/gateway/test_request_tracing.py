"""Which requests a gateway traces, and what it tells of them."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from svc_cluster.base.metrics import Metrics
from svc_cluster.base.tracing import Span
from svc_cluster.gateway.cluster.backend import ReadResult
from svc_cluster.gateway.request.request_log import RequestLog
from svc_cluster.gateway.request.request_tracing import RequestTracing
from tests.simulation.clock import SimClock
from tests.simulation.loop import run
from tests.unit.gateway.scripted import ReadCall, ScriptedBackend, get, make_app, records

RECORDS = "/v1/streams/s/records"
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Kept:
    """Spans as they are put."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.left_out = 0

    def put(self, span: Span) -> None:
        self.spans.append(span)

    def leave_out(self) -> None:
        self.left_out += 1


async def late(call: ReadCall) -> ReadResult:
    await asyncio.sleep(3)
    return records(0, 1, tail=1)


def traced(*headers: tuple[str, str], count: int = 1, step: Any = None, **options: Any) -> Kept:
    """What is told of so many reads with these headers, all within a second."""

    async def main() -> Kept:
        metrics, clock, kept = Metrics(), SimClock(asyncio.get_running_loop()), Kept()
        rng = random.Random(7)
        tracing = RequestTracing(
            clock,
            kept,
            random_bytes=rng.randbytes,
            draw=rng.random,
            left_out=kept.leave_out,
            **{"ratio": 0.0, "per_second_max": 100, **options},
        )
        log = RequestLog(clock, metrics.request_lines_left_out, tracing=tracing)
        app, _ = make_app(ScriptedBackend([step or records(0, 1, tail=1)]), request_log=log)
        for _ in range(count):
            await app.handle(get(RECORDS, "seq_num=0", *headers))
        return kept

    found: Kept = run(lambda loop: main())
    return found


def parent(flags: str) -> tuple[str, str]:
    return "traceparent", f"00-{TRACE}-{SPAN}-{flags}"


def test_a_sampled_request_is_told_under_its_callers_span() -> None:
    """With what it was, how it ended, where its time went, and the caller's state."""
    kept = traced(parent("01"), ("tracestate", "a=1"), ("tracestate", "b=2"), step=late)
    (span,) = kept.spans
    assert span.context.trace_id == bytes.fromhex(TRACE)
    assert span.parent_id == bytes.fromhex(SPAN)
    assert span.context.state == "a=1,b=2"
    assert len(span.context.span_id) == 8 and span.context.span_id != span.parent_id
    assert span.ended - span.begun == pytest.approx(3)
    assert span.name == "GET /v1/streams/{stream}/records"
    assert not span.has_failed
    about = dict(span.attributes)
    assert about.pop("svc.request_id")
    assert about.pop("svc.stage.cluster_ms") == pytest.approx(3000)
    assert {name for name in about if name.startswith("svc.stage.")}
    assert {name: value for name, value in about.items() if ".stage." not in name} == {
        "http.request.method": "GET",
        "http.route": "/v1/streams/{stream}/records",
        "http.response.status_code": 200,
        "svc.operation": "read",
        "svc.basin": "basin-0001",
        "svc.stream": "s",
    }


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (parent("00"),),
        (("traceparent", "nonsense"),),
        (parent("01"), parent("01")),
    ],
)
def test_what_is_not_said_to_be_sampled_is_not(headers: tuple[tuple[str, str], ...]) -> None:
    """Nor what cannot be understood, or is said twice."""
    assert traced(*headers, count=5).spans == []


def test_a_share_of_those_without_a_traceparent_is_sampled() -> None:
    """About the ratio of them, each a trace of its own without a span above; a caller that says
    that its trace is not sampled is obeyed."""
    kept = traced(count=400, ratio=0.25, per_second_max=1000)
    assert 70 <= len(kept.spans) <= 130
    assert {span.parent_id for span in kept.spans} == {b""}
    assert len({span.context.trace_id for span in kept.spans}) == len(kept.spans)
    assert traced(parent("00"), count=20, ratio=1.0).spans == []
    assert len(traced(count=20, ratio=1.0).spans) == 20


def test_traced_requests_of_a_second_are_bounded_whatever_callers_say() -> None:
    kept = traced(parent("01"), count=10, per_second_max=4)
    assert (len(kept.spans), kept.left_out) == (4, 6)
    kept = traced(count=10, ratio=1.0, per_second_max=4)
    assert (len(kept.spans), kept.left_out) == (4, 6)
