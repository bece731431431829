"""How late the event loop runs what is due: somebody who wants to be woken looks at the clock."""

from __future__ import annotations

import asyncio
from typing import Final

from svc_cluster.base.metrics import Metrics

LOOK_SECONDS: Final = 0.25


async def watch_loop_lag(metrics: Metrics) -> None:
    """For ever."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + LOOK_SECONDS
        await asyncio.sleep(LOOK_SECONDS)
        metrics.event_loop_lag.observe(max(loop.time() - due, 0.0))
