"""What declares a metric: its registry, and the three kinds that there are."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from svc_cluster.base.counter import FastCounter
from svc_cluster.base.histogram import FastHistogram

SECONDS_BUCKETS: Final = (*(0.0005 * 2**step for step in range(15)), 10.0)
"""0.5 ms doubling to 8.192 s, then 10 s."""


class MetricDeclarations:
    """Metrics that are declared on one registry, each an attribute."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _count(self, name: str, text: str, *labels: str) -> FastCounter:
        """What is counted many times for a request."""
        return FastCounter(name, text, self.registry, labels)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=self.registry)

    def _seconds(self, name: str, text: str, *labels: str) -> FastHistogram:
        return FastHistogram(name, text, SECONDS_BUCKETS, self.registry, labels)
