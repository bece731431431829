"""Finds a group's leader among the nodes, follows hints, sends again what had no effect.

A request is sent again only when the answer (or the lack of a connection) proves that nothing was
done, or when it has a key by which its leader knows it again. What left this process and was never
answered is reported as "may have taken effect".
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Final

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.clock import Clock
from svc_cluster.base.counter import Count
from svc_cluster.base.errors import (
    DeadlineError,
    DrainingError,
    HotServerError,
    InternalError,
    ReadDeadlineError,
    ServiceError,
    UnavailableError,
)
from svc_cluster.base.ids import CATALOG_GROUP, GroupId, NodeId
from svc_cluster.base.metrics import Metrics
from svc_cluster.base.tasks import Tasks, start_task
from svc_cluster.codec import rpc
from svc_cluster.link.frame import FrameKind
from svc_cluster.link.link_errors import LinkBusyError, LinkLostError
from svc_cluster.link.session import NodeSession
from svc_cluster.model.idempotency_table import is_final_refusal

RETRY_SECONDS_MIN: Final = 0.01
RETRY_SECONDS_MAX: Final = 0.1

FIND_SECONDS: Final = 1.0
"""So long at most it is sought where a group is by now, and once in so long: the catalog is asked
for all requests of the group. Those that had a replica once are asked on meanwhile."""

LAST_TRY_SECONDS: Final = 0.1
"""What is known to have had no effect is not tried again so shortly before the deadline: an attempt
that is cut off would leave it unknown."""

OTHERS_SECONDS: Final = 0.3
"""A question that must not wait for a silent node is put to the others as well after so long."""

IN_TURN_SECONDS: Final = 1.0
"""A replica that was asked in its turn, in the leader's place, has so long to answer."""

PING_SECONDS: Final = 0.5
PING_ANSWER_SECONDS: Final = 1.0
"""A node that leaves a ping unanswered this long is asked nothing more until it answers one."""

Fill = Callable[[pb.Request], None]


@dataclass(slots=True)
class Group:
    """Where a group lives, as far as is known here."""

    group_id: GroupId
    replicas: tuple[NodeId, ...]
    leader: NodeId | None = None
    without: NodeId | None = None
    """Is asked nothing, whoever says that it leads."""
    asked: NodeId | None = None
    """Who was asked last."""
    find: Callable[[Group, float], Coroutine[None, None, None]] | None = None
    """Puts into `replicas` where the group is by now, if that comes to be known by a deadline in
    monotonic seconds. It raises nothing."""
    sought_at: float = float("-inf")
    """When the last such attempt began."""


class Leaders:
    """The nodes as this process sees them, and the way to whoever leads a group."""

    def __init__(
        self,
        *,
        sessions: Mapping[NodeId, NodeSession],
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        rng: random.Random,
        metrics: Metrics | None = None,
    ) -> None:
        self._sessions = sessions
        self._loop = loop
        self._clock = clock
        self._rng = rng
        self._tasks = Tasks()
        self._silent: set[NodeId] = set()
        self._is_started = False
        self._turns = 0
        """Questions that went to a replica in its turn."""
        self.retries: dict[str, int] = {}
        """How often a request was sent again, by reason."""
        self._metrics = metrics
        self._answers: dict[tuple[NodeId, str], Count] = {}

    def start(self) -> None:
        """Begin to watch the nodes: a frozen one keeps its connections and answers nothing."""
        self._is_started = True
        for node in self._sessions:
            self._begin_watch(node)

    def _begin_watch(self, node: NodeId) -> None:
        self._tasks.spawn(self._watch(node), f"watch node {node}")

    def met(self, node: NodeId) -> None:
        """There is a session with another node from now on."""
        if self._is_started:
            self._begin_watch(node)

    def left(self, node: NodeId) -> None:
        """The session with this node is over, and so is its watch."""
        self._silent.discard(node)

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        """All that there are sessions with, in order."""
        return tuple(sorted(self._sessions))

    async def _watch(self, node: NodeId) -> None:
        session = self._sessions[node]
        while True:
            await asyncio.sleep(PING_SECONDS)
            if self._sessions.get(node) is not session:
                return
            try:
                async with asyncio.timeout(PING_ANSWER_SECONDS):
                    await session.call(
                        CATALOG_GROUP, int(PING_ANSWER_SECONDS * 1000), _fill_ping, FrameKind.URGENT
                    )
                self._silent.discard(node)
            except (LinkBusyError, TimeoutError):
                if self._sessions.get(node) is session:
                    self._silent.add(node)
            except LinkLostError:
                pass  # without a link it is of no use anyhow, and that says nothing of the next one

    def is_usable(self, node: NodeId) -> bool:
        session = self._sessions.get(node)
        return session is not None and session.is_up and node not in self._silent

    @property
    def usable_nodes(self) -> int:
        return sum(self.is_usable(node) for node in self._sessions)

    async def close(self) -> None:
        await self._tasks.cancel_all()
        for session in self._sessions.values():
            await session.close()

    # -- one request, until it is answered

    async def call_idempotent(
        self, group: Group, fill: Fill, key: bytes, *, deadline: float, size: int = 0
    ) -> pb.Response:
        """Does what `call` does, for a write that may be repeated under its key, whatever became of
        it."""

        def fill_with_key(request: pb.Request) -> None:
            request.request_key = key
            fill(request)

        delay = RETRY_SECONDS_MIN
        unknown: ServiceError | None = None
        while True:
            try:
                return await self.call(
                    group, fill_with_key, write=True, deadline=deadline, size=size
                )
            except ServiceError as failure:
                if not failure.may_have_taken_effect:
                    if unknown is None or is_final_refusal(failure):
                        raise
                    # an earlier attempt may still be on its way
                    if isinstance(failure, UnavailableError | HotServerError | DrainingError):
                        raise unknown from failure
                    failure.may_have_taken_effect = True
                    raise
                unknown = failure
            left = deadline - self._clock.monotonic()
            if left <= 0 or isinstance(unknown, InternalError):
                raise unknown
            self.note_retry("repeated")
            await asyncio.sleep(min(delay * (0.5 + self._rng.random()), left))
            delay = min(delay * 2, RETRY_SECONDS_MAX)

    async def call_any(self, group: Group, fill: Fill, *, deadline: float) -> pb.Response:
        """Does what `call` does, for what changes nothing. A leader that is silent for
        OTHERS_SECONDS does not keep its successor from being found meanwhile. What it answers after
        all still counts."""
        own = Group(group.group_id, group.replicas, group.leader)
        first = self.call(own, fill, write=False, deadline=deadline, size=0)
        calls = [(own, start_task(first, "ask"))]
        try:
            await asyncio.wait([calls[0][1]], timeout=OTHERS_SECONDS)
            if not calls[0][1].done():
                self.note_retry("silent")
                other = Group(group.group_id, group.replicas, without=own.asked)
                second = self.call(other, fill, write=False, deadline=deadline, size=0)
                calls.append((other, start_task(second, "ask the others")))
                await _until_one_succeeds([call for _, call in calls])
        except asyncio.CancelledError:
            for _, call in calls:
                call.cancel()
            raise
        answered = [pair for pair in calls if pair[1].done() and pair[1].exception() is None]
        for _, call in calls:
            call.cancel()
        asked, call = answered[0] if answered else calls[0]
        group.leader = asked.leader
        return call.result()

    async def ask_in_turn(self, group: Group, fill: Fill) -> pb.Response | None:
        """Ask one of the group's replicas what any of them may answer, another one each time. None
        where it refuses, or does not answer within IN_TURN_SECONDS: who leads is to be asked. Where
        the group is by now is sought beside it, when one has no replica any more."""
        usable = [node for node in group.replicas if self.is_usable(node)]
        if not usable:
            return None
        self._turns += 1
        node = usable[self._turns % len(usable)]
        try:
            response = await self._ask(node, group, fill, IN_TURN_SECONDS, 0)
        except (ConnectionError, TimeoutError):
            return None
        if response.HasField("refusal"):
            self.note_retry("replica_refused")
            if response.refusal.group_unknown:
                self._seek(group)
            return None
        return response

    async def call(
        self, group: Group, fill: Fill, *, write: bool, deadline: float, size: int = 0
    ) -> pb.Response:
        """Ask the group's leader. `size`: bytes of the records that the request carries, for which
        there has to be credit before `fill` is asked. Raises the node's refusal, DeadlineError or
        ReadDeadlineError when it is not known what became of the request, UnavailableError when
        nothing did."""
        delay = RETRY_SECONDS_MIN
        tried = 0
        followed = has_moved = False
        refusal: ServiceError = UnavailableError("no leader was found")
        while (left := deadline - self._clock.monotonic()) > (LAST_TRY_SECONDS if tried else 0):
            node = self._pick(group, tried)
            tried += 1
            if node is not None:
                group.asked = node
                try:
                    response = await self._ask(node, group, fill, left, size)
                except LinkBusyError:
                    # it may well lead: others are asked no earlier than after a pause
                    self.note_retry("busy")
                    refusal = UnavailableError("the node has too much to deal with")
                except LinkLostError as lost:
                    group.leader = None
                    if lost.sent and write:
                        raise DeadlineError("the connection was lost before the answer") from lost
                    self.note_retry("link_lost")
                    refusal = UnavailableError("the node cannot be reached")
                except TimeoutError as late:
                    group.leader = None
                    if write:
                        raise DeadlineError("no answer by the deadline") from late
                    raise ReadDeadlineError("no answer by the deadline") from late
                else:
                    if response.WhichOneof("result") != "refusal":
                        group.leader = node
                        return response
                    refusal = rpc.refusal_from_pb(response.refusal)
                    if not self.may_repeat(group, node, refusal):
                        raise refusal
                    hint = group.leader if isinstance(refusal, rpc.NotLeaderHereError) else None
                    if hint is not None and not followed:
                        # once before each pause: the hint may name who cannot be reached, or who
                        # hints back
                        followed = True
                        continue
            followed = False
            has_moved |= node is None or isinstance(refusal, rpc.GroupUnknownError)
            if has_moved and tried >= len(group.replicas):
                # who has no replica hints at nobody; and who has one may be away
                self._seek(group)
            self._knock(group)
            await asyncio.sleep(min(delay * (0.5 + self._rng.random()), max(left, 0)))
            delay = min(delay * 2, RETRY_SECONDS_MAX)
        if isinstance(refusal, rpc.NotLeaderHereError | rpc.GroupUnknownError):
            raise UnavailableError("no leader was found")
        raise refusal

    def _seek(self, group: Group) -> None:
        """Have it found out where the group is by now, unless somebody just did. Nobody waits for
        it: who asks again goes by what is known then."""
        now = self._clock.monotonic()
        if group.find is None or now - group.sought_at < FIND_SECONDS:
            return
        self.note_retry("moved")
        group.sought_at = now
        self._tasks.spawn(group.find(group, now + FIND_SECONDS), "find a group")

    def _knock(self, group: Group) -> None:
        """Members that are not there may be back: a link's own pauses are longer than a request
        waits for."""
        for node in dict.fromkeys((*group.replicas, group.leader)):
            if node is not None and (session := self._sessions.get(node)) is not None:
                session.knock()

    def _pick(self, group: Group, tried: int) -> NodeId | None:
        leader = group.leader
        is_known = leader is not None and leader in self._sessions and leader != group.without
        if leader is not None and is_known and self.is_usable(leader):
            return leader
        usable = [n for n in group.replicas if n != group.without and self.is_usable(n)]
        return usable[tried % len(usable)] if usable else None

    async def _ask(
        self, node: NodeId, group: Group, fill: Fill, left: float, size: int
    ) -> pb.Response:
        future = self._sessions[node].call(group.group_id, int(left * 1000), fill, size=size)
        # a timer and no task: this is the hot path
        timer = self._loop.call_later(left, _expire, future)
        code = "none"
        try:
            response = await future
            code = "ok"
            if response.HasField("refusal"):
                code = response.refusal.code
            return response
        finally:
            timer.cancel()
            self._note_answer(node, code)

    def send(
        self, node: NodeId, group: Group, fill: Fill, left: float, size: int = 0
    ) -> asyncio.Future[pb.Response]:
        """Ask this node, once: what is sent in one turn of the event loop arrives in that order.
        `size` as in `call`. The future fails with LinkLostError, or with TimeoutError after `left`
        seconds."""
        future = self._sessions[node].call(group.group_id, int(left * 1000), fill, size=size)
        timer = self._loop.call_later(left, _expire, future)
        future.add_done_callback(lambda _: timer.cancel())
        return future

    def may_repeat(self, group: Group, node: NodeId, refusal: ServiceError) -> bool:
        """Only what certainly had no effect is sent again."""
        match refusal:
            case rpc.NotLeaderHereError():
                group.leader = refusal.leader if refusal.leader != node else None
                self.note_retry("not_leader")
                return True
            case rpc.GroupUnknownError():
                group.leader = None
                self.note_retry("group_unknown")
                return True
            case DrainingError() | UnavailableError() | HotServerError():
                group.leader = None
                self.note_retry(refusal.code.value)
                return not refusal.may_have_taken_effect
            case _:
                return False

    def note_retry(self, reason: str) -> None:
        self.retries[reason] = self.retries.get(reason, 0) + 1
        if self._metrics is not None:
            self._metrics.gateway_retries.labels(reason).inc()

    def _note_answer(self, node: NodeId, code: str) -> None:
        if self._metrics is None:
            return
        counter = self._answers.get((node, code))
        if counter is None:
            counter = self._metrics.gateway_backend_requests.labels(str(node), code)
            self._answers[node, code] = counter
        counter.inc()


async def _until_one_succeeds(calls: list[asyncio.Task[pb.Response]]) -> None:
    """Returns when one has an answer, or all have failed."""
    pending = set(calls)
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        if any(call.exception() is None for call in done):
            return


def _fill_ping(request: pb.Request) -> None:
    request.ping.SetInParent()


def _expire(future: asyncio.Future[pb.Response]) -> None:
    if not future.done():
        future.set_exception(TimeoutError())
