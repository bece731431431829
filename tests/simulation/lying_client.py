"""Clients through which a correct cluster looks broken: each class is one planted bug."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from tests.linearizability.history import SeenRecord
from tests.simulation.api import ConfiguringClient
from tests.simulation.workload import (
    Acked,
    Config,
    Item,
    NoEffectError,
    OnBatch,
    Records,
    SessionBatch,
    SessionEvents,
    TailMismatchError,
    TokenMismatchError,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ask:
    """One append."""

    basin: str
    stream: str
    items: tuple[Item, ...]
    match_seq_num: int | None
    fencing_token: str | None
    request_token: str | None = None

    @property
    def is_plain(self) -> bool:
        return self.match_seq_num is None and self.fencing_token is None

    @property
    def place(self) -> tuple[str, str]:
        return self.basin, self.stream


class HonestClient:
    """Passes everything on. What a bug changes, it overrides; `now` says when."""

    share = 0.05

    def __init__(self, api: ConfiguringClient, rng: random.Random) -> None:
        self.api = api
        self.rng = rng

    def now(self) -> bool:
        return self.rng.random() < self.share

    async def create_basin(self, basin: str) -> None:
        await self.api.create_basin(basin)

    async def create_stream(self, basin: str, stream: str) -> None:
        await self.api.create_stream(basin, stream)

    async def delete_basin(self, basin: str) -> None:
        await self.api.delete_basin(basin)

    async def delete_stream(self, basin: str, stream: str) -> None:
        await self.api.delete_stream(basin, stream)

    async def reconfigure(self, basin: str, stream: str | None, change: Config) -> Config:
        return await self.api.reconfigure(basin, stream, change)

    async def config(self, basin: str, stream: str | None) -> Config:
        return await self.api.config(basin, stream)

    async def append(
        self,
        basin: str,
        stream: str,
        items: Sequence[Item],
        match_seq_num: int | None = None,
        fencing_token: str | None = None,
        request_token: str | None = None,
    ) -> Acked:
        return await self.put(
            Ask(basin, stream, tuple(items), match_seq_num, fencing_token, request_token)
        )

    async def put(self, ask: Ask) -> Acked:
        return await self.api.append(
            ask.basin,
            ask.stream,
            ask.items,
            ask.match_seq_num,
            ask.fencing_token,
            ask.request_token,
        )

    async def append_session(
        self, basin: str, stream: str, batches: Sequence[SessionBatch], events: SessionEvents
    ) -> None:
        await self.api.append_session(basin, stream, batches, events)

    async def read(
        self, basin: str, stream: str, start: int, count: int, wait_s: int = 0
    ) -> Records:
        return await self.api.read(basin, stream, start, count, wait_s)

    async def check_tail(self, basin: str, stream: str) -> int:
        return await self.api.check_tail(basin, stream)

    async def follow(
        self, basin: str, stream: str, start: int, seconds: float, on_batch: OnBatch
    ) -> None:
        await self.api.follow(basin, stream, start, seconds, on_batch)


class RememberingClient(HonestClient, Generic[T]):
    """One that knows what it saw before, by what it was asked about."""

    def __init__(self, api: ConfiguringClient, rng: random.Random) -> None:
        super().__init__(api, rng)
        self.seen: dict[tuple[str | int, ...], T] = {}


class NeverSent(HonestClient):
    """An append is acknowledged and never sent."""

    async def put(self, ask: Ask) -> Acked:
        if ask.is_plain and self.now():
            tail = await self.api.check_tail(*ask.place)
            return Acked(tail, tail + len(ask.items), tail + len(ask.items))
        return await super().put(ask)


class SentTwice(HonestClient):
    """An append is carried out twice."""

    async def put(self, ask: Ask) -> Acked:
        acked = await super().put(ask)
        if ask.is_plain and self.now():
            await super().put(ask)
        return acked


class HalfBatch(HonestClient):
    """Only half a batch is carried out."""

    async def put(self, ask: Ask) -> Acked:
        if len(ask.items) < 2 or not self.now():
            return await super().put(ask)
        acked = await super().put(replace(ask, items=ask.items[: len(ask.items) // 2]))
        return replace(acked, end=acked.start + len(ask.items))


class OtherOrder(HonestClient):
    """The records of a batch are in another order."""

    async def put(self, ask: Ask) -> Acked:
        return await super().put(replace(ask, items=ask.items[::-1]) if self.now() else ask)


class Exchanged(RememberingClient[Acked]):
    """Two acknowledged batches exchange their places."""

    async def put(self, ask: Ask) -> Acked:
        acked = await super().put(ask)
        key = (*ask.place, len(ask.items))
        if not ask.is_plain or acked.end - acked.start != len(ask.items):
            return acked
        before = self.seen.pop(key, None)
        if before is None:
            if self.now():
                self.seen[key] = acked
            return acked
        return replace(before, tail=acked.tail)


class OtherPlace(HonestClient):
    """An append is acknowledged for another place."""

    async def put(self, ask: Ask) -> Acked:
        acked = await super().put(ask)
        return Acked(acked.start + 1, acked.end + 1, acked.tail + 1) if self.now() else acked


class FalseRefusal(HonestClient):
    """A definite refusal for an append that took effect."""

    async def put(self, ask: Ask) -> Acked:
        acked = await super().put(ask)
        if self.now():
            raise NoEffectError("nothing happened")
        return acked


class MatchIgnored(HonestClient):
    """`match_seq_num` is ignored."""

    async def put(self, ask: Ask) -> Acked:
        return await super().put(replace(ask, match_seq_num=None))


class TokenIgnored(HonestClient):
    """The fencing token is ignored."""

    async def put(self, ask: Ask) -> Acked:
        return await super().put(replace(ask, fencing_token=None))


class OldTokenReported(RememberingClient[str]):
    """A refusal reports the token before the current one."""

    async def put(self, ask: Ask) -> Acked:
        try:
            return await super().put(ask)
        except TokenMismatchError as refusal:
            before = self.seen.setdefault(ask.place, refusal.token)
            self.seen[ask.place] = refusal.token
            raise TokenMismatchError(before) from refusal


class OldTailReported(RememberingClient[int]):
    """A refusal reports an old tail."""

    async def put(self, ask: Ask) -> Acked:
        try:
            return await super().put(ask)
        except TailMismatchError as refusal:
            before = self.seen.setdefault(ask.place, refusal.tail)
            self.seen[ask.place] = refusal.tail
            raise TailMismatchError(before) from refusal


class OldTail(RememberingClient[int]):
    """The tail is a while old."""

    async def check_tail(self, basin: str, stream: str) -> int:
        tail = await super().check_tail(basin, stream)
        before = self.seen.setdefault((basin, stream), tail)
        self.seen[basin, stream] = tail
        return before if self.now() else tail


class OldRead(RememberingClient[Records]):
    """A read is a while old."""

    async def read(
        self, basin: str, stream: str, start: int, count: int, wait_s: int = 0
    ) -> Records:
        seen = await super().read(basin, stream, start, count, wait_s)
        before = self.seen.setdefault((basin, stream, start, count), seen)
        self.seen[basin, stream, start, count] = seen
        return before


class LastRecordLeftOut(HonestClient):
    """A read leaves out its last record."""

    async def read(
        self, basin: str, stream: str, start: int, count: int, wait_s: int = 0
    ) -> Records:
        seen = await super().read(basin, stream, start, count, wait_s)
        return replace(seen, records=seen.records[:-1]) if self.now() else seen


class OtherTimestamp(HonestClient):
    """A timestamp differs between two reads."""

    async def read(
        self, basin: str, stream: str, start: int, count: int, wait_s: int = 0
    ) -> Records:
        seen = await super().read(basin, stream, start, count, wait_s)
        if not seen.records or not self.now():
            return seen
        last: SeenRecord = seen.records[-1]
        return replace(
            seen,
            records=(*seen.records[:-1], last._replace(timestamp_ms=last.timestamp_ms + 1)),
        )


class TrimNotDone(HonestClient):
    """A trim is acknowledged and not carried out."""

    async def put(self, ask: Ask) -> Acked:
        items = tuple(Item(item.body) if item.trim else item for item in ask.items)
        return await super().put(replace(ask, items=items))


class TrimTooFar(HonestClient):
    """A trim removes one record too many."""

    async def put(self, ask: Ask) -> Acked:
        items = tuple(
            item if item.trim is None else Item.trimming(item.trim + 1) for item in ask.items
        )
        return await super().put(replace(ask, items=items))


class EventGap(HonestClient):
    """An event stream leaves out a batch."""

    async def follow(
        self, basin: str, stream: str, start: int, seconds: float, on_batch: OnBatch
    ) -> None:
        def some(records: tuple[SeenRecord, ...]) -> None:
            if not self.now():
                on_batch(records)

        await super().follow(basin, stream, start, seconds, some)


class EventTwice(HonestClient):
    """An event stream repeats a batch."""

    async def follow(
        self, basin: str, stream: str, start: int, seconds: float, on_batch: OnBatch
    ) -> None:
        def more(records: tuple[SeenRecord, ...]) -> None:
            on_batch(records)
            if self.now():
                on_batch(records)

        await super().follow(basin, stream, start, seconds, more)


class NotDeleted(HonestClient):
    """A deleted stream is still there."""

    async def delete_stream(self, basin: str, stream: str) -> None:
        await self.api.check_tail(basin, stream)
