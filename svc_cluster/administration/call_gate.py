"""What every call to a node's administration passes: its caller's role, room, and a deadline."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc
import grpc.aio

from svc_cluster.administration.operations import OPERATIONS, AdminOperation, role_of
from svc_cluster.base.clock import Clock
from svc_cluster.base.ids import NodeId
from svc_cluster.base.log import get_logger
from svc_cluster.link.refused_callers import RefusedCallers, caller_of

log = get_logger("administration")

Count = Callable[[str, str], None]
"""Takes the name of an operation and what came of a call: `ok`, `refused`, `full`, `late` or
`failed`."""


class CallGate(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Stands before every handler of one listener. `secured`: callers show certificates; without
    them everybody who gets here may do everything, which is for loopback."""

    def __init__(self, own: NodeId, clock: Clock, count: Count, *, secured: bool) -> None:
        self._own = own
        self._clock = clock
        self._count = count
        self._secured = secured
        self._refused = RefusedCallers(clock.monotonic)
        self._under_way: Counter[str] = Counter()

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        handler = await continuation(details)
        if handler is None:
            return None  # the library says that there is no such method
        method = str(details.method)
        serve = _serve(handler)

        async def stream(request: Any, context: Any) -> None:
            async with self._admitted(method, context):
                await serve(request, context)

        async def unary(request: Any, context: Any) -> Any:
            async with self._admitted(method, context):
                return await serve(request, context)

        make, behaviour = (
            (grpc.unary_unary_rpc_method_handler, unary)
            if not (handler.request_streaming or handler.response_streaming)
            else (_STREAMING[handler.request_streaming, handler.response_streaming], stream)
        )
        return make(behaviour, handler.request_deserializer, handler.response_serializer)

    @asynccontextmanager
    async def _admitted(self, method: str, context: Any) -> AsyncIterator[None]:
        """Around the work for one call. What is refused here has not been begun."""
        name = method.rpartition("/")[2]
        operation = OPERATIONS.get(method)
        if operation is None or not self._may(operation, context):
            self._count(name, "refused")
            self._say_refused(name, context.peer())
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED,
                f"{name} is not for a certificate with this one's names",
            )
        assert operation is not None, "refused above"
        if self._under_way[method] >= operation.calls_max:
            self._count(name, "full")
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"{operation.calls_max} calls of {name} are under way: try again later",
            )
        self._under_way[method] += 1
        outcome = "failed"
        limit = asyncio.timeout(operation.seconds_max)
        try:
            async with limit:
                yield
            outcome = "ok"
        except TimeoutError:
            if not limit.expired():
                raise
            outcome = "late"
        finally:  # before the caller is told, who may call again at once
            self._under_way[method] -= 1
            self._count(name, outcome)
        if outcome == "late":
            await context.abort(
                grpc.StatusCode.DEADLINE_EXCEEDED,
                f"{name} is ended after {operation.seconds_max:g} s",
            )

    def _may(self, operation: AdminOperation, context: Any) -> bool:
        if not self._secured:
            return True
        names = context.auth_context().get("peer_dns", ())
        return role_of(names, self._own) in operation.roles

    def _say_refused(self, name: str, peer: str) -> None:
        count = self._refused.refused(caller_of(peer))
        if count is not None:
            log.warning("administration_refused", operation=name, peer=peer, refusals=count)


def _serve(handler: Any) -> Callable[[Any, Any], Any]:
    """The handler's own behaviour, as a coroutine in any case."""
    inner = next(
        behaviour
        for behaviour in (
            handler.unary_unary,
            handler.unary_stream,
            handler.stream_unary,
            handler.stream_stream,
        )
        if behaviour is not None
    )
    if not inspect.isasyncgenfunction(inner):
        return inner  # type: ignore[no-any-return]

    async def write_all(request: Any, context: Any) -> None:
        async for answer in inner(request, context):
            await context.write(answer)

    return write_all


_STREAMING: Final = {
    (False, True): grpc.unary_stream_rpc_method_handler,
    (True, False): grpc.stream_unary_rpc_method_handler,
    (True, True): grpc.stream_stream_rpc_method_handler,
}
