"""Spans leave the process here, beside its event loop: to a collector that speaks OTLP over HTTP.

The only file that knows OpenTelemetry, which is an extra (`svc-cluster[otel]`): it is imported when
a process is told of a collector, and not before. Nothing waits for the collector. Spans for which
there is no room are dropped, and those that it does not take in time are lost; both are counted.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Final

from svc_cluster.base.log import get_logger
from svc_cluster.base.metrics import Metrics
from svc_cluster.base.tracing import Span, SpanKind
from svc_cluster.settings_errors import SettingsError

SPANS_QUEUED_MAX: Final = 4_096
"""Spans that wait to leave; one more is dropped."""
BATCH_SPANS_MAX: Final = 512
EXPORT_SECONDS: Final = 1.0
"""From one look at what there is to send to the next."""
TIMEOUT_SECONDS: Final = 5.0
"""How long the collector has to take one batch, all attempts together."""
CLOSE_SECONDS: Final = 2.0
"""How long the end of the process waits for the last spans."""

Send = Callable[[Sequence[Span]], bool]
"""Brings spans to the collector, or not, in a bounded time."""

log = get_logger("traces")


class SpanExport:
    """A queue of spans and the thread that empties it. Implements `base.tracing.SpanSink`; `put`
    may be called on the event loop."""

    def __init__(
        self, send: Send, metrics: Metrics, *, spans_queued_max: int = SPANS_QUEUED_MAX
    ) -> None:
        self._send = send
        self._outcomes = {
            outcome: metrics.trace_spans.labels(outcome)
            for outcome in ("sent", "lost", "dropped", "left_out")
        }
        self._spans: deque[Span] = deque()
        self._most = spans_queued_max
        self._ends = threading.Event()
        self._has_failed = False
        self._thread = threading.Thread(target=self._run, name="spans", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, span: Span) -> None:
        """Never waits: a span for which there is no room is dropped."""
        if len(self._spans) >= self._most:
            self._outcomes["dropped"].inc()
        else:
            self._spans.append(span)

    def left_out(self) -> None:
        """A request was not sampled because too many were in this second."""
        self._outcomes["left_out"].inc()

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Send what there is, or give up after so many seconds."""
        self._ends.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _run(self) -> None:
        while not self._ends.wait(EXPORT_SECONDS):
            self._send_all()
        self._send_all()

    def _send_all(self) -> None:
        while batch := [
            self._spans.popleft() for _ in range(min(BATCH_SPANS_MAX, len(self._spans)))
        ]:
            try:
                is_sent = self._send(batch)
            except Exception as fault:
                is_sent = False
                log.error("spans_not_sent", exc_info=fault)
            self._outcomes["sent" if is_sent else "lost"].inc(len(batch))
            if is_sent == self._has_failed:
                self._has_failed = not is_sent
                tell = log.info if is_sent else log.warning
                tell("span_export_works" if is_sent else "span_export_fails", spans=len(batch))
            if not is_sent:
                return


def span_export(endpoint: str, service: str, instance: str, metrics: Metrics) -> SpanExport:
    """Begin to bring spans of this process to the collector at `endpoint`, an URL. Raises
    SettingsError where the extra is not installed."""
    export = SpanExport(otlp(endpoint, service, instance), metrics)
    export.start()
    return export


def otlp(
    endpoint: str, service: str, instance: str, timeout_seconds: float = TIMEOUT_SECONDS
) -> Send:
    """Raises SettingsError where the extra is not installed. Headers and certificates for the
    collector come from the environment, by OpenTelemetry's names (OTEL_EXPORTER_OTLP_HEADERS…)."""
    try:
        from opentelemetry import trace as api
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.sdk.trace.export import SpanExportResult
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    except ImportError as missing:
        raise SettingsError(
            f"traces_endpoint is set and {missing.name} is not installed: "
            "install svc-cluster[otel], or leave traces_endpoint out"
        ) from missing
    for library in ("opentelemetry", "urllib3"):
        # what they would say is said here, once, in the form of the log
        logging.getLogger(library).addHandler(logging.NullHandler())
        logging.getLogger(library).propagate = False
    resource = Resource(
        {
            "service.name": service,
            "service.instance.id": instance,
            "service.version": version("svc-cluster"),
            "process.pid": os.getpid(),
        }
    )
    scope = InstrumentationScope("svc_cluster", version("svc-cluster"))
    kinds = {SpanKind.SERVER: api.SpanKind.SERVER, SpanKind.INTERNAL: api.SpanKind.INTERNAL}
    error, unset = api.Status(api.StatusCode.ERROR), api.Status(api.StatusCode.UNSET)
    exporter = OTLPSpanExporter(endpoint=endpoint, timeout=timeout_seconds)

    def context(trace_id: bytes, span_id: bytes, state: str, *, is_remote: bool) -> api.SpanContext:
        return api.SpanContext(
            int.from_bytes(trace_id, "big"),
            int.from_bytes(span_id, "big"),
            is_remote=is_remote,
            trace_flags=api.TraceFlags(api.TraceFlags.SAMPLED),
            trace_state=api.TraceState.from_header([state]) if state else None,
        )

    def readable(span: Span, ahead_ns: int) -> ReadableSpan:
        own = span.context
        parent = None
        if span.parent_id:
            parent = context(own.trace_id, span.parent_id, own.state, is_remote=True)
        return ReadableSpan(
            name=span.name,
            context=context(own.trace_id, own.span_id, own.state, is_remote=False),
            parent=parent,
            resource=resource,
            attributes=span.attributes,
            kind=kinds[span.kind],
            status=error if span.has_failed else unset,
            start_time=round(span.begun * 1e9) + ahead_ns,
            end_time=round(span.ended * 1e9) + ahead_ns,
            instrumentation_scope=scope,
        )

    def send(spans: Sequence[Span]) -> bool:
        # by how much the wall clock is ahead of the monotonic one now
        ahead_ns = time.time_ns() - time.monotonic_ns()  # noqa: TID251
        batch = [readable(span, ahead_ns) for span in spans]
        return exporter.export(batch) is SpanExportResult.SUCCESS

    return send
