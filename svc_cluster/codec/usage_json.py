"""Metrics as the interface tells them: an object with one key, which says of what kind it is."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum


class Unit(Enum):
    BYTES = "bytes"
    OPERATIONS = "operations"


class Interval(Enum):
    """Of buckets and readings, by their names on the wire."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"

    @property
    def seconds(self) -> int:
        return _SECONDS[self]


_SECONDS = {Interval.MINUTE: 60, Interval.HOUR: 3600, Interval.DAY: 86400}

Metric = dict[str, dict[str, object]]


def accumulation(
    name: str, unit: Unit, interval: Interval, values: Iterable[tuple[int, int]]
) -> Metric:
    """`values`: what was counted from a Unix second on, for one interval; buckets with nothing in
    them are left out."""
    return {
        "accumulation": {
            "name": name,
            "unit": unit.value,
            "interval": interval.value,
            "values": [[at, float(value)] for at, value in values if value],
        }
    }


def gauge(name: str, unit: Unit, values: Iterable[tuple[int, int]]) -> Metric:
    return {
        "gauge": {
            "name": name,
            "unit": unit.value,
            "values": [[at, float(value)] for at, value in values],
        }
    }


def label(name: str, values: Iterable[str]) -> Metric:
    return {"label": {"name": name, "values": list(values)}}
