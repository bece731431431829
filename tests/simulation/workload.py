"""Clients of a simulated cluster: what they do is drawn from the seed; a history says what came."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass

from tests.linearizability.history import Append, Outcome
from tests.simulation.api import (
    Acked,
    Config,
    GoneError,
    Item,
    NoEffectError,
    OnBatch,
    PastTailSeenError,
    Records,
    SessionBatch,
    SessionEvents,
    SimClient,
    TailMismatchError,
    TokenMismatchError,
    UnknownOutcomeError,
)
from tests.simulation.recorder import Counts, Recorder, Retries, StreamHistory

__all__ = [
    "Acked",
    "Client",
    "Config",
    "Counts",
    "GoneError",
    "Item",
    "NoEffectError",
    "OnBatch",
    "PastTailSeenError",
    "Recorder",
    "Records",
    "SessionBatch",
    "SessionEvents",
    "SimClient",
    "StreamHistory",
    "TailMismatchError",
    "TokenMismatchError",
    "UnknownOutcomeError",
    "WorkloadOptions",
]


@dataclass(slots=True)
class WorkloadOptions:
    """Drawn once a seed (`draw`)."""

    clients: int = 4
    think_s: float = 0.15
    batch_max: int = 5
    padding_max: int = 0
    conditional: bool = True
    fencing: bool = True
    follow: bool = True
    read_share: float = 0.35
    tail_share: float = 0.15
    trim_share: float = 0.0
    """Of the appends."""
    session_share: float = 0.0
    """Of the appends: many batches at once in one append session."""
    retry_share: float = 0.0
    """Of the appends: with a request token, and sent again while the outcome is unknown."""
    event_streams: bool = False
    churned_streams: int = 0
    churned_basins: int = 0
    """Names that one client each creates, uses and deletes, again and again."""
    configured: int = 0
    """Configurations that two clients each change again and again, at most 2."""

    @staticmethod
    def draw(rng: random.Random) -> WorkloadOptions:
        return WorkloadOptions(
            clients=rng.randint(3, 7),
            think_s=rng.choice((0.03, 0.1, 0.2, 0.4)),
            batch_max=rng.choice((1, 3, 10, 30)),
            padding_max=rng.choice((0, 0, 100, 2_000)),
            conditional=rng.random() < 0.8,
            fencing=rng.random() < 0.7,
            follow=rng.random() < 0.8,
            read_share=rng.choice((0.1, 0.35, 0.5)),
            tail_share=rng.choice((0.05, 0.15, 0.3)),
            trim_share=rng.choice((0.0, 0.02, 0.1)),
            event_streams=rng.random() < 0.6,
            churned_streams=rng.choice((0, 0, 1)),
            churned_basins=rng.choice((0, 0, 0, 1)),
            configured=rng.choice((0, 0, 1, 2)),
            session_share=rng.choice((0.0, 0.1, 0.3)),
            retry_share=rng.choice((0.0, 0.2, 0.5, 1.0)),
        )


class Client:
    """One client with its habits: plain, chaining by `match_seq_num`, or fencing."""

    def __init__(
        self,
        recorder: Recorder,
        apis: Sequence[SimClient],
        options: WorkloadOptions,
        rng: random.Random,
    ) -> None:
        self._recorder = recorder
        self._apis = apis
        self._options = options
        self._rng = rng
        habits = ["plain"]
        habits += ["match"] * 2 if options.conditional else []
        habits += ["fence"] * 2 if options.fencing else []
        self._habit = rng.choice(habits)
        self._client = recorder.new_client()
        self._expected: dict[int, int] = {}
        self._token: dict[int, str] = {}
        self.stopping = False

    async def run(self) -> None:
        rng, options = self._rng, self._options
        while not self.stopping:
            await asyncio.sleep(rng.expovariate(1 / options.think_s))
            history = rng.choice(self._recorder.streams)
            api = rng.choice(self._apis)
            draw = rng.random()
            if draw < options.read_share:
                await self._read(api, history)
            elif draw < options.read_share + options.tail_share:
                await self._recorder.check_tail(api, history, self._client)
            else:
                await self._write(api, history)

    async def _write(self, api: SimClient, history: StreamHistory) -> None:
        share = self._options.session_share
        if share and self._rng.random() < share:
            batches = self._session(history)
            await self._recorder.append_session(api, history, batches)
            return
        items = self._items()
        if self._rng.random() < self._options.trim_share:
            await self._trim(api, history, items)
            return
        match self._habit:
            case "match":
                await self._chain(api, history, items)
            case "fence":
                await self._fenced(api, history, items)
            case _:
                await self._append(api, history, items)

    async def _append(
        self,
        api: SimClient,
        history: StreamHistory,
        items: Sequence[Item],
        match_seq_num: int | None = None,
        fencing_token: str | None = None,
    ) -> Append:
        retries = None
        if self._options.retry_share and self._rng.random() < self._options.retry_share:
            token = f"r{self._recorder.new_session()}"
            retries = Retries(token, self._apis, self._rng, self._rng.choice((2, 5)))
        append = await self._recorder.append(
            api, history, self._client, items, match_seq_num, fencing_token, retries
        )
        if append.outcome is Outcome.UNKNOWN:
            self._client = self._recorder.new_client()
        return append

    async def _trim(self, api: SimClient, history: StreamHistory, items: list[Item]) -> None:
        """Only what somebody has read; mostly near the front, now and then everything so far."""
        rng = self._rng
        await self._recorder.read(api, history, self._client, history.covered, 1_000)
        point = rng.choice((history.covered, rng.randint(0, history.covered)))
        items.append(Item.trimming(point))
        await self._append(api, history, items)

    def _session(self, history: StreamHistory) -> list[SessionBatch]:
        """Some batches have a condition that holds only as long as nobody else writes; those behind
        one that is refused have none, so that only their place in the session can keep them out."""
        rng = self._rng
        batches: list[SessionBatch] = []
        expected = history.tail_seen
        pause_s = rng.choice((0.0, 0.0, 0.01, 0.2))
        for _ in range(rng.choice((2, 5, 20))):
            items = self._items()
            match = token = None
            if self._options.conditional and rng.random() < 0.1:
                match = expected
            elif self._options.fencing and rng.random() < 0.03:
                token = self._token.get(id(history), "nobody's")
            batches.append(SessionBatch(items, match, token, rng.choice((0.0, pause_s))))
            expected += len(items)
        return batches

    def _items(self) -> list[Item]:
        options = self._options
        return self._recorder.items(
            self._rng, self._client, self._rng.randint(1, options.batch_max), options.padding_max
        )

    async def _chain(self, api: SimClient, history: StreamHistory, items: Sequence[Item]) -> None:
        """Append where this client believes the tail to be; believe what a refusal reports. After
        an unknown outcome the same place is tried again: at most one of the two can be there."""
        key = id(history)
        for _ in range(3):
            expected = self._expected.get(key, history.tail_seen)
            append = await self._append(api, history, items, match_seq_num=expected)
            if append.outcome is Outcome.OK:
                self._expected[key] = append.end or 0
                return
            if append.actual_tail is not None:
                self._expected[key] = append.actual_tail
                return
            if append.outcome is not Outcome.UNKNOWN:
                return
            items = self._items()

    async def _fenced(self, api: SimClient, history: StreamHistory, items: list[Item]) -> None:
        key = id(history)
        token = self._token.get(key)
        if token is None or self._rng.random() < 0.03:
            # take the stream over, whoever holds it
            token = self._recorder.new_token(self._client)
            # the last one of a batch counts
            spares = range(self._rng.choice((0, 0, 2)))
            items += [Item(f"{token}.{spare}", fence=True) for spare in spares]
            items.append(Item(token, fence=True))
            append = await self._append(api, history, items)
            if append.outcome is Outcome.OK:
                self._token[key] = token
            return
        append = await self._append(api, history, items, fencing_token=token)
        if append.actual_token is not None and self._rng.random() < 0.5:
            del self._token[key]

    async def _read(self, api: SimClient, history: StreamHistory) -> None:
        rng = self._rng
        tail = history.tail_seen
        start = rng.choice((0, max(0, tail - rng.randint(0, 20)), tail, rng.randint(0, tail + 2)))
        if self._options.follow and rng.random() < 0.3:
            await self._follow(api, history, start)
            return
        if self._options.event_streams and rng.random() < 0.2:
            lengths = [rng.uniform(0.1, 4) for _ in range(rng.randint(1, 3))]
            apis = [rng.choice(self._apis) for _ in lengths]
            await self._recorder.follow(apis, history, self._client, start, lengths)
            return
        await self._recorder.read(api, history, self._client, start, rng.choice((1, 7, 50, 1000)))

    async def _follow(self, api: SimClient, history: StreamHistory, start: int) -> None:
        """Some reads that wait at the tail, each from where the last one ended."""
        session = self._recorder.new_session()
        for _ in range(self._rng.randint(2, 8)):
            read = await self._recorder.read(
                api, history, self._client, start, 100, wait_s=1, session=session
            )
            if read is None or read.past_tail or self.stopping:
                return
            start = read.end
