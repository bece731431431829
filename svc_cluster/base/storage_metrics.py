"""The metrics of a node's disk, and of what processes keep in memory."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from svc_cluster.base.metric_declarations import MetricDeclarations


class StorageMetrics(MetricDeclarations):
    """The log, the state store, and memory."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__(registry)
        self._declare_storage()
        self._declare_memory()

    def _declare_storage(self) -> None:
        self.wal_fsync_duration = self._seconds(
            "svc_wal_fsync_duration_seconds", "Time of one sync of the write-ahead log."
        )
        self.wal_write_duration = self._seconds(
            "svc_wal_write_duration_seconds",
            "Time to write what is synced next to the write-ahead log.",
        )
        self.wal_bytes_written = self._counter(
            "svc_wal_bytes_written_total", "Bytes written to the write-ahead log."
        )
        self.wal_size_bytes = self._gauge(
            "svc_wal_size_bytes", "Bytes of write-ahead log that are in use."
        )
        self.payload_size_bytes = self._gauge("svc_payload_size_bytes", "Bytes of payload files.")
        self.payload_live_bytes = self._gauge(
            "svc_payload_live_bytes", "Bytes needed of payload files that are full, when last seen."
        )
        self.payload_dead_bytes = self._gauge(
            "svc_payload_dead_bytes", "Bytes that full payload files hold in vain, when last seen."
        )
        self.payload_holes = self._counter(
            "svc_payload_hole_bytes_total", "Bytes given back as holes in payload files."
        )
        self.payload_inline = self._counter("svc_payload_inline_total", "Large entries in the log.")
        self.wal_held_bytes = self._gauge(
            "svc_wal_held_bytes",
            "Bytes of write-ahead log that a stopped or parked group keeps from being freed.",
        )
        self.storage_used_bytes = self._gauge(
            "svc_storage_used_bytes", "Bytes on disk used by the data directory."
        )
        self.storage_free_bytes = self._gauge(
            "svc_storage_free_bytes", "Bytes free on the disk of the data directory."
        )
        self.storage_capacity_bytes = self._gauge(
            "svc_storage_capacity_bytes", "Bytes of the disk of the data directory."
        )
        self.storage_read_only = self._gauge(
            "svc_storage_read_only", "1 while appends are refused for want of space."
        )
        self.store_flushes = self._counter(
            "svc_store_flushes_total",
            "Flushes of the state store that have ended: a restart replays what came after.",
        )
        self.store_read_wait = self._seconds(
            "svc_store_read_wait_seconds",
            "How long a read of the state store that needs the disk waited for its turn.",
        )
        self.store_reads_waiting = self._gauge(
            "svc_store_reads_waiting", "Reads of the state store that wait for their turn."
        )
        self.store_reads_refused = self._counter(
            "svc_store_reads_refused_total",
            "Reads of the state store that were refused because too many waited.",
        )

    def _declare_memory(self) -> None:
        self.memory_held = self._gauge(
            "svc_memory_held_bytes",
            "What is kept in memory on behalf of others, by part.",
            "part",
        )
        self.memory_max = self._gauge(
            "svc_memory_max_bytes", "What may be kept in memory on behalf of others."
        )
        self.memory_refused = self._counter(
            "svc_memory_refused_total",
            "What was refused because memory had no room for it, by part.",
            "part",
        )
