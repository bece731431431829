"""Traces that are switched off cost an append no call; counted, not timed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

from tests.benchmarks.append_path import Loop, measure
from tests.integration.test_traces import collecting, parent

OF_TRACES: Final = {
    "base/tracing.py",
    "cli/processes/node_spans.py",
    "cli/processes/span_export.py",
    "gateway/request/request_tracing.py",
    "replica/node_traces.py",
}
TRACE_ID: Final = b"t" * 16
GATEWAY: Final = "gateway and http"
"""The room that has the same calls each time; of a node's, some depend on the disk's threads."""


def counted(directory: Path, endpoint: str | None, *headers: str) -> dict[str, Any]:
    """Calls of an append, by file, of a node and a gateway in this process."""
    directory.mkdir()
    with asyncio.Runner(loop_factory=Loop) as runner:
        return runner.run(
            measure(directory, nodes=1, files=True, traces_endpoint=endpoint, headers=headers)
        )


def test_an_append_makes_no_call_for_traces_that_are_switched_off(tmp_path: Path) -> None:
    """None into what traces are made of, and no more in all, whether or not its caller asks for a
    trace; the same request makes many where they are switched on."""
    sampled = parent(TRACE_ID, "01")
    other = f"x-traceparent: {sampled.partition(': ')[2]}"
    plain = counted(tmp_path / "plain", None, other)
    off = counted(tmp_path / "off", None, sampled)
    with collecting() as collector:
        switched_on = counted(tmp_path / "on", collector.endpoint, sampled)
    assert not OF_TRACES & set(off["files of any"])
    assert not OF_TRACES & set(plain["files of any"])
    assert OF_TRACES & set(switched_on["files of any"]) >= {
        "base/tracing.py",
        "gateway/request/request_tracing.py",
        "replica/node_traces.py",
    }
    calls = {
        name: (found[GATEWAY]["calls"], found["whole"]["calls"])
        for name, found in (("plain", plain), ("off", off), ("on", switched_on))
    }
    print(f"calls of an append: {calls}; off/plain {calls['off'][0] / calls['plain'][0]:.3f}")
    assert calls["off"][0] == calls["plain"][0]
    # in all: a traced append goes by itself, past what would join it with others in the gateway
    assert calls["on"][1] > calls["off"][1]
