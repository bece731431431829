"""A name that is created, used and deleted, again and again: each life begins empty.

One client owns the name, so that it always knows which life its requests meant. Only what had an
unknown outcome may still turn up later, and then in one life at most.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence

from tests.linearizability.checker import check
from tests.linearizability.history import Append, Operation, Outcome, SeenRecord
from tests.simulation.checkers.acked import AckedChecker
from tests.simulation.checkers.raft import InvariantError
from tests.simulation.workload import (
    GoneError,
    NoEffectError,
    PastTailSeenError,
    Recorder,
    SimClient,
    StreamHistory,
    UnknownOutcomeError,
)

SETTLE_S = 12.0
"""Longer than every deadline: a request of unknown outcome is not under way any more."""

_PAGE_TRIES = 6


class Churner:
    """`with_basin`: the basin is created and deleted with its stream."""

    def __init__(
        self,
        recorder: Recorder,
        apis: Sequence[SimClient],
        rng: random.Random,
        basin: str,
        stream: str,
        with_basin: bool,
    ) -> None:
        self._recorder = recorder
        self._apis = apis
        self._rng = rng
        self._basin = basin
        self._stream = stream
        self._with_basin = with_basin
        self._unknown: list[Append] = []
        """Of earlier lives, not seen to have had an effect."""
        self.stopping = False

    async def run(self) -> None:
        life = 0
        while not self.stopping:
            life += 1
            if not await self._create():
                return
            name = f"{self._basin}/{self._stream}, life {life}"
            history = StreamHistory(self._basin, self._stream, AckedChecker(name), is_mortal=True)
            users = [self._use(history, self._rng.randint(2, 8)) for _ in range(2)]
            await asyncio.gather(*users)
            final = await self._read_all(history)
            if final is not None:
                self._judge(history, final)
            if not await self._delete():
                return
            await self._stays_deleted(history)
            await asyncio.sleep(self._rng.uniform(0.0, 1.0))

    def _judge(self, history: StreamHistory, final: list[SeenRecord]) -> None:
        operations: list[Operation] = [*self._unknown, *history.operations]
        history.acked.final(final)
        verdict = check(operations, final)
        if not verdict.ok:
            raise InvariantError(
                f"linearizable: a life of {history.basin}/{history.stream}:\n{verdict}"
            )
        bodies = {record.body for record in final}
        self._unknown = [
            operation
            for operation in operations
            if isinstance(operation, Append)
            and operation.outcome is Outcome.UNKNOWN
            and operation.bodies[0] not in bodies
        ]
        self._recorder.counts.lives += 1

    async def _use(self, history: StreamHistory, times: int) -> None:
        recorder, rng = self._recorder, self._rng
        client = recorder.new_client()
        for _ in range(times):
            api = rng.choice(self._apis)
            if rng.random() < 0.7:
                items = recorder.items(rng, client, rng.randint(1, 4), 0)
                append = await recorder.append(api, history, client, items)
                if append.outcome is Outcome.UNKNOWN:
                    client = recorder.new_client()
            else:
                start = rng.randint(0, history.tail_seen)
                await recorder.read(api, history, client, start, 100)
            await asyncio.sleep(rng.uniform(0, 0.1))

    async def _read_all(self, history: StreamHistory) -> list[SeenRecord] | None:
        """None when it did not succeed soon enough: nothing is known then of this life."""
        client = self._recorder.new_client()
        final: list[SeenRecord] = []
        for _ in range(_PAGE_TRIES):
            api = self._rng.choice(self._apis)
            read = await self._recorder.read(api, history, client, len(final), 1_000)
            if read is not None:
                final.extend(read.records)
                if len(final) >= (read.tail or 0):
                    return final
        self._unknown += [
            operation
            for operation in history.operations
            if isinstance(operation, Append) and operation.outcome is Outcome.UNKNOWN
        ]
        return None

    async def _create(self) -> bool:
        if self._with_basin and not await self._insist(
            lambda api: api.create_basin(self._basin), gone_is_good=False
        ):
            return False
        return await self._insist(
            lambda api: api.create_stream(self._basin, self._stream), gone_is_good=False
        )

    async def _delete(self) -> bool:
        if self._with_basin:
            return await self._insist(lambda api: api.delete_basin(self._basin), gone_is_good=True)
        return await self._insist(
            lambda api: api.delete_stream(self._basin, self._stream), gone_is_good=True
        )

    async def _insist(
        self, operation: Callable[[SimClient], Awaitable[None]], *, gone_is_good: bool
    ) -> bool:
        """Whether it was done before the run came to its end."""
        unknown = False
        while not self.stopping:
            try:
                await operation(self._rng.choice(self._apis))
            except GoneError:
                if not gone_is_good:
                    await asyncio.sleep(0.3)
                    continue
            except UnknownOutcomeError:
                unknown = True
                continue
            except NoEffectError:
                await asyncio.sleep(0.2)
                continue
            if unknown:
                await asyncio.sleep(SETTLE_S)
            return True
        return False

    async def _stays_deleted(self, history: StreamHistory) -> None:
        """The deletion of a stream is seen by every read that begins behind it. That of a basin is
        only accepted at first."""
        if self._with_basin:
            return
        try:
            seen = await self._rng.choice(self._apis).read(history.basin, history.stream, 0, 10)
        except PastTailSeenError as refusal:
            raise InvariantError(f"deleted-stays-deleted: {history.stream}") from refusal
        except (NoEffectError, UnknownOutcomeError):
            return
        raise InvariantError(f"deleted-stays-deleted: {history.stream}: {seen}")
