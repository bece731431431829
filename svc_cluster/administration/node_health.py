"""`grpc.health.v1` of a node, fed from the readiness that /readyz answers by."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from grpc_health.v1 import health_pb2
from grpc_health.v1.health import aio

READINESS: Final = ("", "readiness")
"""Names under which the node's readiness is asked for; the empty one is the whole server's."""

LIVENESS: Final = "liveness"
"""Served as long as somebody answers at all, whatever the cluster is like."""

LOOK_SECONDS: Final = 0.5
"""How late whoever watches learns of a change; who asks is answered as of now."""

_SERVING: Final = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING: Final = health_pb2.HealthCheckResponse.NOT_SERVING


class NodeHealth(aio.HealthServicer):  # type: ignore[misc]
    """`also`: names of services that are served as long as the port is."""

    def __init__(self, is_ready: Callable[[], bool], also: tuple[str, ...] = ()) -> None:
        super().__init__()
        self._is_ready = is_ready
        self._names = {LIVENESS: _SERVING, **dict.fromkeys(also, _SERVING)}
        self._ended = False

    async def Check(self, request: Any, context: Any) -> Any:
        await self.look()
        return await super().Check(request, context)

    async def List(self, request: Any, context: Any) -> Any:
        await self.look()
        return health_pb2.HealthListResponse(
            statuses={
                name: health_pb2.HealthCheckResponse(status=status)
                for name, status in self._statuses().items()
            }
        )

    async def look(self) -> None:
        """Take the node's readiness over, and wake who watches."""
        for name, status in self._statuses().items():
            await self.set(name, status)

    async def follow(self) -> None:
        """Look now and then, for ever."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def end(self) -> None:
        """The process stops: it is not ready any more, whatever the node says."""
        self._ended = True
        await self.look()

    def _statuses(self) -> dict[str, Any]:
        ready = _SERVING if not self._ended and self._is_ready() else _NOT_SERVING
        return {**dict.fromkeys(READINESS, ready), **self._names}
