"""Answers the requests of gateways and other nodes: decode, dispatch, encode. No sockets here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import (
    DeadlineError,
    ErrorCode,
    HotServerError,
    InternalError,
    MalformedError,
    ReadDeadlineError,
    SealMismatchError,
    ServiceError,
    UnavailableError,
)
from svc_cluster.base.ids import CATALOG_GROUP, GroupId, TimestampMs
from svc_cluster.base.log import get_logger
from svc_cluster.base.tracing import TraceContext
from svc_cluster.codec import config_pb, rpc
from svc_cluster.codec.access_pb import AccessFormatError
from svc_cluster.codec.trace_pb import TraceFormatError, get_trace
from svc_cluster.link.frame import FrameKind
from svc_cluster.model.idempotency_table import REQUEST_KEY_BYTES
from svc_cluster.model.leader_stages import LeaderStages
from svc_cluster.model.read_bounds import ReadStart, StartKind
from svc_cluster.model.record import AppendAck
from svc_cluster.replica.answer_room import RoomReservation
from svc_cluster.replica.append import COMMAND_BYTES, Decision
from svc_cluster.replica.asking_nodes import asking_nodes
from svc_cluster.replica.basin import BasinReplica
from svc_cluster.replica.basin_operations import BasinOperations
from svc_cluster.replica.callbacks import result_of
from svc_cluster.replica.caller_shares import CallerShares
from svc_cluster.replica.catalog import CatalogReplica
from svc_cluster.replica.catalog_operations import CatalogOperations
from svc_cluster.replica.change_operations import ChangeOperations
from svc_cluster.replica.drain_operations import DrainOperations
from svc_cluster.replica.freezing import Freezing
from svc_cluster.replica.group_views import GroupViews
from svc_cluster.replica.host import Host
from svc_cluster.replica.join_operations import JoinOperations
from svc_cluster.replica.lead_balance import LeadBalance
from svc_cluster.replica.lead_operations import LeadOperations
from svc_cluster.replica.member_operations import MemberOperations
from svc_cluster.replica.node_loads import NodeLoads
from svc_cluster.replica.node_questions import gateways_elsewhere
from svc_cluster.replica.node_traces import TracedStages
from svc_cluster.replica.operation_rules import (
    CHANGES,
    NEVER_REFUSED,
    ROOM_BYTES,
    UNDOING,
    UNREFUSED_BYTES_MAX,
    WRITES,
)
from svc_cluster.replica.overview import Overview
from svc_cluster.replica.provisioning import Provisioning
from svc_cluster.replica.read import ReadRequest
from svc_cluster.replica.rebalancing import Rebalancing
from svc_cluster.replica.repeatable import Fill, Operation, say_done
from svc_cluster.replica.replacement_operations import ReplacementOperations
from svc_cluster.replica.replica_moves import ReplicaMoves
from svc_cluster.replica.service_session import AnswerChannel, ServiceSession
from svc_cluster.replica.token_operations import TokenOperations
from svc_cluster.replica.usage_operations import UsageOperations
from svc_cluster.replica.working import Working
from svc_cluster.stream.apply import Outcome
from svc_cluster.stream.commands import Write

log = get_logger("service")

DEADLINE_MS_MAX: Final = 60_000
"""Nobody waits for an answer longer: gateways ask for 4 s, and reads wait some seconds more."""


class Service:
    """All operations of a node, by name of the request's field."""

    def __init__(self, host: Host, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._host = host
        self._traces = host.services.traces
        self._working = Working()
        self._shares = CallerShares()
        self.balance = LeadBalance(host)
        self.moves = ReplicaMoves(host)
        self._loads = NodeLoads(host)
        self._sessions: set[ServiceSession] = set()
        host.memory.add("requests", lambda: sum(one.asked_bytes for one in self._sessions))
        host.memory.add("answers", lambda: sum(one.answer_bytes for one in self._sessions))
        self._operations: dict[str, Operation] = {
            **BasinOperations(self._basin, self._change, self._write, self._deadline).operations,
            **Provisioning(self._basin, self._write, host.services.version).operations,
            **Freezing(self._basin, self._change, host.services.version).operations,
            **CatalogOperations(
                self._catalog,
                self._deadline,
                partial(gateways_elsewhere, host),
                partial(asking_nodes, host),
                self._loads,
            ).operations,
            **Rebalancing(self._catalog, host, self.moves).operations,
            **DrainOperations(self._catalog, self._deadline).operations,
            **JoinOperations(self._catalog, self._deadline, host).operations,
            **ReplacementOperations(self._catalog, self._deadline, host).operations,
            **TokenOperations(self._catalog, host.services.clock).operations,
            **UsageOperations(
                self._basin,
                self._catalog,
                self._change,
                self._deadline,
                lambda: host.basins.values(),
                host.services.version,
            ).operations,
            **Overview(host).operations,
            **GroupViews(host).operations,
            **MemberOperations(host).operations,
            **LeadOperations(self._catalog, host, self.balance).operations,
            **ChangeOperations(self._catalog, self._deadline, host).operations,
        }

    def session(self, caller: AnswerChannel, name: str = "") -> ServiceSession:
        """A conversation of the caller that is called so: all of one caller have its share."""
        session = ServiceSession(self, caller, self._sessions.discard, name, self._shares)
        self._sessions.add(session)
        return session

    async def close(self) -> None:
        await self._loads.stop()
        await self._working.cancel_all()

    def dispatch(self, session: ServiceSession, request: pb.Request) -> None:
        operation = request.WhichOneof("operation")
        if operation == "ping":
            session.respond(request.id, say_done)
            return
        request.deadline_ms = min(request.deadline_ms, DEADLINE_MS_MAX)
        size = session.byte_count(request.id)
        if len(request.request_key) not in (0, REQUEST_KEY_BYTES):
            fault = "a request key has another length"
            session.refuse(request.id, MalformedError(ErrorCode.BAD_PROTO, fault))
        elif operation == "append":
            # the hot path: no task, no future, one callback
            self._append(session, request, size)
        elif not self._is_worked_on(session, operation, size):
            session.refuse(request.id, HotServerError("the node has too many requests to answer"))
        elif operation in ROOM_BYTES:
            work = self._answer_long(session, request, operation)
            task = self._working.begin(session.name, work, size)
            session.works(request.id, task, FrameKind.BULK)
        elif operation in CHANGES:
            self._begin_change(session, request, operation)
        elif operation in self._operations:
            work = self._answer(session, request, self._operations[operation])
            task = self._working.begin(session.name, work, size)
            session.works(request.id, task, FrameKind.CALL)
        else:
            session.refuse(
                request.id, MalformedError(ErrorCode.NOT_IMPLEMENTED, "unknown operation")
            )

    def _begin_change(self, session: ServiceSession, request: pb.Request, operation: str) -> None:
        """Its command is going to wait where nobody takes it back; its request counts as long."""
        try:
            if operation not in UNDOING:
                self._host.memory.admit(request.ByteSize())
        except UnavailableError as refusal:
            session.refuse(request.id, refusal)
            return
        asked = self._operations[operation]
        work = self._answer(session, request, asked)
        _ = self._working.begin(session.name, work, session.byte_count(request.id))

    def _is_worked_on(self, session: ServiceSession, operation: str | None, size: int) -> bool:
        """Whether there is room for one more request of this caller, or it needs none."""
        if operation in NEVER_REFUSED and size <= UNREFUSED_BYTES_MAX:
            return True
        return self._working.has_room(session.name, size)

    async def _answer_long(
        self, session: ServiceSession, request: pb.Request, operation: str
    ) -> None:
        """Does what `_answer` does, with room for the answer until it is one that is to leave."""
        byte_count = ROOM_BYTES[operation]
        if request.read.HasField("portion_bytes"):
            byte_count = min(request.read.portion_bytes, byte_count)
        with RoomReservation(session.room, GroupId(request.group_id), byte_count) as place:

            async def in_its_place(request: pb.Request) -> Fill:
                if operation == "read":
                    return await self._read(request, place)
                await place.take()
                return await self._operations[operation](request)

            await self._answer(session, request, in_its_place)

    async def _answer(
        self,
        session: ServiceSession,
        request: pb.Request,
        operation: Operation,
    ) -> None:
        try:
            async with asyncio.timeout(max(request.deadline_ms, 1) / 1000):
                fill = await operation(request)
        except ServiceError as error:
            session.refuse(request.id, error)
        except (config_pb.ConfigFormatError, AccessFormatError) as fault:
            session.refuse(request.id, MalformedError(ErrorCode.BAD_PROTO, str(fault)))
        except TimeoutError:
            late: ServiceError = ReadDeadlineError("the node had no answer in time")
            if request.WhichOneof("operation") in WRITES:
                late = DeadlineError("the outcome of the write is not known yet")
            session.refuse(request.id, late)
        except Exception as fault:
            log.error("request_failed", exc_info=fault)
            session.refuse(request.id, InternalError("internal error"))
        else:
            session.respond(request.id, fill)

    def _basin(self, request: pb.Request) -> BasinReplica:
        basin = self._host.basins.get(GroupId(request.group_id))
        if basin is None:
            raise rpc.GroupUnknownError
        return basin

    def _catalog(self, request: pb.Request) -> CatalogReplica:
        catalog = self._host.catalog
        if request.group_id != CATALOG_GROUP or catalog is None:
            raise rpc.GroupUnknownError
        return catalog

    def _deadline(self, request: pb.Request) -> float:
        return self._host.services.clock.monotonic() + request.deadline_ms / 1000

    # -- records

    def _append(self, session: ServiceSession, request: pb.Request, size: int) -> None:
        message = request.append
        request_id = request.id
        stages = LeaderStages() if session.takes_stages else None
        traced: TracedStages | None = None
        traces = self._traces

        def done(ack: AppendAck | None, error: ServiceError | None) -> None:
            if ack is None or traced is not None:
                told(None if ack is None else partial(_acknowledge, ack, None), error)
            else:
                session.respond(request_id, partial(_acknowledge, ack, stages))

        def told(fill: Fill | None, error: ServiceError | None) -> None:
            if traces is not None and traced is not None:
                traces.led(traced, GroupId(request.group_id), error)
            if fill is None:
                session.refuse(request_id, error or InternalError("no outcome"))
            elif stages is None or not session.takes_stages:
                session.respond(request_id, fill)
            else:
                session.respond(request_id, partial(_with_stages, fill, stages))

        try:
            basin = self._basin(request)
            self._host.check_space()
            self._host.memory.admit(size)
            batch = rpc.batch_from_pb(message)
            session_sequence = rpc.session_sequence_from_pb(message)
            if traces is not None and request.HasField("trace"):
                stages = traced = traces.begin(_trace_of(request))
            if batch.sealed_for is not None and batch.sealed_for.group_id != request.group_id:
                raise SealMismatchError("another basin has taken the name")
        except ServiceError as error:
            session.refuse(request_id, error)
            return
        match = message.match_seq_num if message.HasField("match_seq_num") else None
        fencing = message.fencing_token if message.HasField("fencing_token") else None
        deadline = self._deadline(request)
        if request.request_key:
            basin.appender.append_idempotent(
                request.request_key, message.stream, batch, match, fencing, deadline, told, stages
            )
            return
        basin.appender.append(
            message.stream,
            batch,
            match,
            fencing,
            deadline,
            done,
            session_sequence,
            stages,
            rpc.requests_from_pb(message),
        )

    async def _read(self, request: pb.Request, place: RoomReservation) -> Fill:
        message = request.read
        try:
            start = StartKind(message.start_kind)
        except ValueError as cause:
            fault = f"a read cannot start at the kind {message.start_kind}"
            raise MalformedError(ErrorCode.BAD_PROTO, fault) from cause
        answer = await self._basin(request).reader.read(
            ReadRequest(
                message.stream,
                ReadStart(start, message.start_value, message.clamp),
                rpc.read_bounds_from_pb(message),
                message.refuse_at_tail,
                message.wait_ms,
                message.has_key,
                message.committed,
                message.at_least,
            ),
            place,
        )

        def fill(response: pb.Response) -> None:
            out = response.read
            out.start_seq_num = answer.start_seq_num
            for batch in answer.batches:
                rpc.sequenced_to_pb(out.batches.add(), batch)
            out.tail.CopyFrom(rpc.position_to_pb(answer.tail))
            out.may_have_more = answer.may_have_more
            out.group_id = request.group_id
            out.stream_id = answer.stream_id
            if answer.cipher is not None:
                out.cipher = answer.cipher
            out.shared_caching = answer.shared_caching
            out.applied_index = answer.applied_index

        return fill

    # -- writes

    async def _change(
        self, request: pb.Request, basin: BasinReplica, sequence: Decision, size: int
    ) -> Outcome | None:
        deadline = self._deadline(request)
        return await result_of(
            self.loop, lambda told: basin.appender.change(sequence, deadline, told, size)
        )

    async def _write(
        self,
        request: pb.Request,
        basin: BasinReplica,
        sequence: Callable[[TimestampMs], Write | None],
        tell: Callable[[], Fill],
    ) -> Fill:
        """Does what `_change` does, with what `tell` makes of it. For a request that is repeated it
        gives the answer to the first."""
        if not request.request_key:
            await self._change(request, basin, sequence, COMMAND_BYTES)
            return tell()
        key, deadline = request.request_key, self._deadline(request)
        fill: Fill | None = await result_of(
            self.loop,
            lambda told: basin.appender.change_idempotent(
                key, sequence, lambda _: tell(), COMMAND_BYTES, deadline, told
            ),
        )
        if fill is None:
            raise InternalError("no outcome")
        return fill


def _trace_of(request: pb.Request) -> TraceContext:
    try:
        return get_trace(request.trace)
    except TraceFormatError as fault:
        raise MalformedError(ErrorCode.BAD_PROTO, str(fault)) from fault


def _acknowledge(ack: AppendAck, stages: LeaderStages | None, response: pb.Response) -> None:
    rpc.ack_to_pb(response.append, ack)
    if stages is not None:
        rpc.stages_to_pb(response.stages, stages)


def _with_stages(fill: Fill, stages: LeaderStages, response: pb.Response) -> None:
    fill(response)
    rpc.stages_to_pb(response.stages, stages)
