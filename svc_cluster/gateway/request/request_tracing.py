"""Which requests are sampled, and what a trace tells of them at the gateway.

A caller that says in its `traceparent` whether its trace is sampled is obeyed, as far as there is
room; of the others a share is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from svc_cluster.base.clock import Clock
from svc_cluster.base.tracing import (
    SPAN_ID_BYTES,
    TRACE_ID_BYTES,
    Attribute,
    Span,
    SpanKind,
    SpanSink,
    TraceContext,
    bounded,
    parse_traceparent,
    parse_tracestate,
)
from svc_cluster.http.message import Request

SERVER_ERRORS: Final = 500
"""The least status that makes a span one that failed."""


@dataclass(frozen=True, slots=True)
class RequestTrace:
    """A sampled request: the gateway's own span, and that of its caller."""

    context: TraceContext
    parent_id: bytes
    begun: float


class RequestTracing:
    """The traces of one gateway's requests."""

    def __init__(
        self,
        clock: Clock,
        sink: SpanSink,
        *,
        random_bytes: Callable[[int], bytes],
        draw: Callable[[], float],
        left_out: Callable[[], None],
        ratio: float,
        per_second_max: int,
    ) -> None:
        """`draw` gives a number from 0 to below 1. `ratio`: the share of requests without a
        `traceparent` that are sampled. At most `per_second_max` requests are in a second, whatever
        callers say; `left_out` is called for the others."""
        self._clock = clock
        self._sink = sink
        self._random = random_bytes
        self._draw = draw
        self._left_out = left_out
        self._ratio = ratio
        self._per_second_max = per_second_max
        self._second = -1
        self._in_second = 0

    def begin(self, request: Request) -> RequestTrace | None:
        """A request comes; None: it is not sampled."""
        text = request.header("traceparent")
        given = None if text is None else parse_traceparent(text)
        if given is not None and sum(name == "traceparent" for name, _ in request.headers) > 1:
            given = None  # which of them is meant is not guessed
        if given is None:
            if not self._ratio or self._draw() >= self._ratio or not self._has_room():
                return None
            trace_id = self._random(TRACE_ID_BYTES)
            return self._made(trace_id, b"", "")
        caller, is_sampled = given
        if not is_sampled or not self._has_room():
            return None
        values = [value for name, value in request.headers if name == "tracestate"]
        return self._made(caller.trace_id, caller.span_id, parse_tracestate(values))

    def end(
        self, trace: RequestTrace, line: Mapping[str, Attribute | None], stages: Mapping[str, float]
    ) -> None:
        """The answer is made, or nobody waits for it; `line` is what the log tells of it."""
        status = line["status"]
        about: dict[str, Attribute | None] = {
            "http.request.method": line["method"],
            "http.route": line["route"],
            "http.response.status_code": status,
            "svc.operation": line["operation"],
            "svc.request_id": line["request_id"],
            "svc.basin": line["basin"],
            "svc.stream": line["stream"],
            "svc.code": line["code"],
        }
        for stage, seconds in stages.items():
            about[f"svc.stage.{stage}_ms"] = round(max(seconds, 0.0) * 1000, 3)
        self._sink.put(
            Span(
                f"{line['method']} {line['route']}",
                SpanKind.SERVER,
                trace.context,
                trace.parent_id,
                trace.begun,
                self._clock.monotonic(),
                bounded(about),
                isinstance(status, int) and status >= SERVER_ERRORS,
            )
        )

    def _made(self, trace_id: bytes, parent_id: bytes, state: str) -> RequestTrace:
        own = TraceContext(trace_id, self._random(SPAN_ID_BYTES), state)
        return RequestTrace(own, parent_id, self._clock.monotonic())

    def _has_room(self) -> bool:
        second = int(self._clock.monotonic())
        if second != self._second:
            self._second, self._in_second = second, 0
        if self._in_second >= self._per_second_max:
            self._left_out()
            return False
        self._in_second += 1
        return True
