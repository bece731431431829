"""The lag of the event loop, on a loop whose time is virtual."""

from __future__ import annotations

import asyncio

import pytest

from svc_cluster.base.metrics import Metrics
from svc_cluster.cli.loop_lag import LOOK_SECONDS, watch_loop_lag
from tests.simulation.loop import SimLoop, run


def test_a_loop_that_does_nothing_else_is_never_late() -> None:
    """Each look is in time, and there are as many as time has passed for."""
    metrics = Metrics()

    async def main(loop: SimLoop) -> None:
        watching = loop.create_task(watch_loop_lag(metrics))
        await asyncio.sleep(10.5 * LOOK_SECONDS)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)

    run(main)
    name = "svc_event_loop_lag_seconds"
    assert metrics.registry.get_sample_value(f"{name}_count") == 10
    assert metrics.registry.get_sample_value(f"{name}_sum") == pytest.approx(0.0, abs=1e-3)
