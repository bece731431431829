"""Every metric of the service, declared here and in raft_metrics.py and storage_metrics.py.

Names: `svc_[<layer>_]<noun>[_<unit>][_total]`, base units spelled out. Labels are bounded sets:
never a stream, never a path, and a basin only on a node's own
page (basin_families.py). Each process owns one `Metrics` with its own registry,
so that several nodes can live in one process.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    disable_created_metrics,
)
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector

from svc_cluster.base.basin_families import BasinFamilies
from svc_cluster.base.exposition import exposition_steps
from svc_cluster.base.histogram import FastHistogram
from svc_cluster.base.raft_metrics import RaftMetrics
from svc_cluster.base.steps import at_once
from svc_cluster.base.storage_metrics import StorageMetrics

# Creation times double the number of series and nobody asks for them.
disable_created_metrics()  # type: ignore[no-untyped-call]

_S2_LATENCY_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_S2_RECORDS_BUCKETS: Final = (1.0, 10.0, 50.0, 100.0, 250.0, 500.0, 1000.0)
_S2_BYTES_BUCKETS: Final = tuple(1024.0 * 4**step for step in range(6))

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Metrics(RaftMetrics, StorageMetrics):
    """All metrics, each an attribute with the name it has on the wire less `svc_` and suffixes."""

    def __init__(self, *, process: bool = False) -> None:
        """With `process` the standard metrics of the whole process are added, for one registry."""
        super().__init__(CollectorRegistry())
        if process:
            ProcessCollector(registry=self.registry)
            GCCollector(registry=self.registry)
        self._declare_http()
        self._declare_records()
        self._declare_process()
        self._declare_s2()
        self.basins_by_name = BasinFamilies(self.registry)

    def expose(self) -> bytes:
        """The Prometheus text format, version 0.0.4."""
        return at_once(self.expose_steps())

    def expose_steps(self) -> Generator[None, None, bytes]:
        """The same in steps of a bounded time."""
        return exposition_steps(self.registry)

    def _declare_http(self) -> None:
        self.http_requests = self._count(
            "svc_http_requests_total", "HTTP requests answered.", "method", "route", "code"
        )
        self.http_request_duration = self._seconds(
            "svc_http_request_duration_seconds",
            "Time until an HTTP response was ready to be sent.",
            "method",
            "route",
        )
        self.http_requests_in_flight = self._gauge(
            "svc_http_requests_in_flight", "HTTP requests being worked on.", "route"
        )
        self.http_requests_shed = self._counter(
            "svc_http_requests_shed_total", "Requests refused: too much to do (503).", "reason"
        )
        self.http_requests_in_progress = self._gauge(
            "svc_http_requests_in_progress", "Requests without an answer yet, beside probes."
        )
        self.http_streams_open = self._gauge("svc_http_streams_open", "Sessions and followers.")
        self.http_body_bytes_in_flight = self._gauge(
            "svc_http_body_bytes_in_flight", "Bytes of request bodies held in memory."
        )
        self.http_unread_body_bytes = self._gauge(
            "svc_http_unread_body_bytes",
            "Bytes that have arrived and are not read yet: of bodies over HTTP/2, and what was sent"
            " ahead over HTTP/1.1.",
        )
        self.http_bodies_waiting = self._gauge(
            "svc_http_bodies_waiting", "Request bodies that wait for room in memory."
        )
        self.rate_limited = self._counter(
            "svc_rate_limited_total", "Requests refused because a limit was used up.", "reason"
        )
        self.rate_limit_waiting_bytes = self._gauge(
            "svc_rate_limit_waiting_bytes", "Metered bytes of sessions that wait for a limit."
        )
        self.auth_failures = self._counter(
            "svc_auth_failures_total", "Requests refused for their credentials.", "reason"
        )
        self.gateway_backend_requests = self._count(
            "svc_gateway_backend_requests_total",
            "Requests from the gateway to replica nodes.",
            "peer",
            "code",
        )
        self.gateway_retries = self._counter(
            "svc_gateway_retries_total", "Requests sent again by the gateway.", "reason"
        )
        self.request_lines_left_out = self._counter(
            "svc_request_log_left_out_total",
            "Lines of single requests that were left out: too many a second, or not written.",
        )
        self.trace_spans = self._counter(
            "svc_trace_spans_total", "Spans of traces, by what became of them.", "outcome"
        )
        self.audit_failures = self._counter(
            "svc_audit_failures_total", "Attempts to write the audit log that failed."
        )
        self.audit_suppressed = self._counter(
            "svc_audit_suppressed_total",
            "Refused writes that the audit log does not tell one by one.",
        )

    def _declare_records(self) -> None:
        self.read_sessions = self._gauge("svc_read_sessions", "Streaming reads that are open.")
        self.append_sessions = self._gauge("svc_append_sessions", "Append sessions that are open.")
        self.records_appended = self._count(
            "svc_records_appended_total", "Records acknowledged as durable."
        ).labels()
        self.appended_bytes = self._count(
            "svc_appended_bytes_total", "Metered bytes acknowledged as durable."
        ).labels()
        self.records_read = self._counter("svc_records_read_total", "Records sent to readers.")
        self.read_bytes = self._counter("svc_read_bytes_total", "Metered bytes sent to readers.")
        self.append_rejected = self._counter(
            "svc_append_rejected_total", "Appends that were refused.", "reason"
        )
        self.quota_refusals = self._counter(
            "svc_quota_refusals_total", "Requests that a quota refused (403).", "route"
        )
        self.trimmed_records = self._counter(
            "svc_trimmed_records_total", "Records removed by trimming or retention."
        )
        self.usage_reports = self._counter(
            "svc_usage_reports_total",
            "Reports of usage: taken, failed (sent again), lost (basin_gone, given_up, refused).",
            "result",
        )
        self.usage_reports_waiting = self._gauge(
            "svc_usage_reports_waiting", "Basins that usage was to be reported to, the last time."
        )
        self.request_outcomes = self._gauge(
            "svc_request_outcomes",
            "Outcomes of writes with a request token that replicas on this node keep.",
        )
        self.request_outcomes_used = self._gauge(
            "svc_request_outcomes_used_ratio",
            "Of the outcomes that may be kept, the share that the fullest replica here keeps.",
        )
        self.stored_bytes_used = self._gauge(
            "svc_stored_bytes_used_ratio",
            "Of the bytes that a basin may store, what the fullest basin here stores.",
        )
        self.quota_used = self._gauge(
            "svc_quota_used_ratio",
            "Of what a quota allows, what is used of it: of the account (basins, access_tokens), by"
            " the fullest chain (chain_basins), in the fullest basin here (streams, stored_bytes).",
            "quota",
        )
        self.requests_repeated = self._counter(
            "svc_requests_repeated_total",
            "Writes that were answered as before, found by their request token.",
        )
        self.streams = self._gauge("svc_streams", "Streams held by the replicas of this node.")
        self.basins = self._gauge("svc_basins", "Basins held by the replicas of this node.")

    def _declare_process(self) -> None:
        self.admin_calls = self._counter(
            "svc_admin_calls_total",
            "Calls of a node's administration: ok, refused, full, late or failed.",
            "operation",
            "outcome",
        )
        self.event_loop_lag = self._seconds(
            "svc_event_loop_lag_seconds", "How late the event loop ran a timer."
        )
        self.event_loop_turn = self._seconds(
            "svc_event_loop_turn_processor_seconds",
            "Processor time of the loop's thread that one turn took at least, at each look.",
        )
        self.collector_pause = self._seconds(
            "svc_event_loop_collector_pause_seconds",
            "How long a collection of cyclic garbage kept the event loop.",
        )
        self.loop_faults = self._counter(
            "svc_loop_faults_total",
            "Exceptions that escaped callbacks and tasks of the event loop.",
        )
        self.backup_last_success = self._gauge(
            "svc_backup_last_success_timestamp_seconds",
            "When the last backup of the cluster was finished, as this node was told; 0: never.",
        )
        self.tls_cert_expiry = self._gauge(
            "svc_tls_cert_expiry_timestamp_seconds",
            "When the certificate of a listener expires.",
            "listener",
        )
        self.gateway_processes = self._gauge(
            "svc_gateway_processes", "Processes of a gateway that the figures here are of."
        )
        self.build_info = self._gauge(
            "svc_build_info",
            "Always 1; the labels say what runs.",
            "version",
            "revision",
            "python_version",
            "role",
        )
        self.native_core_info = self._gauge(
            "svc_native_core_info",
            "Always 1; the label says whether the native core is in use, not built or turned off.",
            "state",
        )
        self.cluster_active_version = self._gauge(
            "svc_cluster_active_version", "What may be written and said in the cluster."
        )
        self.cluster_upgrade_outstanding = self._gauge(
            "svc_cluster_upgrade_outstanding",
            "1 while this node speaks a newer version than the active one.",
        )

    def _declare_s2(self) -> None:
        """The four histograms of the reference server, under its names."""

        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> FastHistogram:
            return FastHistogram(name, text, buckets, self.registry)

        self.s2_append_permit_latency = histogram(
            "s2_append_permit_latency_seconds",
            "Time an append waited before it was accepted.",
            _S2_LATENCY_BUCKETS,
        )
        self.s2_append_ack_latency = histogram(
            "s2_append_ack_latency_seconds",
            "Time from accepting an append to its acknowledgement.",
            _S2_LATENCY_BUCKETS,
        )
        self.s2_append_batch_records = histogram(
            "s2_append_batch_records", "Records of an append.", _S2_RECORDS_BUCKETS
        )
        self.s2_append_batch_bytes = histogram(
            "s2_append_batch_bytes", "Metered bytes of an append.", _S2_BYTES_BUCKETS
        )
