"""What is told of single requests: a line of each (access log), and one of each slow one with where
its time went.

Told are names, sizes and times. No query string is, no header but the request's id, no token and no
body. Lines are only collected here, so many a second and so many at one time; whoever writes them
takes them away (`take`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Protocol

from prometheus_client import Counter

from svc_cluster.base.clock import Clock
from svc_cluster.base.errors import MalformedError, ServiceError
from svc_cluster.base.tracing import Attribute, TraceContext
from svc_cluster.gateway.request.request_head import RequestHead
from svc_cluster.gateway.request.request_tracing import RequestTrace, RequestTracing
from svc_cluster.gateway.request.route_metrics import METHODS, template_of
from svc_cluster.gateway.request.router import Match, Resource
from svc_cluster.http.message import Attachable, PieceSink, Request, Response
from svc_cluster.model.leader_stages import LeaderStages

LINES_PER_SECOND_MAX: Final = 1_000
SLOW_LINES_PER_SECOND: Final = 1.0
SLOW_LINES_AT_ONCE: Final = 50
"""Slow requests come in crowds where a process has too much to do. A few show where the time goes,
and lines for all of them would take more of it."""
LINE_BYTES: Final = 2_048
"""About what a line takes until it is written: names have 1 KiB at most, ids 128 bytes."""
NO_ANSWER: Final = 499
"""The status of what nobody waited for."""
SERVED: Final = "request_served"
SLOW: Final = "request_slow"
CLUSTER: Final = "cluster"
"""The stage from a request to a node until the answer."""
LEADER_STAGES: Final = ("queue", "wal", "quorum", "apply")
"""What a leader tells of an append, in this order."""


class CountedBody(Protocol):
    """A request's body that tells how much of it was read."""

    read_bytes: int


class Stages:
    """The stages of a request that nobody times: every call does nothing."""

    __slots__ = ()

    trace: TraceContext | None = None
    """Under which nodes tell of the request; None: it is not sampled."""

    def enter(self, stage: str) -> None:
        """From now on the time counts for this stage, until the next is entered."""

    def allow(self, seconds: float) -> None:
        """The client wants to wait for so long; that is not slow."""

    def known(self, match: Match, head: RequestHead) -> None:
        """What the request is about, as far as it is known by now."""

    def reads(self, body: CountedBody) -> None:
        """This is the request's body."""

    def refused(self, refusal: ServiceError) -> None:
        """The request was refused."""

    def led(self, stages: LeaderStages) -> None:
        """The leader says where its part of the stage CLUSTER went."""


UNTIMED: Final = Stages()


class TimedStages(Stages):
    """The stages of one request, in the order in which they were first entered."""

    __slots__ = (
        "_entered",
        "_led",
        "_monotonic",
        "allowed",
        "begun",
        "body",
        "code",
        "head",
        "match",
        "sampled",
        "trace",
    )

    def __init__(self, clock: Clock, sampled: RequestTrace | None = None) -> None:
        self.sampled = sampled
        self.trace = None if sampled is None else sampled.context
        self._monotonic = clock.monotonic
        self.begun = clock.monotonic()
        self._entered = [("admission", self.begun)]
        """Each stage, and the monotonic second at which it began."""
        self._led: list[LeaderStages] = []
        """What leaders have told, to be taken from CLUSTER."""
        self.allowed = 0.0
        self.match: Match | None = None
        self.head: RequestHead | None = None
        self.body: CountedBody | None = None
        self.code: str | None = None

    def enter(self, stage: str) -> None:
        self._entered.append((stage, self._monotonic()))

    @property
    def seconds(self) -> dict[str, float]:
        """Return the seconds of each stage but the last, which has not ended. One that was entered
        again has the sum."""
        seconds: dict[str, float] = {}
        for (stage, begun), (_, ended) in pairwise(self._entered):
            seconds[stage] = seconds.get(stage, 0.0) + ended - begun
            if stage == CLUSTER and self._led:
                seconds.update({f"leader_{name}": 0.0 for name in LEADER_STAGES})
        for led in self._led:
            # what is left for the stage is the way there and back, and the search for a leader
            seconds[CLUSTER] = seconds.get(CLUSTER, 0.0) - led.total
            for name in LEADER_STAGES:
                stage = f"leader_{name}"
                seconds[stage] = seconds.get(stage, 0.0) + getattr(led, name)
        return seconds

    def allow(self, seconds: float) -> None:
        self.allowed += seconds

    def known(self, match: Match, head: RequestHead) -> None:
        self.match, self.head = match, head

    def reads(self, body: CountedBody) -> None:
        self.body = body

    def refused(self, refusal: ServiceError) -> None:
        self.code = refusal.code.value

    def led(self, stages: LeaderStages) -> None:
        self._led.append(stages)

    def names(self) -> tuple[str | None, str | None]:
        """Basin and stream, where the request has said them in a way that can be understood."""
        if self.match is None or self.head is None:
            return None, None
        try:
            basin = self.head.basin if self.match.stream is not None else self.match.basin
        except MalformedError:
            basin = None
        return basin, self.match.stream


@dataclass(frozen=True, slots=True)
class RequestLine:
    """One line that waits to be written."""

    event: str
    fields: dict[str, Any]


class RequestLog:
    """The lines of one gateway's requests. Everything here happens on its event loop."""

    def __init__(
        self,
        clock: Clock,
        left_out: Counter,
        *,
        every_request: bool = False,
        slow_seconds: float | None = None,
        lines_per_second_max: int = LINES_PER_SECOND_MAX,
        tracing: RequestTracing | None = None,
    ) -> None:
        """`slow_seconds`: what takes longer until its answer is made is told with its stages; None:
        nothing is. `left_out` counts the lines beyond `lines_per_second_max`, and those for which
        there is no room because nobody writes: as many as that may wait. `tracing`: None: no
        request is sampled."""
        self._clock = clock
        self._left_out = left_out
        self._every_request = every_request
        self._slow_seconds = slow_seconds
        self._lines_max = lines_per_second_max
        self._tracing = tracing
        self._waiting: list[RequestLine] = []
        self._second = -1
        self._in_second = 0
        self._untold = 0
        self._slow_left = float(SLOW_LINES_AT_ONCE)
        self._slow_counted_at = clock.monotonic()

    def change(
        self, *, every_request: bool, slow_seconds: float | None, lines_per_second_max: int
    ) -> None:
        """From now on this is told, and so many lines of it; requests under way that were not timed
        are not told of."""
        self._every_request = every_request
        self._slow_seconds = slow_seconds
        self._lines_max = lines_per_second_max

    @property
    def held_bytes(self) -> int:
        return LINE_BYTES * len(self._waiting)

    def begin(self, request: Request) -> Stages:
        """A request comes."""
        if self._tracing is not None and (sampled := self._tracing.begin(request)) is not None:
            return TimedStages(self._clock, sampled)
        if self._every_request or self._slow_seconds is not None:
            return TimedStages(self._clock)
        return UNTIMED

    def made(
        self, request: Request, resource: Resource | None, stages: Stages, response: Response
    ) -> None:
        """The answer is made; where it is a stream it is told once that has ended."""
        if not isinstance(stages, TimedStages):
            return
        stages.enter("")
        if not self._is_told(stages):
            return
        body = response.body
        line = self._fields(request, resource, stages, response.status)
        self._trace(line, stages)
        self._tell_if_slow(line, stages)
        if not self._every_request:
            return
        if isinstance(body, bytes):
            self._served(line, stages, 0 if request.method == "HEAD" else len(body))
        else:
            response.body = ToldStream(body, lambda sent: self._served(line, stages, sent))

    def unanswered(self, request: Request, resource: Resource | None, stages: Stages) -> None:
        """The client went before there was an answer, or nobody may wait for it any more."""
        if not isinstance(stages, TimedStages):
            return
        stages.enter("")
        if not self._is_told(stages):
            return
        line = self._fields(request, resource, stages, NO_ANSWER)
        self._trace(line, stages)
        self._tell_if_slow(line, stages)
        if self._every_request:
            self._served(line, stages, 0)

    def take(self) -> tuple[list[RequestLine], int]:
        """Return the lines that wait, which wait no longer, and how many were left out since."""
        lines, self._waiting = self._waiting, []
        untold, self._untold = self._untold, 0
        return lines, untold

    def _is_told(self, stages: TimedStages) -> bool:
        """Whether anything is to be told of it; of most requests nothing is."""
        return self._every_request or stages.sampled is not None or self._is_slow(stages)

    def _is_slow(self, stages: TimedStages) -> bool:
        limit = self._slow_seconds
        return limit is not None and self._seconds(stages) > limit + stages.allowed

    def _seconds(self, stages: TimedStages) -> float:
        return self._clock.monotonic() - stages.begun

    def _trace(self, line: Mapping[str, Attribute | None], stages: TimedStages) -> None:
        if self._tracing is not None and stages.sampled is not None:
            self._tracing.end(stages.sampled, line, stages.seconds)

    def _served(self, line: dict[str, Any], stages: TimedStages, sent: int) -> None:
        read = 0 if stages.body is None else stages.body.read_bytes
        taken = _ms(self._seconds(stages))
        sizes = {"request_bytes": read, "response_bytes": sent, "duration_ms": taken}
        self._tell(SERVED, line | sizes)

    def _tell_if_slow(self, line: dict[str, Any], stages: TimedStages) -> None:
        if not self._is_slow(stages):
            return
        if not self._may_tell_a_slow_one():
            self._leave_out()
            return
        parts = {stage: _ms(max(took, 0.0)) for stage, took in stages.seconds.items()}
        self._tell(SLOW, line | {"duration_ms": _ms(self._seconds(stages)), "stages_ms": parts})

    def _tell(self, event: str, fields: dict[str, Any]) -> None:
        second = int(self._clock.monotonic())
        if second != self._second:
            self._second, self._in_second = second, 0
        if self._in_second >= self._lines_max or len(self._waiting) >= self._lines_max:
            self._leave_out()
            return
        self._in_second += 1
        self._waiting.append(RequestLine(event, fields))

    def _may_tell_a_slow_one(self) -> bool:
        now = self._clock.monotonic()
        grown = self._slow_left + (now - self._slow_counted_at) * SLOW_LINES_PER_SECOND
        self._slow_left = min(grown, float(SLOW_LINES_AT_ONCE))
        self._slow_counted_at = now
        if self._slow_left < 1.0:
            return False
        self._slow_left -= 1.0
        return True

    def _leave_out(self) -> None:
        self._untold += 1
        self._left_out.inc()

    def _fields(
        self, request: Request, resource: Resource | None, stages: TimedStages, status: int
    ) -> dict[str, Any]:
        basin, stream = stages.names()
        return {
            "request_id": request.id,
            "operation": None if stages.match is None else stages.match.endpoint.operation,
            "method": request.method if request.method in METHODS else "OTHER",
            "route": template_of(resource),
            "basin": basin,
            "stream": stream,
            "address": request.connection.address or None,
            "status": status,
            "code": stages.code,
        }


class ToldStream:
    """An answer without an end, as it is sent. Once it has ended, however it did, that is told with
    how many bytes there were."""

    def __init__(self, pieces: AsyncIterator[bytes], ended: Callable[[int], None]) -> None:
        self._pieces = pieces
        self._ended: Callable[[int], None] | None = ended
        self._sent = 0

    def __aiter__(self) -> ToldStream:
        return self

    async def __anext__(self) -> bytes:
        piece = await anext(self._pieces)
        self._sent += len(piece)
        return piece

    def attach(self, sink: PieceSink) -> None:
        if isinstance(self._pieces, Attachable):
            self._sink = sink
            self._pieces.attach(self)

    @property
    def is_open(self) -> bool:
        return self._sink.is_open

    def send(self, piece: bytes) -> None:
        """Implements `PieceSink`: what does not go through the iterator counts too."""
        self._sent += len(piece)
        self._sink.send(piece)

    async def aclose(self) -> None:
        close = getattr(self._pieces, "aclose", None)
        try:
            if close is not None:
                await close()
        finally:
            ended, self._ended = self._ended, None
            if ended is not None:
                ended(self._sent)


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
