"""The gateway as a function from request to response: routing, errors, metrics, draining.

Knows no sockets, clocks or HTTP libraries, so that it runs as it is on a simulated event loop.
"""

from __future__ import annotations

import asyncio
import random
from typing import Final

from prometheus_client import Counter

from svc_cluster.base.clock import Clock
from svc_cluster.base.errors import (
    DrainingError,
    HotServerError,
    InternalError,
    NotImplementedYetError,
    ServiceError,
)
from svc_cluster.base.log import get_logger
from svc_cluster.base.metrics import Metrics
from svc_cluster.gateway.backend import Backend
from svc_cluster.gateway.handlers import basins, health, records, streams
from svc_cluster.gateway.handlers.context import Call, Handler, Readiness, Services
from svc_cluster.gateway.http.dialect import detect
from svc_cluster.gateway.http.errors import error_response
from svc_cluster.gateway.http.message import ClientGoneError, Request, Response
from svc_cluster.gateway.http.negotiation import JSON_BODY_BYTES_MAX
from svc_cluster.gateway.http.router import (
    UNKNOWN_TEMPLATE,
    Operation,
    Resource,
    find_resource,
    route,
    split_path,
)

BODY_BYTES_IN_FLIGHT_MAX: Final = 256 * 1024 * 1024

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_ALWAYS_SERVED: Final = frozenset({"/health", "/ping", "/livez", "/readyz", "/metrics", "/version"})
_CORS_EXPOSED: Final = "s2-provision-result, svc-side-effects, retry-after-ms"

log = get_logger("gateway.app")


async def _later(call: Call) -> Response:
    raise NotImplementedYetError("not served yet")


_HANDLERS: Final[dict[Operation, Handler]] = {
    Operation.LIST_BASINS: basins.list_basins,
    Operation.CREATE_BASIN: basins.create_basin,
    Operation.GET_BASIN_CONFIG: basins.get_basin_config,
    Operation.DELETE_BASIN: basins.delete_basin,
    Operation.LIST_STREAMS: streams.list_streams,
    Operation.CREATE_STREAM: streams.create_stream,
    Operation.GET_STREAM_CONFIG: streams.get_stream_config,
    Operation.DELETE_STREAM: streams.delete_stream,
    Operation.APPEND: records.append,
    Operation.READ: records.read,
    Operation.CHECK_TAIL: records.check_tail,
    Operation.HEALTH: health.health,
    Operation.LIVEZ: health.livez,
    Operation.READYZ: health.readyz,
    Operation.METRICS: health.exposition,
    Operation.VERSION: health.version,
    Operation.LATER: _later,
}
assert _HANDLERS.keys() == set(Operation), "every operation has a handler"


class GatewayApp:
    """`handle` answers any request and raises nothing but ClientGoneError and cancellation."""

    def __init__(
        self,
        backend: Backend,
        *,
        clock: Clock,
        rng: random.Random,
        metrics: Metrics,
        readiness: Readiness = dict,
        version: str = "0",
        cors: bool = True,
        body_bytes_in_flight_max: int = BODY_BYTES_IN_FLIGHT_MAX,
    ) -> None:
        self._services = Services(
            backend=backend,
            clock=clock,
            rng=rng,
            metrics=metrics,
            readiness=readiness,
            version=version,
            draining=asyncio.Event(),
        )
        self.clock = clock
        self._cors = cors
        self._body_bytes = 0
        self._body_bytes_max = body_bytes_in_flight_max
        self._recorders: dict[tuple[str, str], _Recorder] = {}

    def drain(self) -> None:
        """From now on requests are refused, streams end, and readiness is false."""
        self._services.draining.set()

    async def handle(self, request: Request) -> Response:
        segments = split_path(request.raw_path)
        resource = find_resource(segments)
        recorder = self._recorder(request.method, resource)
        clock = self._services.clock
        begun = clock.monotonic()
        recorder.in_flight.inc()
        status = 499
        try:
            response = await self._answer(request, segments, resource)
            status = response.status
        finally:
            recorder.in_flight.dec()
            recorder.done(status, clock.monotonic() - begun)
        if self._cors and (origin := request.header("origin")) is not None:
            response.headers += [
                ("access-control-allow-origin", origin),
                ("access-control-allow-credentials", "true"),
                ("access-control-expose-headers", _CORS_EXPOSED),
            ]
        return response

    async def _answer(
        self, request: Request, segments: list[str], resource: Resource | None
    ) -> Response:
        dialect = detect(request.headers, seed_path=resource is not None and resource.seed_path)
        if request.method == "OPTIONS" and resource is not None:
            return self._options(request, resource)
        reserved = 0
        try:
            match = route(resource, segments, request.method)
            if self._services.draining.is_set() and match.template not in _ALWAYS_SERVED:
                raise DrainingError("the server is stopping; try another")
            if request.method not in _SAFE_METHODS:
                reserved = self._reserve_body(request)
            call = Call(self._services, request, match, dialect)
            return await _HANDLERS[match.operation](call)
        except ClientGoneError:
            raise
        except Exception as failure:  # the one place that turns a fault of ours into a 500
            refusal = _refusal(failure, resource)
        finally:
            self._release_body(reserved)
        return error_response(refusal, dialect, is_write=request.method not in _SAFE_METHODS)

    def _options(self, request: Request, resource: Resource) -> Response:
        """Also the answer to a browser's preflight, which carries no credentials."""
        headers = [("allow", resource.allow)]
        if self._cors and request.header("origin") is not None:
            wanted = request.header("access-control-request-headers")
            headers.append(("access-control-allow-methods", resource.allow))
            if wanted is not None:
                headers.append(("access-control-allow-headers", wanted))
        return Response(204, headers)

    def _reserve_body(self, request: Request) -> int:
        """Bytes this body may take in memory, counted against all others.

        Raises HotServerError when there is no room, before any of it is read.
        """
        length = request.header("content-length")
        size = JSON_BODY_BYTES_MAX
        if length is None and request.header("transfer-encoding") is None:
            size = 0
        elif (
            length is not None
            and request.header("content-encoding") is None
            and length.isascii()
            and length.isdigit()
            and len(length) < 20
        ):
            size = min(int(length), JSON_BODY_BYTES_MAX)
        if self._body_bytes + size > self._body_bytes_max:
            raise HotServerError("too many request bodies at once")
        self._body_bytes += size
        self._services.metrics.http_body_bytes_in_flight.set(self._body_bytes)
        return size

    def _release_body(self, size: int) -> None:
        if size:
            self._body_bytes -= size
            self._services.metrics.http_body_bytes_in_flight.set(self._body_bytes)

    def _recorder(self, method: str, resource: Resource | None) -> _Recorder:
        template = _template(resource)
        recorder = self._recorders.get((method, template))
        if recorder is None:
            label = method if method in _METHODS else "OTHER"
            recorder = _Recorder(self._services.metrics, label, template)
            if label == method:
                self._recorders[method, template] = recorder
        return recorder


def _template(resource: Resource | None) -> str:
    return UNKNOWN_TEMPLATE if resource is None else resource.template


def _refusal(failure: Exception, resource: Resource | None) -> ServiceError:
    """What the client is told. A fault of ours is logged here, once, and told without detail."""
    if isinstance(failure, ServiceError) and not isinstance(failure, InternalError):
        return failure
    log.error("request_failed", route=_template(resource), exc_info=failure)
    return InternalError("internal")


class _Recorder:
    """The metrics of one method and route, looked up once."""

    __slots__ = ("_by_status", "_duration", "_labels", "_requests", "in_flight")

    def __init__(self, metrics: Metrics, method: str, template: str) -> None:
        self.in_flight = metrics.http_requests_in_flight.labels(template)
        self._duration = metrics.http_request_duration.labels(method, template)
        self._requests = metrics.http_requests
        self._labels = (method, template)
        self._by_status: dict[int, Counter] = {}

    def done(self, status: int, seconds: float) -> None:
        self._duration.observe(seconds)
        counter = self._by_status.get(status)
        if counter is None:
            counter = self._by_status[status] = self._requests.labels(*self._labels, str(status))
        counter.inc()
