"""The page of a registry's metrics, made in steps of a bounded time."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.registry import Collector

SAMPLES_AT_ONCE: Final = 96
"""Written between two chances for others to work, or those of one metric more: about 1 ms, because
a turn in which a hundred requests for the page arrive has a step of one of them too."""


class _Families(Collector):
    """Metrics with their samples, as they were collected."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def exposition_steps(registry: CollectorRegistry) -> Generator[None, None, bytes]:
    """The Prometheus text format, version 0.0.4, of all that is in the registry."""
    parts: list[bytes] = []
    waiting: list[Metric] = []
    samples = 0
    for family in registry.collect():
        waiting.append(family)
        samples += len(family.samples)
        if samples >= SAMPLES_AT_ONCE:
            parts.append(generate_latest(_Families(waiting)))
            waiting = []
            samples = 0
            yield
    parts.append(generate_latest(_Families(waiting)))
    return b"".join(parts)
