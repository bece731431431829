"""Operations on streams, carried out and written down: what the checkers judge.

Every record body is unique. An append of unknown outcome may still be under way: whoever issued it
goes on under a new client number.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tests.linearizability.bodies import make_body
from tests.linearizability.history import (
    NEVER,
    Append,
    CheckTail,
    Operation,
    Outcome,
    Read,
    SeenRecord,
)
from tests.simulation.api import (
    Acked,
    GoneError,
    Item,
    NoEffectError,
    PastTailSeenError,
    SessionBatch,
    SimClient,
    TailMismatchError,
    TokenMismatchError,
    UnknownOutcomeError,
)
from tests.simulation.checkers.acked import AckedChecker
from tests.simulation.checkers.raft import InvariantError


@dataclass(slots=True)
class StreamHistory:
    """Everything seen of one stream, and what was acknowledged on it."""

    basin: str
    stream: str
    acked: AckedChecker
    operations: list[Operation] = field(default_factory=list)
    tail_seen: int = 0
    is_mortal: bool = False
    """It may be gone; the others are there for ever."""
    known: dict[int, SeenRecord] = field(default_factory=dict)
    covered: int = 0
    """All records below this were read by somebody: only they are trimmed, so that the checker
    knows the whole stream."""

    def may_be_gone(self, refusal: Exception) -> None:
        """Raises what says of an immortal stream that it is not there."""
        if isinstance(refusal, GoneError) and not self.is_mortal:
            raise refusal

    def learn(self, records: Sequence[SeenRecord]) -> None:
        for record in records:
            self.known.setdefault(record.seq_num, record)
        while self.covered in self.known:
            self.covered += 1


@dataclass(slots=True)
class Counts:
    acked: int = 0
    unknown: int = 0
    refused: int = 0
    reads: int = 0
    failed_reads: int = 0
    trims: int = 0
    """Acknowledged."""
    event_batches: int = 0
    session_batches: int = 0
    """Acknowledged in append sessions."""
    retries: int = 0
    """Attempts behind the first of appends with a request token."""
    lives: int = 0
    """Of streams that were deleted and made again, each checked."""


class Retries:
    """How one append is sent again until its outcome is known, or too often: under one request
    token, through whichever gateway."""

    def __init__(
        self, request_token: str, apis: Sequence[SimClient], rng: random.Random, attempts: int
    ) -> None:
        self.request_token = request_token
        self.attempts = attempts
        self._apis = apis
        self._rng = rng

    async def next_api(self) -> SimClient:
        """Behind a pause."""
        await asyncio.sleep(self._rng.choice((0.0, 0.05, 0.5)))
        return self._rng.choice(self._apis)


class Recorder:
    """Issues operations and writes down what came of them. One for a run."""

    def __init__(self, run: int) -> None:
        self.run = run
        self.counts = Counts()
        self.streams: list[StreamHistory] = []
        self._moments = count(1)
        self._clients = count(1)
        self._ops = count(1)
        self._sessions = count(1)

    def stream(self, basin: str, stream: str) -> StreamHistory:
        history = StreamHistory(basin, stream, AckedChecker(f"{basin}/{stream}"))
        self.streams.append(history)
        return history

    def moment(self) -> int:
        """The next place in the one log of events."""
        return next(self._moments)

    def new_client(self) -> int:
        return next(self._clients)

    def new_session(self) -> int:
        return next(self._sessions)

    def new_token(self, client: int) -> str:
        """A fencing token that nobody else in this run takes."""
        return f"t{self.new_session()}.{client}"

    def items(self, rng: random.Random, client: int, how_many: int, padding: int) -> list[Item]:
        op = next(self._ops)
        return [
            Item(make_body(self.run, client, op, 0, place, rng.randint(0, padding)))
            for place in range(how_many)
        ]

    async def append(
        self,
        api: SimClient,
        history: StreamHistory,
        client: int,
        items: Sequence[Item],
        match_seq_num: int | None = None,
        fencing_token: str | None = None,
        retries: Retries | None = None,
    ) -> Append:
        """With `retries` it is one operation, however often it is sent."""
        inv = next(self._moments)
        outcome = Outcome.FAILED
        acked: Acked | None = None
        tail: int | None = None
        token: str | None = None
        attempts = range(1 if retries is None else retries.attempts)
        for attempt in attempts:
            if retries is not None and attempt > 0:
                api = await retries.next_api()
                self.counts.retries += 1
            try:
                acked = await api.append(
                    history.basin,
                    history.stream,
                    items,
                    match_seq_num,
                    fencing_token,
                    None if retries is None else retries.request_token,
                )
                outcome = Outcome.OK
                break
            except UnknownOutcomeError:
                outcome = Outcome.UNKNOWN
            except TailMismatchError as refusal:
                tail, outcome = refusal.tail, Outcome.FAILED
                break
            except TokenMismatchError as refusal:
                token, outcome = refusal.token, Outcome.FAILED
                break
            except NoEffectError as refusal:
                # of this attempt; one before it may be under way
                history.may_be_gone(refusal)
        append = Append(
            client,
            inv,
            NEVER if outcome is Outcome.UNKNOWN else next(self._moments),
            tuple(item.body for item in items),
            outcome,
            match_seq_num,
            fencing_token,
            tuple((place, item.body) for place, item in enumerate(items) if item.fence),
            tuple((place, item.trim) for place, item in enumerate(items) if item.trim is not None),
            start=None if acked is None else acked.start,
            end=None if acked is None else acked.end,
            tail=None if acked is None else acked.tail,
            actual_tail=tail,
            actual_token=token,
        )
        history.operations.append(append)
        self.count(history, append)
        return append

    async def append_session(
        self, api: SimClient, history: StreamHistory, batches: Sequence[SessionBatch]
    ) -> None:
        """Batches that were never sent are not written down."""
        log = _SessionLog(self, history, batches)
        try:
            await api.append_session(history.basin, history.stream, batches, log)
        except UnknownOutcomeError:
            log.end(Outcome.UNKNOWN)
        except TailMismatchError as refusal:
            log.end(Outcome.FAILED, actual_tail=refusal.tail)
        except TokenMismatchError as refusal:
            log.end(Outcome.FAILED, actual_token=refusal.token)
        except NoEffectError as refusal:
            history.may_be_gone(refusal)
            log.end(Outcome.FAILED)
        else:
            if log.sent_at:
                raise InvariantError(f"session-answers-all: {len(log.sent_at)} are unanswered")

    def count(self, history: StreamHistory, append: Append) -> None:
        if append.outcome is Outcome.OK:
            self.counts.acked += 1
            self.counts.trims += len(append.trims)
            self.counts.session_batches += append.session is not None
            history.acked.acknowledged(append)
            history.tail_seen = max(history.tail_seen, append.end or 0)
        elif append.outcome is Outcome.UNKNOWN:
            self.counts.unknown += 1
        else:
            self.counts.refused += 1

    async def read(
        self,
        api: SimClient,
        history: StreamHistory,
        client: int,
        start: int,
        count: int,
        *,
        wait_s: int = 0,
        session: int | None = None,
    ) -> Read | None:
        """None when it failed without telling anything."""
        inv = next(self._moments)
        try:
            seen = await api.read(history.basin, history.stream, start, count, wait_s)
        except PastTailSeenError as refusal:
            read = Read(client, inv, next(self._moments), start, (), refusal.tail, past_tail=True)
        except (NoEffectError, UnknownOutcomeError) as refusal:
            history.may_be_gone(refusal)
            self.counts.failed_reads += 1
            return None
        else:
            read = Read(
                client,
                inv,
                next(self._moments),
                start,
                seen.records,
                seen.tail,
                limited=seen.limited,
                session=session,
            )
        self._saw(history, read)
        return read

    def _saw(self, history: StreamHistory, read: Read) -> None:
        self.counts.reads += 1
        history.operations.append(read)
        history.acked.seen(read)
        history.learn(read.records)
        history.tail_seen = max(history.tail_seen, read.tail or read.end)

    async def follow(
        self,
        apis: Sequence[SimClient],
        history: StreamHistory,
        client: int,
        start: int,
        seconds: Sequence[float],
    ) -> None:
        """One session over several connections, each from where the last one ended. A batch was
        read some time between the beginning of the session and its delivery."""
        session, inv = self.new_session(), next(self._moments)
        expected = start

        def on_batch(records: tuple[SeenRecord, ...]) -> None:
            nonlocal expected
            read = Read(
                client,
                inv,
                next(self._moments),
                expected,
                records,
                limited=True,
                session=session,
            )
            self._saw(history, read)
            self.counts.event_batches += 1
            expected = read.end

        for api, length in zip(apis, seconds, strict=True):
            try:
                await api.follow(history.basin, history.stream, expected, length, on_batch)
            except (PastTailSeenError, NoEffectError, UnknownOutcomeError) as refusal:
                history.may_be_gone(refusal)
                self.counts.failed_reads += 1

    async def check_tail(
        self, api: SimClient, history: StreamHistory, client: int
    ) -> CheckTail | None:
        inv = next(self._moments)
        try:
            tail = await api.check_tail(history.basin, history.stream)
        except (NoEffectError, UnknownOutcomeError) as refusal:
            history.may_be_gone(refusal)
            self.counts.failed_reads += 1
            return None
        seen = CheckTail(client, inv, next(self._moments), tail)
        self.counts.reads += 1
        history.operations.append(seen)
        history.tail_seen = max(history.tail_seen, tail)
        return seen


class _SessionLog:
    """Writes down one append session as it goes on."""

    def __init__(
        self, recorder: Recorder, history: StreamHistory, batches: Sequence[SessionBatch]
    ) -> None:
        self._recorder = recorder
        self._history = history
        self._batches = batches
        self._session = recorder.new_session()
        self._ended = 0
        self.sent_at: deque[int] = deque()
        """Of those without an outcome."""

    def sent(self) -> None:
        self.sent_at.append(self._recorder.moment())

    def acked(self, ack: Acked) -> None:
        self._add(Outcome.OK, start=ack.start, end=ack.end, tail=ack.tail)

    def end(self, outcome: Outcome, **refusal: Any) -> None:
        """The first batch without an acknowledgement came to this, and all behind it with it."""
        while self.sent_at:
            self._add(outcome, **refusal)
            refusal = {}

    def _add(self, outcome: Outcome, **result: Any) -> None:
        recorder, batch = self._recorder, self._batches[self._ended]
        append = Append(
            recorder.new_client(),
            self.sent_at.popleft(),
            NEVER if outcome is Outcome.UNKNOWN else recorder.moment(),
            tuple(item.body for item in batch.items),
            outcome,
            batch.match_seq_num,
            batch.fencing_token,
            session=self._session,
            ordinal=self._ended,
            **result,
        )
        self._ended += 1
        self._history.operations.append(append)
        recorder.count(self._history, append)
