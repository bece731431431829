"""The metrics of requests by method and route, looked up once for each."""

from __future__ import annotations

from typing import Final

from prometheus_client import Gauge

from svc_cluster.base.counter import Count
from svc_cluster.base.metrics import Metrics
from svc_cluster.gateway.request.router import UNKNOWN_TEMPLATE, Resource

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""Those that have a name in the metrics; there are as many rows as these have routes."""


class RouteMetrics:
    """The rows of one gateway."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._recorders: dict[tuple[str, str], Recorder] = {}
        self._in_flight: dict[str, InFlight] = {}

    def of(self, method: str, resource: Resource | None) -> Recorder:
        """Return the row of a request. What is not among METHODS has that of `OTHER`."""
        template = template_of(resource)
        recorder = self._recorders.get((method, template))
        if recorder is None:
            label = method if method in METHODS else "OTHER"
            in_flight = self._in_flight.get(template)
            if in_flight is None:
                gauge = self._metrics.http_requests_in_flight.labels(template)
                in_flight = self._in_flight[template] = InFlight(gauge)
            recorder = Recorder(self._metrics, label, template, in_flight)
            if label == method:
                self._recorders[method, template] = recorder
        return recorder


class InFlight:
    """How many requests of one route are being worked on, whatever their method."""

    __slots__ = ("count",)

    def __init__(self, gauge: Gauge) -> None:
        self.count = 0
        gauge.set_function(lambda: self.count)


class Recorder:
    """The metrics of one method and route."""

    __slots__ = ("_by_status", "_duration", "_labels", "_requests", "in_flight")

    def __init__(self, metrics: Metrics, method: str, template: str, in_flight: InFlight) -> None:
        self.in_flight = in_flight
        self._duration = metrics.http_request_duration.labels(method, template)
        self._requests = metrics.http_requests
        self._labels = (method, template)
        self._by_status: dict[int, Count] = {}

    def done(self, status: int, seconds: float) -> None:
        self._duration.observe(seconds)
        counter = self._by_status.get(status)
        if counter is None:
            counter = self._by_status[status] = self._requests.labels(*self._labels, str(status))
        counter.inc()


def template_of(resource: Resource | None) -> str:
    """Return the route as the metrics have it."""
    return UNKNOWN_TEMPLATE if resource is None else resource.template
