"""What the settings may be: the least and the most of each, and which keys are bounded alike."""

from __future__ import annotations

from typing import Final

MEMORY_MIB: Final = (64, 1024 * 1024)
"""Less would not hold the largest requests of a few callers."""
WAL_SEGMENT_MIB: Final = (4, 4095)
"""A log file must hold the largest entry (a little over 2 MiB) and stay below 4 GiB."""
SIZE_MIB_MAX: Final = 1 << 30
MEMORY_REST_MIB_MIN: Final = 32
"""What a gateway has beside bodies, and what is unread of them."""
BODY_MIB_IN_FLIGHT: Final = (16, 1 << 20)
"""The largest request, 8 MiB of JSON, must find room in it both as sent and decompressed."""
PROCESSES: Final = (1, 64)
BASIN_HOST_SUFFIXES_MAX: Final = 16
PUBLIC_HOSTS_MAX: Final = 64
MIB_PER_SECOND: Final = (0.1, 4096.0)
REQUEST_OUTCOMES: Final = (1, 100_000_000)
RATE: Final = (0.001, 1e12)
QUOTA: Final = (1, 100_000_000)
PAYLOAD_DEAD_PERCENT: Final = (0, 1000)
STORE_READ_THREADS: Final = (1, 64)
STORE_READS_WAITING: Final = (1, 65_536)
CONNECTIONS: Final = (16, 1_000_000)
REQUESTS_IN_PROGRESS: Final = (16, 1_000_000)
STREAMS_OPEN: Final = (16, 1_000_000)
DRAIN_SECONDS: Final = (0, 60)
METRICS_BASINS: Final = (0, 200)
SLOW_REQUEST_MS: Final = (1.0, 3_600_000.0)
REQUEST_LOG_LINES: Final = (1, 10_000)
REST_SECONDS: Final = (0.5, 86_400)
TRACES_RATIO: Final = (0.0, 1.0)
TRACES: Final = (1, 10_000)
DIVIDED: Final = {
    "body_mib_in_flight": BODY_MIB_IN_FLIGHT,
    "memory_mib": MEMORY_MIB,
    "connections_max": CONNECTIONS,
    "requests_in_progress_max": REQUESTS_IN_PROGRESS,
    "streams_open_max": STREAMS_OPEN,
    "request_log_lines_per_second_max": REQUEST_LOG_LINES,
    "traces_per_second_max": TRACES,
}
"""Whole numbers of which each of a gateway's processes has its part, and what each part may be."""
SECONDS_MIN: Final = 0.01
SECONDS_MAX: Final = 31_536_000.0
QUOTA_KEYS: Final = (
    "basins_max",
    "streams_per_basin_max",
    "access_tokens_max",
    "token_basins_max",
    "token_access_tokens_max",
    "streams_max",
    "token_streams_max",
)
RESERVED_QUOTAS: Final = (
    ("streams_max", "streams_per_basin_max"),
    ("token_streams_max", "streams_per_basin_max"),
    ("stored_mib_max", "stored_mib_per_basin_max"),
    ("token_stored_mib_max", "stored_mib_per_basin_max"),
)
RATE_KEYS: Final = (
    "account_requests_per_second",
    "account_append_mib_per_second",
    "account_read_mib_per_second",
    "token_requests_per_second",
    "token_append_mib_per_second",
    "token_read_mib_per_second",
    "failed_authentications_per_second",
)
