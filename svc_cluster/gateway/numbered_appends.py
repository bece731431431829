"""The batches of one append session on their way to a leader, numbered so that none overtakes.

A numbering is an identifier of its own and ordinals from 0, good for one leader in one term: the
leader's sequencer takes no ordinal but the next, and knows nothing of numberings that another
leader began (docs/adr/0009). Therefore, once one batch is known not to have been appended, none
behind it in the same numbering was or ever will be, whatever became of their answers; and the whole
rest may be sent again under a new numbering. The first batch of a numbering goes alone and as every
append does: it finds the leader. All others follow it to that node without waiting.
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
from svc_cluster.gateway.leaders import Fill, Group, Leaders
from svc_cluster.link.errors import LinkBusyError, LinkLostError
from svc_cluster.model.record import SESSION_ID_BYTES, AppendAck, SessionPlace, StoredBatch

Ask = Callable[[Fill, float], Awaitable[pb.Response]]
"""Ask the stream's leader, by the deadline (monotonic seconds), again and again as long as nothing
was done. Raises as `Leaders.call` does."""


@dataclass(slots=True)
class _Batch:
    batch: StoredBatch
    match_seq_num: int | None
    fencing_token: str | None
    deadline: float | None = None
    """Monotonic seconds; from when it was first sent."""
    answer: asyncio.Future[pb.Response] | None = None
    """None: not sent, or known to be without effect."""


@dataclass(slots=True)
class _Numbering:
    session_id: bytes
    node: NodeId
    group: Group
    next_ordinal: int = 1


class NumberedAppends:
    """Implements `gateway.backend.Appends`."""

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
        self._under_way: deque[_Batch] = deque()
        self._numbering: _Numbering | None = None

    def put(self, batch: StoredBatch, match_seq_num: int | None, fencing_token: str | None) -> None:
        put = _Batch(batch, match_seq_num, fencing_token)
        self._under_way.append(put)
        if self._numbering is not None:
            self._send(put, self._numbering)

    async def next_ack(self) -> AppendAck:
        first = self._under_way[0]
        response = None
        if first.answer is not None:
            response = await self._answer(first)
        if response is None:
            self._end_numbering()
            response = await self._begin_numbering(first)
        self._under_way.popleft()
        return rpc.ack_from_pb(response.append)

    def close(self) -> None:
        self._end_numbering()
        self._under_way.clear()

    # -- one batch

    def _fill(self, batch: _Batch, place: SessionPlace) -> Fill:
        def fill(request: pb.Request) -> None:
            rpc.append_to_pb(
                request.append,
                self._stream,
                batch.batch,
                batch.match_seq_num,
                batch.fencing_token,
                place,
            )

        return fill

    def _send(self, batch: _Batch, numbering: _Numbering) -> None:
        place = SessionPlace(numbering.session_id, numbering.next_ordinal)
        numbering.next_ordinal += 1
        batch.deadline = self._clock.monotonic() + self._deadline_seconds
        batch.answer = self._leaders.send(
            numbering.node, numbering.group, self._fill(batch, place), self._deadline_seconds
        )

    async def _answer(self, batch: _Batch) -> pb.Response | None:
        """None: it had no effect, nor has anything behind it, and may be sent again. Raises the
        leader's refusal, and DeadlineError when it is not known what became of the batch."""
        numbering = self._numbering
        assert numbering is not None, "what was sent is numbered"
        assert batch.answer is not None, "only what was sent is answered"
        group = numbering.group
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
        if self._leaders.may_repeat(group, numbering.node, refusal):
            return None
        raise refusal

    # -- numberings

    async def _begin_numbering(self, first: _Batch) -> pb.Response:
        """Append the first batch, and send all others behind it to where that led."""
        session_id = self._rng.randbytes(SESSION_ID_BYTES)
        if first.deadline is None:
            first.deadline = self._clock.monotonic() + self._deadline_seconds
        response = await self._ask(self._fill(first, SessionPlace(session_id, 0)), first.deadline)
        group = self._group()
        if group is not None and group.leader is not None:
            # only a guess if others learned of another leader meanwhile: it would refuse
            self._numbering = _Numbering(session_id, group.leader, group)
            for batch in self._under_way:
                if batch is not first:
                    self._send(batch, self._numbering)
        return response

    def _end_numbering(self) -> None:
        """Nobody waits any more for what was sent under it."""
        self._numbering = None
        for batch in self._under_way:
            if batch.answer is not None:
                if batch.answer.done() and not batch.answer.cancelled():
                    batch.answer.exception()  # seen: it says nothing new
                batch.answer.cancel()
                batch.answer = None
