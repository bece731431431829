"""A writer by append sessions: many batches on their way at once, and what must hold for them.

It is the only writer of its stream. Of the batches of one session those that got in are the first
ones, whole and in order, whatever happened to leaders, gateways and connections meanwhile; what was
acknowledged is among them, what was refused for sure is not.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections import deque
from dataclasses import dataclass, field
from enum import Enum

from svc_cluster._pb.s2.v1 import s2_pb2 as pb
from svc_cluster.codec.session_frame import SessionFrame, encode_frame
from tests.chaos.api import ChaosApi
from tests.chaos.exchange import Exchange, LostError, Open, frames_of, open_http1, open_http2
from tests.chaos.writers import read_bodies

WINDOW = 32
"""Batches that wait for their acknowledgement."""


class State(Enum):
    UNKNOWN = "unknown"
    ACKED = "acked"
    NEVER = "never"


@dataclass(slots=True)
class Batch:
    bodies: list[str]
    state: State = State.UNKNOWN
    start: int = -1


@dataclass(slots=True)
class SessionWriter:
    """Opens one session after the other, through one gateway after the other."""

    apis: list[ChaosApi]
    basin: str
    stream: str
    rng: random.Random
    sessions: list[list[Batch]] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    stopping: bool = False
    planned_stops: bool = False
    """Gateways are stopped in order meanwhile: such a one ends a session behind all that it has
    taken, and has taken nothing of what it leaves unanswered."""

    async def run(self) -> None:
        while not self.stopping:
            with contextlib.suppress(LostError):
                await self._one(self.apis[len(self.sessions) % len(self.apis)].url)
            await asyncio.sleep(0.02)

    @property
    def acked(self) -> int:
        return sum(b.state is State.ACKED for session in self.sessions for b in session)

    @property
    def unknown(self) -> int:
        return sum(b.state is State.UNKNOWN for session in self.sessions for b in session)

    # -- one session

    async def _one(self, url: str) -> None:
        """Every second one is over HTTP/2."""
        open_exchange: Open = open_http2 if len(self.sessions) % 2 else open_http1
        batches: list[Batch] = []
        self.sessions.append(batches)
        headers = {"s2-basin": self.basin, "content-type": "s2s/proto"}
        exchange = await open_exchange(url, "POST", f"/v1/streams/{self.stream}/records", headers)
        try:
            if exchange.status != 200:
                return
            waiting: deque[Batch] = deque()
            room = asyncio.Semaphore(WINDOW)
            sending = asyncio.create_task(self._send(exchange, batches, waiting, room))
            try:
                await self._receive(exchange, waiting, room)
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
        finally:
            exchange.close()

    async def _send(
        self,
        exchange: Exchange,
        batches: list[Batch],
        waiting: deque[Batch],
        room: asyncio.Semaphore,
    ) -> None:
        session = len(self.sessions)
        for number in range(self.rng.randint(20, 80)):
            await room.acquire()
            if self.stopping:
                break
            count = self.rng.choice((1, 1, 2, 5))
            batch = Batch([f"{self.stream}/{session}/{number}/{n}" for n in range(count)])
            batches.append(batch)
            waiting.append(batch)
            message = pb.AppendInput()
            for body in batch.bodies:
                message.records.add(body=body.encode())
            await exchange.send(encode_frame(message.SerializeToString()))
        await exchange.end()

    async def _receive(
        self, exchange: Exchange, waiting: deque[Batch], room: asyncio.Semaphore
    ) -> None:
        async for frame in frames_of(exchange):
            if frame.is_terminal:
                self._failed(frame, waiting)
                return
            ack = pb.AppendAck.FromString(frame.message())
            batch = waiting.popleft()
            batch.state, batch.start = State.ACKED, ack.start.seq_num
            if ack.end.seq_num - ack.start.seq_num != len(batch.bodies):
                self.violations.append(f"{self.stream}: {batch} acknowledged as {ack}")
            room.release()
        if waiting and self.planned_stops:
            for batch in waiting:
                batch.state = State.NEVER
        elif waiting and not self.stopping:
            self.violations.append(f"{self.stream}: a clean end leaves {len(waiting)} unanswered")

    def _failed(self, frame: SessionFrame, waiting: deque[Batch]) -> None:
        """The frame says whether the first may be there; if it is not, none behind it is."""
        _, body = frame.failure()
        if not json.loads(body).get("may_have_taken_effect"):
            for batch in waiting:
                batch.state = State.NEVER

    # -- the verdict

    async def verify(self) -> None:
        found = await read_bodies(self.apis[0], self.basin, self.stream)
        place_of = {body: place for place, body in enumerate(found)}
        if len(place_of) != len(found):
            self.violations.append(f"{self.stream}: {len(found) - len(place_of)} records twice")
        behind = 0
        for session in self.sessions:
            lacking: Batch | None = None
            for batch in session:
                places = [place_of.get(body) for body in batch.bodies]
                if places == [None] * len(places):
                    lacking = lacking or batch
                    if batch.state is State.ACKED:
                        self.violations.append(f"{self.stream}: lost {batch}")
                    continue
                if lacking is not None:
                    self.violations.append(f"{self.stream}: {batch} is there without {lacking}")
                if batch.state is State.NEVER:
                    self.violations.append(f"{self.stream}: {batch} was refused and is there")
                if places != list(range(places[0] or 0, (places[0] or 0) + len(places))):
                    self.violations.append(f"{self.stream}: {batch} is at {places}")
                first = places[0] or 0
                if first < behind or (batch.state is State.ACKED and batch.start != first):
                    self.violations.append(f"{self.stream}: {batch} is at {first}, after {behind}")
                behind = first
