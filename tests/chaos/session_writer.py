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
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from enum import Enum
from urllib.parse import urlsplit

from svc_cluster._pb.s2.v1 import s2_pb2 as pb
from svc_cluster.codec.session_frame import Frame, FrameDecoder, encode_frame
from tests.chaos.api import ChaosApi
from tests.chaos.writers import read_bodies

WINDOW = 8
"""Batches that wait for their acknowledgement."""

SILENCE_S = 6.0
"""Longer than the gateway needs for any answer."""


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

    async def run(self) -> None:
        while not self.stopping:
            with contextlib.suppress(OSError, EOFError, TimeoutError):
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
        batches: list[Batch] = []
        self.sessions.append(batches)
        parts = urlsplit(url)
        async with asyncio.timeout(SILENCE_S):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        try:
            head = (
                f"POST /v1/streams/{self.stream}/records HTTP/1.1\r\nhost: x\r\n"
                f"s2-basin: {self.basin}\r\ncontent-type: s2s/proto\r\n"
                "transfer-encoding: chunked\r\n\r\n"
            )
            writer.write(head.encode())
            async with asyncio.timeout(SILENCE_S):
                answer = await reader.readuntil(b"\r\n\r\n")
            if answer.split(b" ")[1] != b"200":
                return
            waiting: deque[Batch] = deque()
            room = asyncio.Semaphore(WINDOW)
            sending = asyncio.create_task(self._send(writer, batches, waiting, room))
            try:
                await self._receive(reader, waiting, room)
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
        finally:
            writer.close()

    async def _send(
        self,
        writer: asyncio.StreamWriter,
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
            frame = encode_frame(message.SerializeToString())
            writer.write(b"%x\r\n%b\r\n" % (len(frame), frame))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async def _receive(
        self, reader: asyncio.StreamReader, waiting: deque[Batch], room: asyncio.Semaphore
    ) -> None:
        async for frame in _frames(reader):
            if frame.is_terminal:
                self._failed(frame, waiting)
                return
            ack = pb.AppendAck.FromString(frame.message())
            batch = waiting.popleft()
            batch.state, batch.start = State.ACKED, ack.start.seq_num
            if ack.end.seq_num - ack.start.seq_num != len(batch.bodies):
                self.violations.append(f"{self.stream}: {batch} acknowledged as {ack}")
            room.release()
        if waiting and not self.stopping:
            self.violations.append(f"{self.stream}: a clean end leaves {len(waiting)} unanswered")

    def _failed(self, frame: Frame, waiting: deque[Batch]) -> None:
        """Later inputs are not applied; of the first the frame says whether it may have been."""
        body = json.loads(frame.payload[2:])
        for place, batch in enumerate(waiting):
            if place or not body.get("may_have_taken_effect"):
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


async def _frames(reader: asyncio.StreamReader) -> AsyncIterator[Frame]:
    """The frames in a chunked body. Raises OSError, EOFError, TimeoutError when it breaks off."""
    decoder = FrameDecoder()
    while True:
        async with asyncio.timeout(SILENCE_S):
            size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
            data = (await reader.readexactly(size + 2))[:-2]
        if size == 0:
            return
        decoder.feed(data)
        while (frame := decoder.next_frame()) is not None:
            yield frame
