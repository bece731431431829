"""Giving all leaderships of a node away because an administrator asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
from svc_cluster.administration import views
from svc_cluster.base.tasks import start_task
from svc_cluster.replica.node import ReplicaNode


async def drain(node: ReplicaNode) -> pb.DrainResponse:
    """All that somebody else could lead is given away, as far as that is possible in a bounded
    time. A node gives itself that time (`handover.limit_seconds`)."""
    host, clock = node.host, node.services.clock
    began = clock.monotonic()
    led = views.led_by_choice(host)
    await node.retire()
    left = views.led_by_choice(host)
    return pb.DrainResponse(
        groups_led=len(led),
        groups_left=len(left),
        seconds=clock.monotonic() - began,
        left=views.rows(host, left),
    )


class Draining:
    """One drain at a time. What has begun goes on when its caller goes away: half of it would be a
    node that is not ready and leads all the same."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, pb.DrainResponse]]) -> None:
        self._work = work
        self._running: asyncio.Task[pb.DrainResponse] | None = None

    async def run(self) -> pb.DrainResponse:
        """The report of the drain that runs, or of a new one. Further callers wait for the same
        end."""
        if self._running is None or self._running.done():
            self._running = start_task(self._work(), "drain")
        return await asyncio.shield(self._running)

    async def close(self) -> None:
        """End what runs, and wait until it has ended."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
