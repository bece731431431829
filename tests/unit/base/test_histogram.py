"""The cheap histogram shows what the library's own would show."""

from __future__ import annotations

import random

from prometheus_client import CollectorRegistry, Histogram, generate_latest

from svc_cluster.base.histogram import FastHistogram

BOUNDS = (0.5, 1.0, 2.0, 10.0)


def test_exposition_is_that_of_the_librarys_histogram() -> None:
    """Byte for byte, for values below, on, between and above the bounds."""
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    fast = FastHistogram("svc_test_seconds", "Help text.", BOUNDS, ours, ("method",))
    slow = Histogram("svc_test_seconds", "Help text.", ("method",), registry=theirs, buckets=BOUNDS)
    rng = random.Random(1)
    for _ in range(500):
        value = rng.choice([*BOUNDS, 0.0, rng.uniform(0, 12), 100.0])
        method = rng.choice(["GET", "POST"])
        fast.labels(method).observe(value)
        slow.labels(method).observe(value)
    shown = sorted(generate_latest(ours).splitlines())
    wanted = [line for line in generate_latest(theirs).splitlines() if b"_created" not in line]
    assert shown == sorted(wanted)
