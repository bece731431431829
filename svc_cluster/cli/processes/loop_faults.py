"""What escapes callbacks and tasks that nobody waits for: told as an error and counted.

It ends nothing: much of it comes from the libraries and concerns one connection. What must not stop
silently is guarded by its owner.
"""

from __future__ import annotations

import asyncio
from typing import Any

from svc_cluster.base.clock import Clock, SystemClock
from svc_cluster.base.log import get_logger
from svc_cluster.base.metrics import Metrics
from svc_cluster.base.seldom import Seldom

log = get_logger("loop")


class LoopFaults:
    """The handler of an event loop; one line a minute at most of either sort."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        self._faults, self._connections = Seldom(), Seldom()

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        fault = context.get("exception")
        now = self._clock.monotonic()
        if _is_of_a_connection(context, fault):
            count = self._connections.note(now)
            if count is not None:
                log.info("connection_failed", count=count, reason=repr(fault))
            return
        self._metrics.loop_faults.inc()
        count = self._faults.note(now)
        if count is not None:
            log.error("callback_failed", count=count, reason=context.get("message"), exc_info=fault)


def _is_of_a_connection(context: dict[str, Any], fault: BaseException | None) -> bool:
    """Tells whether it was the network's or the other side's doing, TLS included. The wake-up that
    gRPC lost to another of its threads counts too, which gRPC reports as a fault and makes good."""
    if isinstance(fault, BlockingIOError):
        return True
    return isinstance(fault, OSError | EOFError) and (
        "transport" in context or "protocol" in context
    )


def hear_loop_faults(metrics: Metrics) -> None:
    """Hear the faults of the running loop; who has set a handler before keeps it."""
    loop = asyncio.get_running_loop()
    if loop.get_exception_handler() is None:
        loop.set_exception_handler(LoopFaults(metrics, SystemClock()))
