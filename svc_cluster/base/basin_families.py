"""Metrics with a basin's name: on a node's own page alone, of a bounded number of basins.

The counts live where they are counted, as plain numbers; they become families only when somebody
asks, so that no append pays for a label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    SummaryMetricFamily,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

OTHER: Final = "other"
"""The label of all basins that are not named; no basin has so short a name."""


@dataclass(frozen=True, slots=True)
class BasinCounts:
    """What one replica has counted since it was opened; each number only grows."""

    appends: int = 0
    """Batches acknowledged while this node led the basin, as the next two."""
    appended_records: int = 0
    appended_bytes: int = 0
    """In metered bytes."""
    reads: int = 0
    """Portions that gateways asked for."""
    read_records: int = 0
    read_bytes: int = 0
    """In metered bytes."""
    commits: int = 0
    """Entries proposed here that became committed."""
    commit_seconds: float = 0.0
    """From their proposal to their commit, all together."""

    def plus(self, since: BasinCounts, until: BasinCounts) -> BasinCounts:
        """These, and what came between two looks at a replica."""
        return BasinCounts(
            self.appends + until.appends - since.appends,
            self.appended_records + until.appended_records - since.appended_records,
            self.appended_bytes + until.appended_bytes - since.appended_bytes,
            self.reads + until.reads - since.reads,
            self.read_records + until.read_records - since.read_records,
            self.read_bytes + until.read_bytes - since.read_bytes,
            self.commits + until.commits - since.commits,
            self.commit_seconds + until.commit_seconds - since.commit_seconds,
        )


@dataclass(frozen=True, slots=True)
class BasinRow:
    """What is shown of one basin, or of all that are not named."""

    name: str
    counts: BasinCounts
    led: int
    """Basins of this row that are led here."""
    streams: int
    """Streams of those, as the next."""
    stored_bytes: int


def _none() -> list[BasinRow]:
    return []


class BasinFamilies(Collector):
    """The families. `rows` says what there is to show; a gateway has none."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.rows: Callable[[], Iterable[BasinRow]] = _none
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        rows = list(self.rows())
        counter, gauge = CounterMetricFamily, GaugeMetricFamily
        yield _filled(
            counter("svc_basin_appends", "Batches acknowledged, by basin.", labels=["basin"]),
            [(row.name, row.counts.appends) for row in rows],
        )
        yield _filled(
            counter(
                "svc_basin_appended_records", "Records acknowledged, by basin.", labels=["basin"]
            ),
            [(row.name, row.counts.appended_records) for row in rows],
        )
        yield _filled(
            counter(
                "svc_basin_appended_bytes",
                "Metered bytes acknowledged, by basin.",
                labels=["basin"],
            ),
            [(row.name, row.counts.appended_bytes) for row in rows],
        )
        yield _filled(
            counter("svc_basin_reads", "Portions read for gateways, by basin.", labels=["basin"]),
            [(row.name, row.counts.reads) for row in rows],
        )
        yield _filled(
            counter("svc_basin_read_records", "Records read, by basin.", labels=["basin"]),
            [(row.name, row.counts.read_records) for row in rows],
        )
        yield _filled(
            counter("svc_basin_read_bytes", "Metered bytes read, by basin.", labels=["basin"]),
            [(row.name, row.counts.read_bytes) for row in rows],
        )
        commits = SummaryMetricFamily(
            "svc_basin_commit_duration_seconds",
            "From the proposal of an entry to its commit, by basin.",
            labels=["basin"],
        )
        for row in rows:
            commits.add_metric([row.name], row.counts.commits, row.counts.commit_seconds)
        yield commits
        yield _filled(
            gauge("svc_basin_led", "Basins led by this node, by name.", labels=["basin"]),
            [(row.name, row.led) for row in rows],
        )
        yield _filled(
            gauge("svc_basin_streams", "Streams of basins led here, by basin.", labels=["basin"]),
            [(row.name, row.streams) for row in rows],
        )
        yield _filled(
            gauge(
                "svc_basin_stored_bytes",
                "Metered bytes stored in basins led here, by basin.",
                labels=["basin"],
            ),
            [(row.name, row.stored_bytes) for row in rows],
        )


def _filled(
    family: CounterMetricFamily | GaugeMetricFamily, values: Iterable[tuple[str, float]]
) -> Metric:
    for name, value in values:
        family.add_metric([name], value)
    return family
