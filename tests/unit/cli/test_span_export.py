"""Spans leave beside the event loop, and what cannot leave is counted."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence

import pytest

from svc_cluster.base.metrics import Metrics
from svc_cluster.base.tracing import Span, SpanKind, TraceContext
from svc_cluster.cli.processes.span_export import BATCH_SPANS_MAX, SpanExport, otlp

SPAN = Span("s", SpanKind.SERVER, TraceContext(b"t" * 16, b"s" * 8), b"", 1.0, 2.0)
PATIENCE_SECONDS = 30.0


def outcomes(metrics: Metrics) -> dict[str, float]:
    found = {
        outcome: metrics.registry.get_sample_value("svc_trace_spans_total", {"outcome": outcome})
        for outcome in ("sent", "lost", "dropped", "left_out")
    }
    return {outcome: count for outcome, count in found.items() if count}


def test_what_waits_is_bounded_and_leaves_in_batches() -> None:
    """While the collector takes nothing, spans beyond the bound are dropped at once; what waits
    leaves later, so many at a time."""
    metrics, begun, go_on = Metrics(), threading.Event(), threading.Event()
    batches: list[int] = []

    def send(spans: Sequence[Span]) -> bool:
        begun.set()
        assert go_on.wait(PATIENCE_SECONDS)
        batches.append(len(spans))
        return True

    most = BATCH_SPANS_MAX + 100
    export = SpanExport(send, metrics, spans_queued_max=most)
    export.start()
    export.put(SPAN)
    assert begun.wait(PATIENCE_SECONDS)
    for _ in range(most + 7):
        export.put(SPAN)
    assert outcomes(metrics) == {"dropped": 7}
    go_on.set()
    export.close(PATIENCE_SECONDS)
    assert batches == [1, BATCH_SPANS_MAX, 100]
    assert outcomes(metrics) == {"sent": most + 1, "dropped": 7}


@pytest.mark.parametrize("fault", [lambda _: False, lambda _: 1 / 0])
def test_what_a_collector_does_not_take_is_lost_and_counted(
    fault: Callable[[Sequence[Span]], bool],
) -> None:
    """A fault ends one batch, not the thread."""
    metrics = Metrics()
    export = SpanExport(fault, metrics)
    export.put(SPAN)
    export.start()
    export.close(PATIENCE_SECONDS)
    assert outcomes(metrics) == {"lost": 1}


def test_the_end_of_a_process_waits_for_a_silent_collector_no_longer_than_it_says() -> None:
    metrics, go_on = Metrics(), threading.Event()
    export = SpanExport(lambda _: go_on.wait(PATIENCE_SECONDS), metrics)
    export.put(SPAN)
    export.start()
    export.close(0.05)
    assert outcomes(metrics) == {}
    go_on.set()
    export.close(PATIENCE_SECONDS)
    assert outcomes(metrics) == {"sent": 1}


def test_a_collector_that_accepts_and_says_nothing_is_given_up() -> None:
    """The real exporter against a socket that nobody reads."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        send = otlp(f"http://127.0.0.1:{port}/v1/traces", "service", "one", timeout_seconds=0.2)
        assert send([SPAN]) is False


def test_without_the_extra_a_process_says_what_is_missing() -> None:
    """In one sentence; and none of it is imported by a process that is not told of a collector."""
    program = """
import sys
import svc_cluster.cli.processes.gateway_process, svc_cluster.cli.processes.node_process
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
sys.modules["opentelemetry"] = None
from svc_cluster.cli.processes.span_export import otlp
from svc_cluster.settings_errors import SettingsError
try:
    otlp("http://127.0.0.1:1/v1/traces", "s", "i")
except SettingsError as refusal:
    sys.exit(str(refusal))
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr == (
        "traces_endpoint is set and opentelemetry is not installed: "
        "install svc-cluster[otel], or leave traces_endpoint out\n"
    )
