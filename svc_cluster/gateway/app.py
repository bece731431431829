"""The gateway as a function from request to response: routing, errors, metrics, draining.

Knows no sockets, clocks or HTTP libraries, so that it runs as it is on a simulated event loop.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from prometheus_client import Counter

from svc_cluster.base.audit import AuditTrail, LogSink
from svc_cluster.base.clock import Clock
from svc_cluster.base.errors import (
    DrainingError,
    ErrorCode,
    InternalError,
    ServiceError,
)
from svc_cluster.base.log import get_logger
from svc_cluster.base.metrics import Metrics
from svc_cluster.gateway.audit import Audit, Note, Subject
from svc_cluster.gateway.authentication import EVERYBODY, AccessControl, Caller
from svc_cluster.gateway.authorization import authorize
from svc_cluster.gateway.backend import Backend
from svc_cluster.gateway.fanout import SharedTails
from svc_cluster.gateway.handlers import basins, health, locations, records, streams, tokens
from svc_cluster.gateway.handlers import metrics as usage_metrics
from svc_cluster.gateway.handlers.context import Call, Handler, Readiness, Services
from svc_cluster.gateway.http.body_budget import BODY_BYTES_IN_FLIGHT_MAX, BodyBudget
from svc_cluster.gateway.http.budget import BudgetedBody
from svc_cluster.gateway.http.compress import compress_response
from svc_cluster.gateway.http.dialect import detect
from svc_cluster.gateway.http.errors import error_response
from svc_cluster.gateway.http.formats import accepts_events, session_type
from svc_cluster.gateway.http.host import basin_of_host
from svc_cluster.gateway.http.message import ClientGoneError, Request, Response
from svc_cluster.gateway.http.negotiation import PROTOBUF_TYPES, SESSION_TYPES, media_type
from svc_cluster.gateway.http.own_names import OwnNames
from svc_cluster.gateway.http.refusals import without_frames
from svc_cluster.gateway.http.router import (
    UNKNOWN_TEMPLATE,
    Operation,
    Resource,
    find_resource,
    route,
    split_path,
)
from svc_cluster.gateway.rate_limiter import UNLIMITED, RateLimiter
from svc_cluster.gateway.sealer import Sealer
from svc_cluster.gateway.token_client import TokenBackend
from svc_cluster.gateway.usage import UsageLedger
from svc_cluster.gateway.usage_client import UsageBackend
from svc_cluster.gateway.usage_reporter import INTERVAL_SECONDS, UsageReporter
from svc_cluster.model.usage import REPORTER_BYTES

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_ALWAYS_SERVED: Final = frozenset(
    {"/health", "/ping", "/livez", "/readyz", "/metrics", "/version", "/openapi.json"}
)
_CORS_EXPOSED: Final = "s2-provision-result, svc-side-effects, retry-after-ms"

log = get_logger("gateway.app")


_HANDLERS: Final[dict[Operation, Handler]] = {
    Operation.LIST_BASINS: basins.list_basins,
    Operation.CREATE_BASIN: basins.create_basin,
    Operation.ENSURE_BASIN: basins.ensure_basin,
    Operation.RECONFIGURE_BASIN: basins.reconfigure_basin,
    Operation.GET_BASIN_CONFIG: basins.get_basin_config,
    Operation.DELETE_BASIN: basins.delete_basin,
    Operation.LIST_STREAMS: streams.list_streams,
    Operation.CREATE_STREAM: streams.create_stream,
    Operation.ENSURE_STREAM: streams.ensure_stream,
    Operation.RECONFIGURE_STREAM: streams.reconfigure_stream,
    Operation.GET_STREAM_CONFIG: streams.get_stream_config,
    Operation.DELETE_STREAM: streams.delete_stream,
    Operation.LIST_TOKENS: tokens.list_tokens,
    Operation.ISSUE_TOKEN: tokens.issue_token,
    Operation.REVOKE_TOKEN: tokens.revoke_token,
    Operation.LIST_LOCATIONS: locations.list_locations,
    Operation.GET_DEFAULT_LOCATION: locations.get_default_location,
    Operation.SET_DEFAULT_LOCATION: locations.set_default_location,
    Operation.ACCOUNT_METRICS: usage_metrics.account_metrics,
    Operation.BASIN_METRICS: usage_metrics.basin_metrics,
    Operation.STREAM_METRICS: usage_metrics.stream_metrics,
    Operation.APPEND: records.append,
    Operation.READ: records.read,
    Operation.CHECK_TAIL: records.check_tail,
    Operation.HEALTH: health.health,
    Operation.LIVEZ: health.livez,
    Operation.READYZ: health.readyz,
    Operation.METRICS: health.exposition,
    Operation.VERSION: health.version,
    Operation.OPENAPI: health.openapi,
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
        compression: bool = True,
        basin_host_suffixes: Sequence[str] | None = None,
        public_hosts: Sequence[str] = (),
        body_bytes_in_flight_max: int = BODY_BYTES_IN_FLIGHT_MAX,
        secure_random: Callable[[int], bytes] = os.urandom,
        tokens: TokenBackend | None = None,
        access: AccessControl | None = None,
        audit: AuditTrail | None = None,
        limiter: RateLimiter | None = None,
        usage: UsageBackend | None = None,
        usage_interval_seconds: float = INTERVAL_SECONDS,
    ) -> None:
        """`basin_host_suffixes`: what follows a basin's name in a host name; None: `b` and any
        domain (http/host.py). `public_hosts`: names that are answered for where nobody is asked for
        a token (http/own_names.py). `secure_random`: where the nonces of encrypted records come
        from, and the secrets of access tokens. `tokens`: where those are kept; None: they are not
        served. `access`: None: nobody is asked for one. `audit`: where writes to the control plane
        are told; None: in the log. `limiter`: None: there are no limits of rates. `usage`: where
        use is reported to, at this interval; None: it is not, nor told."""
        reporter_id = bytes(REPORTER_BYTES) if usage is None else rng.randbytes(REPORTER_BYTES)
        ledger = UsageLedger(clock, reporter_id)
        self._reporter: UsageReporter | None = None
        if usage is not None:
            self._reporter = UsageReporter(
                ledger, usage, metrics, interval_seconds=usage_interval_seconds
            )
        trail = audit or AuditTrail(LogSink())
        self._audit = Audit(trail, clock, metrics.audit_suppressed)
        self._services = Services(
            backend=backend,
            tails=SharedTails(backend, clock),
            sealer=Sealer(backend, secure_random),
            clock=clock,
            rng=rng,
            metrics=metrics,
            readiness=readiness,
            version=version,
            draining=asyncio.Event(),
            body_budget=BodyBudget(
                body_bytes_in_flight_max,
                metrics.http_body_bytes_in_flight,
                metrics.http_bodies_waiting,
            ),
            tokens=tokens,
            random_bytes=secure_random,
            audit=self._audit,
            usage=ledger,
            usage_reporter=self._reporter,
        )
        self.clock = clock
        self._access = access
        self._limiter = limiter
        self._cors = cors
        self._compression = compression
        self._host_suffixes = basin_host_suffixes
        self._own_names = OwnNames(public_hosts, basin_host_suffixes) if access is None else None
        self._recorders: dict[tuple[str, str], _Recorder] = {}

    def start(self) -> None:
        """Begin what runs for all requests together."""
        if self._reporter is not None:
            self._reporter.start()

    def drain(self) -> None:
        """From now on requests are refused, streams end, and readiness is false."""
        self._services.draining.set()
        self._services.tails.drain()

    async def close(self) -> None:
        """End what runs for all requests together; none is answered any more."""
        await self._services.tails.close()
        self._audit.flush()
        if self._reporter is not None:
            await self._reporter.close()

    async def handle(self, request: Request) -> Response:
        segments = split_path(request.raw_path)
        resource = find_resource(segments)
        recorder = self._recorder(request.method, resource)
        clock = self._services.clock
        begun = clock.monotonic()
        recorder.in_flight.inc()
        status = 499
        host_basin = basin_of_host(request.header("host"), self._host_suffixes)
        note = self._audit.begin(request, resource, segments, host_basin)
        response: Response | None = None
        try:
            response = await self._answer(request, segments, resource, host_basin, note)
            status = response.status
        finally:
            if note is not None:
                self._audit.end(note, response)
            recorder.in_flight.dec()
            recorder.done(status, clock.monotonic() - begun)
        if self._compression:
            compress_response(request, response)
        if (origin := self._page(request)) is not None:
            response.headers += [
                ("access-control-allow-origin", origin),
                ("access-control-allow-credentials", "true"),
                ("access-control-expose-headers", _CORS_EXPOSED),
            ]
        return response

    async def _answer(
        self,
        request: Request,
        segments: list[str],
        resource: Resource | None,
        host_basin: str | None,
        note: Note | None,
    ) -> Response:
        dialect = detect(
            request.headers,
            seed_path=resource is not None and resource.seed_path,
            host_basin=host_basin is not None,
        )
        is_write = request.method not in _SAFE_METHODS
        body: BudgetedBody | None = None
        allowance = UNLIMITED
        try:
            if self._own_names is not None:
                self._own_names.check(request)
            if request.method == "OPTIONS" and resource is not None:
                return self._options(request, resource)
            caller = await self._caller(request, resource)
            if note is not None:
                self._audit.known(note, caller)
            match = route(resource, segments, request.method, host_basin)
            match = authorize(caller.grant, match, request)
            if self._services.draining.is_set() and match.template not in _ALWAYS_SERVED:
                raise DrainingError("the server is stopping; try another")
            if self._limiter is not None and match.template not in _ALWAYS_SERVED:
                allowance = self._limiter.admit(
                    request,
                    match.operation,
                    caller.payer,
                    is_stream=session_type(request) is not None or accepts_events(request),
                )
            if is_write:
                request, body = self._with_budget(request)
            if note is not None:
                self._audit.allowed(note, match)
            handler = _HANDLERS[match.operation]
            subject = Subject() if note is None else note.subject
            call = Call(self._services, request, match, dialect, caller, subject, allowance)
            return await self._served(handler, call, is_write=is_write)
        except ClientGoneError:
            raise
        except Exception as failure:  # the one place that turns a fault of ours into a 500
            refusal = _refusal(failure, resource)
            if note is not None:
                note.refusal = refusal
        finally:
            if body is not None:
                body.release()
            allowance.close()
        if refusal.code is ErrorCode.QUOTA_EXHAUSTED:
            self._services.metrics.quota_refusals.labels(_template(resource)).inc()
        without_frames(refusal)
        response = error_response(refusal, dialect, is_write=is_write)
        response.close = body is not None and body.cut
        return response

    async def _served(self, handler: Handler, call: Call, *, is_write: bool) -> Response:
        if is_write or call.caller is EVERYBODY:
            response = await handler(call)
        else:
            async with call.caller.while_valid():  # it may be a long wait
                response = await handler(call)
        self._services.usage.served(call.match, call.request, response)
        return response

    async def _caller(self, request: Request, resource: Resource | None) -> Caller:
        """Who asks, before anything else is looked at, be it the path."""
        is_free = resource is not None and resource.template in _ALWAYS_SERVED
        if self._access is None or is_free:
            return EVERYBODY
        return await self._access.caller_of(request)

    def _with_budget(self, request: Request) -> tuple[Request, BudgetedBody]:
        """The request as the handler gets it: what it reads is counted and decoded. A session's
        body is passed on as it is sent, with its headers."""
        kind = media_type(request.header("content-type"))
        malformed = ErrorCode.BAD_PROTO if kind in PROTOBUF_TYPES else ErrorCode.BAD_JSON
        body = BudgetedBody(request, self._services.body_budget, self.clock, malformed)
        headers = request.headers
        if request.header("content-encoding") is not None and kind not in SESSION_TYPES:
            headers = [header for header in headers if header[0] != "content-encoding"]
        wanted = replace(request, headers=headers, body=body, _by_name=None)
        return wanted, body

    def _options(self, request: Request, resource: Resource) -> Response:
        """Also the answer to a browser's preflight, which carries no credentials: what it asks
        for is granted, and whatever is not allowed is refused when it comes."""
        headers = [("allow", resource.allow)]
        if self._page(request) is not None:
            method = request.header("access-control-request-method") or resource.allow
            headers.append(("access-control-allow-methods", method))
            wanted = request.header("access-control-request-headers")
            if wanted is not None:
                headers.append(("access-control-allow-headers", wanted))
        return Response(204, headers)

    def _page(self, request: Request) -> str | None:
        """The origin of the page that may read the answer, if one asks that may."""
        origin = request.header("origin") if self._cors else None
        if origin is None or self._own_names is None or self._own_names.is_page(origin):
            return origin
        return None

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
