"""The batches of one append session on their way to a leader, numbered so that none overtakes.

A session with a leader is an identifier of its own and numbers from 0, good for one leader in one
term: the leader's sequencer takes no number but the next, and knows nothing of sessions that
another leader began (docs/adr/0009). Therefore, once one batch is known not to have been appended,
none behind it in the same session was or ever will be, whatever became of their answers; and the
whole rest may be sent again in a new one. The first batch of such a session goes alone and as every
append does: it finds the leader. All others follow it to that node without waiting. The client's
own session lasts through all of them.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.clock import Clock
from svc_cluster.base.errors import DeadlineError
from svc_cluster.base.ids import NodeId
from svc_cluster.codec import rpc
from svc_cluster.gateway.cluster.leaders import Fill, Group, Leaders
from svc_cluster.link.link_errors import LinkBusyError, LinkLostError
from svc_cluster.model.record import SESSION_ID_BYTES, AppendAck, SessionSequence, StoredBatch

Ask = Callable[[Fill, float, int], Awaitable[pb.Response]]
"""Ask the stream's leader, by the deadline (monotonic seconds), with so many bytes of records,
again and again as long as nothing was done. Raises as `Leaders.call` does."""


@dataclass(slots=True)
class _PipelinedBatch:
    batch: StoredBatch
    match_seq_num: int | None
    fencing_token: str | None
    deadline: float | None = None
    """Monotonic seconds; from when it was first sent."""
    answer: asyncio.Future[pb.Response] | None = None
    """None: not sent, or known to be without effect."""


@dataclass(slots=True)
class _LeaderSession:
    session_id: bytes
    node: NodeId
    group: Group
    next_number: int = 1


class PipelinedAppends:
    """Implements `gateway.cluster.backend.Appends`."""

    def __init__(
        self,
        stream: str,
        *,
        ask: Ask,
        group: Callable[[], Group | None],
        leaders: Leaders,
        clock: Clock,
        rng: random.Random,
        deadline_seconds: float,
    ) -> None:
        self._stream = stream
        self._ask = ask
        self._group = group
        self._leaders = leaders
        self._clock = clock
        self._rng = rng
        self._deadline_seconds = deadline_seconds
        self._under_way: deque[_PipelinedBatch] = deque()
        self._session: _LeaderSession | None = None

    def put(self, batch: StoredBatch, match_seq_num: int | None, fencing_token: str | None) -> None:
        put = _PipelinedBatch(batch, match_seq_num, fencing_token)
        self._under_way.append(put)
        if self._session is not None:
            self._send(put, self._session)

    async def next_ack(self) -> AppendAck:
        first = self._under_way[0]
        response = None
        if first.answer is not None:
            response = await self._answer(first)
        if response is None:
            self._end_session()
            response = await self._begin_session(first)
        self._under_way.popleft()
        return rpc.ack_from_pb(response.append)

    def close(self) -> None:
        self._end_session()
        self._under_way.clear()

    # -- one batch

    def _fill(self, batch: _PipelinedBatch, sequence: SessionSequence) -> Fill:
        def fill(request: pb.Request) -> None:
            rpc.append_to_pb(
                request.append,
                self._stream,
                batch.batch,
                batch.match_seq_num,
                batch.fencing_token,
                sequence,
            )

        return fill

    def _send(self, batch: _PipelinedBatch, session: _LeaderSession) -> None:
        sequence = SessionSequence(session.session_id, session.next_number)
        session.next_number += 1
        batch.deadline = self._clock.monotonic() + self._deadline_seconds
        batch.answer = self._leaders.send(
            session.node,
            session.group,
            self._fill(batch, sequence),
            self._deadline_seconds,
            len(batch.batch.records),
        )

    async def _answer(self, batch: _PipelinedBatch) -> pb.Response | None:
        """None: it had no effect, nor has anything behind it, and may be sent again. Raises the
        leader's refusal, and DeadlineError when it is not known what became of the batch."""
        session = self._session
        assert session is not None, "what was sent is numbered"
        assert batch.answer is not None, "only what was sent is answered"
        group = session.group
        try:
            response = await batch.answer
        except LinkBusyError:
            self._leaders.note_retry("busy")
            return None
        except LinkLostError as lost:
            group.leader = None
            if lost.sent:
                raise DeadlineError("the connection was lost before the answer") from lost
            self._leaders.note_retry("link_lost")
            return None
        except TimeoutError as late:
            group.leader = None
            raise DeadlineError("no answer by the deadline") from late
        if response.WhichOneof("result") != "refusal":
            return response
        refusal = rpc.refusal_from_pb(response.refusal)
        if self._leaders.may_repeat(group, session.node, refusal):
            return None
        raise refusal

    # -- sessions with a leader

    async def _begin_session(self, first: _PipelinedBatch) -> pb.Response:
        """Append the first batch, and send all others behind it to where that led."""
        session_id = self._rng.randbytes(SESSION_ID_BYTES)
        if first.deadline is None:
            first.deadline = self._clock.monotonic() + self._deadline_seconds
        fill = self._fill(first, SessionSequence(session_id, 0))
        response = await self._ask(fill, first.deadline, len(first.batch.records))
        group = self._group()
        if group is not None and group.leader is not None:
            # only a guess if others learned of another leader meanwhile: it would refuse
            self._session = _LeaderSession(session_id, group.leader, group)
            for batch in self._under_way:
                if batch is not first:
                    self._send(batch, self._session)
        return response

    def _end_session(self) -> None:
        """Nobody waits any more for what was sent under it."""
        self._session = None
        for batch in self._under_way:
            if batch.answer is not None:
                if batch.answer.done() and not batch.answer.cancelled():
                    batch.answer.exception()  # seen: it says nothing new
                batch.answer.cancel()
                batch.answer = None
