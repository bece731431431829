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

from svc_cluster.base.audit_trail import AuditTrail, LogSink
from svc_cluster.base.clock import Clock
from svc_cluster.base.errors import (
    DrainingError,
    ErrorCode,
    InternalError,
    ServiceError,
)
from svc_cluster.base.log import get_logger
from svc_cluster.base.metrics import Metrics
from svc_cluster.base.tasks import Tasks
from svc_cluster.gateway.access.audit import Audit, Note, Subject
from svc_cluster.gateway.access.authentication import (
    EVERYBODY,
    FOREIGN_PAGE_CALLER,
    AccessControl,
    Caller,
)
from svc_cluster.gateway.access.authorization import authorize
from svc_cluster.gateway.api.compressions import Compressions
from svc_cluster.gateway.api.context import Call, Readiness, Services, Siblings
from svc_cluster.gateway.api.health import own_page, pages
from svc_cluster.gateway.api.shared_page import SharedPage
from svc_cluster.gateway.api.turns import Turns
from svc_cluster.gateway.cluster.backend import Backend
from svc_cluster.gateway.cluster.node_client import NodeBackend
from svc_cluster.gateway.cluster.token_client import TokenBackend
from svc_cluster.gateway.cluster.usage_client import UsageBackend
from svc_cluster.gateway.console.assets import assets
from svc_cluster.gateway.endpoints.reference import reference_of
from svc_cluster.gateway.endpoints.table import ROUTER
from svc_cluster.gateway.limits.admission import (
    IN_PROGRESS_MAX,
    STREAMS_OPEN_MAX,
    Admission,
    StreamPlace,
)
from svc_cluster.gateway.limits.body_budget import BODY_BYTES_IN_FLIGHT_MAX
from svc_cluster.gateway.limits.budgeted_body import BudgetedBody
from svc_cluster.gateway.limits.gateway_memory import GATEWAY_BYTES_MAX, GatewayMemory
from svc_cluster.gateway.limits.rate_limiter import UNLIMITED, RateLimiter
from svc_cluster.gateway.records.fanout import SharedTails
from svc_cluster.gateway.records.sealer import Sealer
from svc_cluster.gateway.request.caching import tell_caches
from svc_cluster.gateway.request.compress import coding_of, keep_coded
from svc_cluster.gateway.request.cross_origin import CrossOrigin
from svc_cluster.gateway.request.endpoint import Moves
from svc_cluster.gateway.request.error_answers import error_response, refused
from svc_cluster.gateway.request.fault_lines import FaultLines
from svc_cluster.gateway.request.head_reading import HeadReading, read_head
from svc_cluster.gateway.request.host_names import OwnNames
from svc_cluster.gateway.request.negotiation import BodyFormat
from svc_cluster.gateway.request.refusals import without_frames
from svc_cluster.gateway.request.request_head import RequestHead
from svc_cluster.gateway.request.request_id import REQUEST_ID_HEADER, RequestIds
from svc_cluster.gateway.request.request_log import RequestLog, Stages
from svc_cluster.gateway.request.route_metrics import METHODS, RouteMetrics, template_of
from svc_cluster.gateway.request.router import Match, Resource
from svc_cluster.gateway.usage.reporter import INTERVAL_SECONDS, reporter_of
from svc_cluster.gateway.usage.usage_ledger import UsageLedger
from svc_cluster.http.message import ClientGoneError, Request, Response
from svc_cluster.model.usage import REPORTER_BYTES

_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})

log = get_logger("gateway.app")


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
        memory_bytes_max: int = GATEWAY_BYTES_MAX,
        body_bytes_in_flight_max: int = BODY_BYTES_IN_FLIGHT_MAX,
        secure_random: Callable[[int], bytes] = os.urandom,
        nodes: NodeBackend | None = None,
        tokens: TokenBackend | None = None,
        access: AccessControl | None = None,
        audit: AuditTrail | None = None,
        limiter: RateLimiter | None = None,
        usage: UsageBackend | None = None,
        usage_interval_seconds: float = INTERVAL_SECONDS,
        requests_in_progress_max: int = IN_PROGRESS_MAX,
        streams_open_max: int = STREAMS_OPEN_MAX,
        request_log: RequestLog | None = None,
    ) -> None:
        """Hosts of basins end with `basin_host_suffixes`, by default with `b` and any domain.
        The `public_hosts` are answered for where nobody is asked for a token. `secure_random`:
        where the nonces of encrypted records and the secrets of access tokens come from. None
        stands for nobody and nothing: of `nodes`, who tell of the cluster; of `tokens`, where
        those are kept; of `access`, who is asked for one; of `limiter`; of `usage`, where use is
        told; and of `request_log`. `audit`: where writes to the control plane are told; None: in
        the log. `memory_bytes_max`: what is held on behalf of clients, bodies among it."""
        reporter_id = bytes(REPORTER_BYTES) if usage is None else rng.randbytes(REPORTER_BYTES)
        ledger = UsageLedger(clock, reporter_id)
        self._reporter = reporter_of(ledger, usage, metrics, usage_interval_seconds)
        turns = Turns()
        self._audit = Audit(audit or AuditTrail(LogSink()), clock, metrics.audit_suppressed)
        self.memory = memory = GatewayMemory(metrics, memory_bytes_max, body_bytes_in_flight_max)
        tails = SharedTails(backend, clock, self.memory.tails_bytes_max)
        memory.add("tails", lambda: tails.held_bytes)
        memory.add("audit", lambda: self._audit.held_bytes)
        memory.add("usage", lambda: ledger.held_bytes)
        self._services = Services(
            backend=backend,
            tails=tails,
            sealer=Sealer(backend, secure_random, turns.turn),
            turns=turns,
            clock=clock,
            faults=FaultLines(clock),
            rng=rng,
            metrics=metrics,
            readiness=readiness,
            version=version,
            metrics_page=SharedPage(clock, turns),
            compression=compression,
            reference=lambda: reference_of(version),
            draining=asyncio.Event(),
            memory=memory,
            nodes=nodes,
            tokens=tokens,
            random_bytes=secure_random,
            audit=self._audit,
            usage=ledger,
            usage_reporter=self._reporter,
        )
        self.clock = clock
        self._access = access
        self._limiter = limiter
        self._compressions = Compressions(turns)
        memory.add("compression", lambda: self._compressions.held_bytes)
        self._host_suffixes = basin_host_suffixes
        self._own_names = OwnNames(public_hosts, basin_host_suffixes) if access is None else None
        self._routes = RouteMetrics(metrics)
        self._log = request_log or RequestLog(clock, metrics.request_lines_left_out)
        self._cross_origin = CrossOrigin(self._own_names, is_on=cors)
        self._admission = Admission(requests_in_progress_max, streams_open_max, clock, metrics)
        self._ids = RequestIds(secure_random)
        self._tasks = Tasks()

    def start(self) -> None:
        """Begin what runs for all requests together, and make what takes long beforehand."""
        for page in (*pages(self._services), *(asset.content for asset in assets().values())):
            keep_coded(page)
        self._tasks.spawn(self._admission.watch_the_loop(), "watch how late the loop is")
        if self._reporter is not None:
            self._reporter.start()

    def join(self, siblings: Siblings) -> None:
        """Others serve the same port: who asks for metrics is told those of all."""
        self._services = replace(self._services, siblings=siblings)

    async def own_page(self) -> bytes:
        """Return the metrics of this process alone."""
        return await own_page(self._services)

    def limit(self, limiter: RateLimiter) -> None:
        """Requests are charged to these limits from now on."""
        self._limiter = limiter

    def drain(self) -> None:
        """From now on requests are refused, streams end, and readiness is false."""
        self._services.draining.set()
        self._services.tails.drain()

    async def close(self) -> None:
        """End what runs for all requests together; none is answered any more."""
        await self._tasks.cancel_all()
        await self._services.metrics_page.close()
        await self._services.tails.close()
        if self._services.nodes is not None:
            await self._services.nodes.close()
        self._audit.flush()
        if self._reporter is not None:
            await self._reporter.close()

    def refuse(self, error: ServiceError) -> Response:
        """The answer to what the HTTP server could make no request of."""
        response = refused(error)
        response.headers.append((REQUEST_ID_HEADER, self._ids.fresh()))
        return response

    async def handle(self, request: Request) -> Response:
        request.id = self._ids.of(request)
        reading = read_head(request, ROUTER, self._host_suffixes)
        segments, resource, host_basin = reading.segments, reading.resource, reading.host_basin
        recorder = self._routes.of(request.method, resource)
        clock = self._services.clock
        begun = clock.monotonic()
        stages = self._log.begin(request)
        recorder.in_flight.count += 1
        status = 499
        note = self._audit.begin(request, resource, segments, host_basin)
        response: Response | None = None
        try:
            response = await self._answer(request, reading, note, stages)
            status = response.status
        finally:
            if response is None:
                self._log.unanswered(request, resource, stages)
            if note is not None:
                self._audit.end(note, response)
            recorder.in_flight.count -= 1
            recorder.done(status, clock.monotonic() - begun)
        response.headers.append((REQUEST_ID_HEADER, request.id))
        coding = coding_of(request, response) if self._services.compression else None
        if coding is not None:
            stages.enter("compression")
            is_page = resource is not None and resource.is_page and status == 200
            await self._compressions.compress(response, coding, is_page=is_page)
        self._log.made(request, resource, stages, response)
        tell_caches(request, response)
        self._cross_origin.grant(request, response)
        return response

    async def _answer(
        self,
        request: Request,
        reading: HeadReading,
        note: Note | None,
        stages: Stages,
    ) -> Response:
        resource, dialect = reading.resource, reading.dialect
        is_write = request.method not in _SAFE_METHODS
        body: BudgetedBody | None = None
        allowance = UNLIMITED
        is_probe = resource is not None and resource.is_probe
        places = 0
        stream: StreamPlace | None = None
        try:
            places = self._admission.enter(is_probe=is_probe)
            if self._own_names is not None:
                self._own_names.check(request)
            if request.method == "OPTIONS" and self._has_options(request, resource):
                allow = ", ".join(sorted(METHODS)) if resource is None else resource.allow
                return self._cross_origin.options(request, allow)
            stages.enter("access")
            caller = None if self._access is None else self._access.kept_caller(request)
            if caller is None:
                caller = await self._caller(request, resource)
            if note is not None:
                self._audit.known(note, caller)
            match, head = self._permitted(request, reading, caller, stages)
            moves = match.endpoint.moves
            if is_stream := _is_stream(moves, head):
                stream = self._admission.open_stream()
            if self._limiter is not None and match.endpoint.need is not None:
                allowance = self._limiter.admit(request, moves, caller.payer, is_stream=is_stream)
            if is_write:
                request, body = self._with_budget(request, head)
                stages.reads(body)
            if note is not None:
                self._audit.allowed(note, match)
            subject = Subject() if note is None else note.subject
            call = Call(
                self._services, request, match, head, dialect, caller, subject, allowance, stages
            )
            stages.enter("handler")
            return await self._served(call, stream, is_write=is_write)
        except ClientGoneError:
            raise
        except Exception as failure:  # the one place that turns a fault of ours into a 500
            refusal = self._refusal(failure, resource, request.id)
            stages.refused(refusal)
            if note is not None:
                note.refusal = refusal
        finally:
            if body is not None:
                body.release()
            allowance.close()
            if stream is not None:
                stream.leave_unopened()
            self._admission.leave(places)
        if refusal.code is ErrorCode.QUOTA_EXHAUSTED:
            self._services.metrics.quota_refusals.labels(template_of(resource)).inc()
        without_frames(refusal)
        response = error_response(refusal, dialect, is_write=is_write)
        response.close = body is not None and body.cut
        return response

    def _permitted(
        self,
        request: Request,
        reading: HeadReading,
        caller: Caller,
        stages: Stages,
    ) -> tuple[Match, RequestHead]:
        """What the caller wants, which may be done, and done now."""
        if reading.resource is None:
            raise ROUTER.nothing_at(reading.segments)
        match, head = reading.routed(request)
        stages.known(match, head)
        if match.stream is not None:
            caller.check_stream(head, match.stream)
        match = reading.granted(caller.grant, authorize)
        stages.known(match, head)
        head.check_parameters(match.endpoint)
        if self._services.draining.is_set() and match.endpoint.need is not None:
            raise DrainingError("the server is stopping; try another")
        return match, head

    async def _served(self, call: Call, stream: StreamPlace | None, *, is_write: bool) -> Response:
        handler = call.match.endpoint.handler
        if is_write or call.caller is EVERYBODY:
            response = await handler(call)
        else:
            async with call.caller.while_valid():  # it may be a long wait
                response = await handler(call)
        if stream is None and call.match.endpoint.need is not None:
            answers = self._services.memory.answers
            answers.count(response, call.request.connection, is_refused=not is_write)
        self._services.usage.served(call.match.endpoint, call.head, response)
        if stream is not None:
            response.place = stream
            stream.is_open = True
        return response

    async def _caller(self, request: Request, resource: Resource | None) -> Caller:
        """Who asks, before anything else is looked at, be it the path."""
        is_free = resource is not None and resource.is_free
        if self._access is None or is_free:
            names = self._own_names
            is_foreign = names is not None and names.is_of_foreign_page(request)
            return FOREIGN_PAGE_CALLER if is_foreign else EVERYBODY
        method = "GET" if request.method == "HEAD" else request.method
        endpoint = None if resource is None else resource.methods.get(method)
        takes_ticket = endpoint is not None and endpoint.takes_ticket
        return await self._access.caller_of(request, takes_ticket=takes_ticket)

    def _with_budget(self, request: Request, head: RequestHead) -> tuple[Request, BudgetedBody]:
        """The request as the handler gets it: what it reads is counted and decoded. A session's
        body is passed on as it is sent, with its headers."""
        is_protobuf = head.body_format is BodyFormat.PROTOBUF
        malformed = ErrorCode.BAD_PROTO if is_protobuf else ErrorCode.BAD_JSON
        budget = self._services.memory.bodies
        body = BudgetedBody(request, budget, self.clock, malformed, head.body)
        headers = None
        if request.header("content-encoding") is not None and head.session_type is None:
            headers = [header for header in request.headers if header[0] != "content-encoding"]
        return request.with_body(body, headers), body

    def _refusal(
        self, failure: Exception, resource: Resource | None, request_id: str
    ) -> ServiceError:
        """What the client is told. A fault of ours is logged here, and told without detail."""
        if isinstance(failure, ServiceError) and not isinstance(failure, InternalError):
            return failure
        told = {"route": template_of(resource), "request_id": request_id}
        self._services.faults.tell(log, "request_failed", failure, **told)
        return InternalError("internal")

    def _has_options(self, request: Request, resource: Resource | None) -> bool:
        """Whether OPTIONS is answered, without asking who asks. That is for what there is and for
        the server as a whole, and to a preflight of anything: else no page would see the 404."""
        is_of_server = request.raw_path == "*"
        return resource is not None or is_of_server or self._cross_origin.is_preflight(request)


def _is_stream(moves: Moves, head: RequestHead) -> bool:
    """Whether the answer is a session or a stream of events, which may stay open for ever."""
    if head.session_type is not None:
        return moves is not Moves.NOTHING
    return moves is Moves.READ and head.accepts_events
