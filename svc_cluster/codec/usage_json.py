"""Metrics as the interface tells them: an object with one key, which says of what kind it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

from svc_cluster.codec.json_body import encode_object
from svc_cluster.codec.json_list import NUMBERS_AT_ONCE, list_pieces


class Unit(Enum):
    BYTES = "bytes"
    OPERATIONS = "operations"


class Interval(Enum):
    """An Interval is the length of buckets and readings, by its name on the wire."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"

    @property
    def seconds(self) -> int:
        return _SECONDS[self]


_SECONDS = {Interval.MINUTE: 60, Interval.HOUR: 3600, Interval.DAY: 86400}

Metric = dict[str, dict[str, Any]]
"""`values` come last, and are asked for as they are wanted."""


def metrics_pieces(metrics: Iterable[Metric]) -> Iterator[bytes]:
    """The answer with all of them, in pieces of which each is made in a bounded time."""
    before = b'{"values":['
    for metric in metrics:
        ((kind, told),) = metric.items()
        head = encode_object({kind: {**told, "values": []}})
        yield before + head.removesuffix(b"[]}}")
        yield from list_pieces(told["values"], NUMBERS_AT_ONCE)
        before = b"}},"
    yield b'{"values":[]}' if before == b'{"values":[' else b"}}]}"


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
            "values": ([at, float(value)] for at, value in values if value),
        }
    }


def gauge(name: str, unit: Unit, values: Iterable[tuple[int, int]]) -> Metric:
    return {
        "gauge": {
            "name": name,
            "unit": unit.value,
            "values": ([at, float(value)] for at, value in values),
        }
    }


def label(name: str, values: Iterable[str]) -> Metric:
    return {"label": {"name": name, "values": values}}
