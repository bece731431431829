"""The cheap counter shows what the library's own would show."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, generate_latest

from svc_cluster.base.counter import FastCounter


def _shown(registry: CollectorRegistry) -> list[bytes]:
    return [line for line in generate_latest(registry).splitlines() if b"_created" not in line]


def test_exposition_is_that_of_the_librarys_counter() -> None:
    """Byte for byte: with labels and without, before anything was counted and behind it."""
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    fast = FastCounter("svc_test_total", "Help text.", ours, ("peer", "code"))
    slow = Counter("svc_test_total", "Help text.", ("peer", "code"), registry=theirs)
    plain = FastCounter("svc_plain_total", "Plain.", ours).labels()
    usual = Counter("svc_plain_total", "Plain.", registry=theirs)
    assert _shown(ours) == _shown(theirs)
    for code, count in (("ok", 3), ("none", 1), ("ok", 2)):
        fast.labels("1", code).inc(count)
        slow.labels("1", code).inc(count)
    for _ in range(2):
        plain.inc()
        usual.inc()
    assert _shown(ours) == _shown(theirs)
    assert plain.value == 2
    assert fast.labels("1", "ok") is fast.labels("1", "ok")
