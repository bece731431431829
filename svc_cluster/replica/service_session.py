"""One caller's requests to a node: by number, each answered by itself, within its caller's credit.

What is done about a request stands in `service`. No sockets here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from google.protobuf.message import DecodeError

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import (
    ErrorCode,
    HotServerError,
    InternalError,
    InvalidError,
    MalformedError,
    ServiceError,
)
from svc_cluster.base.ids import CATALOG_GROUP, GroupId
from svc_cluster.base.log import get_logger
from svc_cluster.base.seldom import Seldom
from svc_cluster.codec import rpc
from svc_cluster.codec.request_bounds import is_too_long
from svc_cluster.link.calls import HEAD, CallError, Verb, encode
from svc_cluster.link.credit import MESSAGE_BYTES_MAX
from svc_cluster.link.frame import FrameKind
from svc_cluster.link.outbox import NoCreditError
from svc_cluster.replica.answer_room import AnswerRoom
from svc_cluster.replica.caller_shares import FREE_BYTES, CallerShares
from svc_cluster.replica.repeatable import Fill
from svc_cluster.replica.roles import CallerRights

log = get_logger("service")


@dataclass(frozen=True, slots=True)
class Encoded:
    """It acts as a function that fills an answer, for one that was encoded in steps, without its
    number."""

    answer: bytes

    def __call__(self, response: pb.Response) -> None:
        response.MergeFromString(self.answer)


REQUESTS_MAX: Final = 32_768
"""Requests of one caller that are not answered, or whose answers it does not take; one more is
refused. So many answers that it does not take end the conversation. It is more than a gateway has
in progress and open together, unless its settings allow more."""

SHORT: Final = (FrameKind.URGENT, FrameKind.CALL)
"""The classes of all answers but the long ones."""

ANSWER_BYTES_MAX: Final = {
    kind: MESSAGE_BYTES_MAX[kind] - HEAD.size
    for kind in (FrameKind.URGENT, FrameKind.CALL, FrameKind.BULK)
}
"""The largest size of one answer, encoded, by its class."""


class AnswerChannel(Protocol):
    """The way back to whoever asks."""

    def send(self, kind: FrameKind, flow: int, payload: bytes) -> None:
        """Raises NoCreditError, without effect; behind the end of the conversation it does
        nothing."""
        ...

    def give_up(self, reason: str) -> None:
        """End the conversation at once, with all that waits in it."""
        ...

    def waiting_bytes(self, kind: FrameKind) -> int:
        """Bytes of this class that were sent and have not been handed to the socket."""
        ...

    def dealt_with(self, kind: FrameKind, size: int) -> None:
        """A request of `size` bytes costs no memory here any more."""
        ...


@dataclass(slots=True)
class _Asked:
    """A request that is not answered yet."""

    kind: FrameKind
    byte_count: int
    group_id: GroupId = CATALOG_GROUP
    answer_kind: FrameKind = FrameKind.CALL
    task: asyncio.Task[None] | None = None
    """None: it ends by itself, as an append or a change does, and nobody can end it before."""
    is_given_up: bool = False
    """Nobody waits for its answer any more."""


class _Unsent(NamedTuple):
    """An answer that waits for credit, and the request that it answers."""

    group_id: GroupId
    message: bytes
    kind: FrameKind
    byte_count: int


class Dispatcher(Protocol):
    """A Dispatcher does what is asked."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    def dispatch(self, session: ServiceSession, request: pb.Request) -> None: ...


class ServiceSession:
    """One caller's conversation: requests by number, each answered by itself.

    An answer is encoded by itself, so that a fault in one harms no other. What a request costs
    here counts against its caller's credit until its answer is on the way: a caller that does not
    read answers cannot ask for ever. Nor can one that gives up what it asked: an append or a change
    that is queued or in the log costs as much as before, until its outcome is known."""

    def __init__(
        self,
        service: Dispatcher,
        caller: AnswerChannel,
        on_closed: Callable[[ServiceSession], None] = lambda _: None,
        name: str = "",
        shares: CallerShares | None = None,
    ) -> None:
        """`name` is the caller's: it may have several conversations. `shares` are the node's; None:
        this caller is alone."""
        self.name = name
        self._shares = CallerShares() if shares is None else shares
        self._service = service
        self._on_closed = on_closed
        self.asked_bytes = 0
        """The bytes of the messages that are not answered."""

        self._caller = caller
        self._asked: dict[int, _Asked] = {}
        self._unsent: dict[FrameKind, deque[_Unsent]] = {
            FrameKind.URGENT: deque(),
            FrameKind.CALL: deque(),
            FrameKind.BULK: deque(),
        }
        self.unsent = 0
        """Answers that wait until the caller has dealt with earlier ones."""

        self._unsent_bytes = self._unsent_short_bytes = 0
        self._unlooked_bytes = 0
        """No less than `waiting_bytes`: what that was at the last look, and all that was added."""
        self._unread = Seldom()
        self.room = AnswerRoom(service.loop, lambda: self._shares.room_bytes(name))
        self.takes_stages = False
        """Whether the caller wants to be told where an append's time went (the feature STAGES)."""

        self.closed = False
        self._shares.begin(self)

    @property
    def pending(self) -> int:
        """Requests that are not answered."""
        return len(self._asked)

    @property
    def answer_bytes(self) -> int:
        """About how much answers hold: being made, waiting for credit, or on their way."""
        return max(self.room.taken_bytes + self.waiting_bytes, self._unsent_bytes)

    @property
    def waiting_bytes(self) -> int:
        """Bytes of answers, but for the long ones, that have not been handed to the socket."""
        if self.closed:
            return 0
        queued = sum(self._caller.waiting_bytes(kind) for kind in SHORT)
        return queued + self._unsent_short_bytes

    def byte_count(self, number: int) -> int:
        """The bytes of the message of a request that is not answered."""
        return self._asked[number].byte_count

    def request(
        self, kind: FrameKind, number: int, data: bytes, byte_count: int, admission: CallerRights
    ) -> None:
        """A request arrived, in a message of `byte_count` bytes of this class. One that cannot be
        read, that its caller may not ask for, or one more than REQUESTS_MAX, is refused without
        effect. Raises CallError, without effect, for a number whose request is not answered yet,
        and when the caller has left REQUESTS_MAX answers unread."""
        if number in self._asked:
            raise CallError(f"the number {number} for a second request")
        if self.unsent >= REQUESTS_MAX:
            raise CallError(f"{REQUESTS_MAX} answers are not read")
        self._asked[number] = asked = _Asked(kind, byte_count)
        self.asked_bytes += byte_count
        if kind is FrameKind.URGENT:
            asked.answer_kind = kind
        request = self._decoded(number, data)
        if request is None:
            return
        asked.group_id = GroupId(request.group_id)
        if len(self._asked) + self.unsent > REQUESTS_MAX:
            self.refuse(number, HotServerError("too many requests of this process are unanswered"))
            return
        request.id = number
        operation = request.WhichOneof("operation")
        try:
            admission.check(operation)
            if operation == "join_cluster":
                admission.check_join(request.join_cluster)
        except ServiceError as refusal:
            self.refuse(number, refusal)
            return
        try:
            self._service.dispatch(self, request)
        except Exception as fault:
            log.error("request_failed", exc_info=fault)
            self.refuse(number, InternalError("internal error"))

    def _decoded(self, number: int, data: bytes) -> pb.Request | None:
        """None: it could not be read, and is refused without effect."""
        refusal: ServiceError
        try:
            if not is_too_long(data):
                return pb.Request.FromString(data)
            refusal = InvalidError("a request longer than what it asks")
        except DecodeError:
            refusal = MalformedError(ErrorCode.BAD_PROTO, "the request cannot be read")
        except Exception as fault:  # it harms this request, and no other of its caller
            log.error("request_failed", exc_info=fault)
            failed = InternalError("the request could not be read")
            failed.may_have_taken_effect = False
            self.refuse(number, failed)
            return None
        self._note_unread()
        self.refuse(number, refusal)
        return None

    def works(self, number: int, task: asyncio.Task[None], answer_kind: FrameKind) -> None:
        """`task` makes the answer of this request, and ends when nobody waits for it any more."""
        asked = self._asked.get(number)
        if asked is not None:
            asked.task = task
            asked.answer_kind = answer_kind

    def cancel(self, number: int) -> None:
        """The caller waits for this answer no more: work on it ends. An append or a change goes on,
        and counts until it has ended."""
        asked = self._asked.get(number)
        if asked is None:
            return
        if asked.task is None:
            asked.is_given_up = True
            return
        del self._asked[number]
        asked.task.cancel()
        self._let_go(asked.kind, asked.byte_count)

    def respond(self, number: int, fill: Fill) -> None:
        """Answer with what `fill` writes; where it cannot, nothing is known about effects. An
        answer that nobody waits for is dropped."""
        asked = self._asked.pop(number, None)
        if asked is None:
            return
        if asked.is_given_up:
            self._let_go(asked.kind, asked.byte_count)
            return
        response = pb.Response(id=number)
        try:
            if isinstance(fill, Encoded):
                member = response.SerializeToString() + fill.answer
            else:
                fill(response)
                response.id = number
                member = response.SerializeToString()
            if len(member) > ANSWER_BYTES_MAX[asked.answer_kind]:
                raise ValueError(f"an answer of {len(member)} bytes")
        except Exception as fault:
            log.error("answer_failed", exc_info=fault)
            response = pb.Response(id=number)
            rpc.refusal_to_pb(response.refusal, InternalError("internal error"))
            member = response.SerializeToString()
        kind = asked.answer_kind
        if kind is FrameKind.BULK:
            self.room.put(len(member) + HEAD.size)
        message = encode(Verb.ANSWER, number, member)
        self._send(kind, _Unsent(asked.group_id, message, asked.kind, asked.byte_count))

    def refuse(self, number: int, error: ServiceError) -> None:
        self.respond(number, lambda response: rpc.refusal_to_pb(response.refusal, error))

    def left(self, kind: FrameKind, byte_count: int) -> None:
        """The caller is done with so much of what it was sent of this class."""
        if kind is FrameKind.BULK:
            self.room.give_back(byte_count)
        waiting = self._unsent.get(kind)
        while waiting and self._try_send(kind, waiting[0]):
            self._count_unsent(kind, -len(waiting.popleft().message))
            self.unsent -= 1

    def close(self) -> None:
        """The caller is gone: nothing is answered any more, and no read waits to be."""
        self.closed = True
        self._shares.end(self)
        for waiting in self._unsent.values():
            waiting.clear()
        self.unsent = self._unsent_bytes = self._unsent_short_bytes = 0
        for number, one in list(self._asked.items()):
            if one.task is not None:
                one.task.cancel()
                del self._asked[number]
            else:
                one.is_given_up = True
        self.asked_bytes = sum(one.byte_count for one in self._asked.values())
        self.room.close()
        if not self._asked:
            self._on_closed(self)

    def _send(self, kind: FrameKind, answer: _Unsent) -> None:
        waiting = self._unsent[kind]
        if waiting or not self._try_send(kind, answer):
            waiting.append(answer)
            self.unsent += 1
            self._count_unsent(kind, len(answer.message))
        if kind in SHORT:
            self._unlooked_bytes += len(answer.message)
            if self._unlooked_bytes > FREE_BYTES and not self.closed:
                self._look_at_share()

    def _look_at_share(self) -> None:
        self._unlooked_bytes = self.waiting_bytes
        if self._shares.is_too_much(self):
            self._caller.give_up("too many bytes of answers are not read")

    def _count_unsent(self, kind: FrameKind, byte_count: int) -> None:
        self._unsent_bytes += byte_count
        if kind in SHORT:
            self._unsent_short_bytes += byte_count

    def _try_send(self, kind: FrameKind, answer: _Unsent) -> bool:
        try:
            self._caller.send(kind, answer.group_id, answer.message)
        except NoCreditError:
            return False
        self._let_go(answer.kind, answer.byte_count)
        return True

    def _let_go(self, kind: FrameKind, byte_count: int) -> None:
        """A request costs nothing here any more."""
        self.asked_bytes -= byte_count
        if not self.closed:
            self._caller.dealt_with(kind, byte_count)
        elif not self._asked:
            self._on_closed(self)

    def _note_unread(self) -> None:
        count = self._unread.note(self._service.loop.time())
        if count is not None:
            log.warning("requests_unreadable", count=count)
