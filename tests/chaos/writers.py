"""Load besides the drawn one: a writer that must end with exactly one copy of everything, clients
that break off, readers that hardly read, and a stream that is deleted and made again."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import random
import socket
import struct
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.chaos.api import ChaosApi
from tests.simulation.workload import (
    Item,
    NoEffectError,
    PastTailSeenError,
    TailMismatchError,
    UnknownOutcomeError,
)

_PAUSE_S = 0.02


@dataclass(slots=True)
class Retrier:
    """The only writer of its stream: repeats each batch under `match_seq_num`, through one gateway
    after the other, until it is known to have happened."""

    apis: list[ChaosApi]
    basin: str
    stream: str
    log: list[str] = field(default_factory=list)
    ambiguous: int = 0
    resolved_as_done: int = 0
    violations: list[str] = field(default_factory=list)
    stopping: bool = False

    async def run(self) -> None:
        number = 0
        while not self.stopping:
            bodies = [f"{self.stream}/{number}/{place}" for place in range(1 + number % 3)]
            number += 1
            await self._settle(bodies)
            await asyncio.sleep(_PAUSE_S)

    async def _settle(self, bodies: list[str]) -> None:
        """Goes on after `stopping` until the batch is settled: no outcome stays open."""
        expected, doubtful, turn = len(self.log), False, len(self.log)
        while True:
            turn += 1
            api = self.apis[turn % len(self.apis)]
            try:
                ack = await api.append(
                    self.basin, self.stream, [Item(body) for body in bodies], expected
                )
            except UnknownOutcomeError:
                doubtful = True
                self.ambiguous += 1
            except NoEffectError:
                pass
            except TailMismatchError as refusal:
                if not doubtful or refusal.tail != expected + len(bodies):
                    self.violations.append(f"{self.stream}: tail {refusal.tail} at {expected}")
                    self.stopping = True
                    return
                self.resolved_as_done += 1
                self.log += bodies
                return
            else:
                if (ack.start, ack.end) != (expected, expected + len(bodies)):
                    self.violations.append(f"{self.stream}: {ack} at {expected}")
                self.log += bodies
                return
            await asyncio.sleep(_PAUSE_S)

    async def verify(self) -> None:
        """What is there is what was written, each record once."""
        found = await read_bodies(self.apis[0], self.basin, self.stream)
        if found != self.log:
            self.violations.append(
                f"{self.stream}: {len(found)} records of {len(self.log)}; "
                f"{len(found) - len(set(found))} twice"
            )


async def read_bodies(api: ChaosApi, basin: str, stream: str) -> list[str]:
    """A whole stream; asks again while refused, for 30 s at most."""
    found: list[str] = []
    async with asyncio.timeout(30):
        while True:
            try:
                answer = await api.read(basin, stream, len(found), 1000)
            except (NoEffectError, UnknownOutcomeError):
                await asyncio.sleep(_PAUSE_S)
                continue
            except PastTailSeenError:
                return found
            found += [record.body for record in answer.records]
            if len(found) >= answer.tail:
                return found


def _connect(url: str, receive_bytes: int | None = None) -> socket.socket:
    parts = urlsplit(url)
    made = socket.socket()
    if receive_bytes is not None:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    made.settimeout(2.0)
    made.connect((parts.hostname, parts.port))
    made.setblocking(False)
    return made


async def break_off(url: str, basin: str, stream: str, rng: random.Random) -> None:
    """Send a part of an append and reset the connection. What arrived is not a request, so these
    records, which no history knows, must never be read."""
    loop = asyncio.get_running_loop()
    body = b'{"records":[{"body":"%s"}]}' % base64.b64encode(b"half of a request" * 20)
    head = (
        f"POST /v1/streams/{stream}/records HTTP/1.1\r\nhost: localhost\r\nsvc-basin: {basin}\r\n"
        f"svc-format: base64\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        "\r\n"
    ).encode()
    request = head + body
    with contextlib.suppress(OSError):
        sock = _connect(url)
        try:
            await loop.sock_sendall(sock, request[: rng.randrange(1, len(request))])
            await asyncio.sleep(rng.choice((0.0, 0.005)))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        finally:
            sock.close()


async def hardly_read(url: str, basin: str, stream: str, stop: asyncio.Event) -> int:
    """Follow a stream from its beginning, one byte a second. Returns the bytes read."""
    loop = asyncio.get_running_loop()
    sock = _connect(url, receive_bytes=4096)
    count = 0
    try:
        request = (
            f"GET /v1/streams/{stream}/records?seq_num=0 HTTP/1.1\r\nhost: localhost\r\n"
            f"svc-basin: {basin}\r\naccept: text/event-stream\r\n\r\n"
        )
        await loop.sock_sendall(sock, request.encode())
        while not stop.is_set():
            piece = await loop.sock_recv(sock, 1)
            if not piece:
                return count
            count += 1
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await stop.wait()
    except OSError:
        return count
    finally:
        sock.close()
    return count


@dataclass(slots=True)
class Recreator:
    """Deletes a stream and makes it again, while others append to it and read it: what belonged to
    an earlier life must never be seen again once its successor was made."""

    api: ChaosApi
    basin: str
    stream: str
    life: int = 0
    doubtful: set[int] = field(default_factory=set)  # lives with a write that may come late
    lives: int = 0
    reads: int = 0
    violations: list[str] = field(default_factory=list)
    stopping: bool = False

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._live())
            for _ in range(2):
                group.create_task(self._read())

    async def _live(self) -> None:
        while not self.stopping:
            self.life += 1  # from here on only this life may be seen by reads that begin
            await self._until("POST", "/v1/streams", {"stream": self.stream}, (200, 201))
            for number in range(5):
                try:
                    await self.api.append(
                        self.basin, self.stream, [Item(f"life/{self.life}/{number}")]
                    )
                except NoEffectError:
                    continue
                except UnknownOutcomeError:
                    self.doubtful.add(self.life)
            self.lives += 1
            await self._until("DELETE", f"/v1/streams/{self.stream}", None, (202, 204, 404))

    async def _until(
        self, method: str, path: str, body: dict[str, str] | None, good: tuple[int, ...]
    ) -> None:
        while True:
            with contextlib.suppress(NoEffectError, UnknownOutcomeError):
                status, found = await self.api.ask(method, path, body, basin=self.basin)
                if status in good or found.get("code") == "resource_already_exists":
                    return
            await asyncio.sleep(_PAUSE_S)

    async def _read(self) -> None:
        """Life n is counted once the deletion of life n - 1 was acknowledged, so a read that begins
        then shows life n or a later one."""
        while not self.stopping:
            begun_in = self.life
            try:
                status, body = await self.api.ask(
                    "GET", f"/v1/streams/{self.stream}/records?seq_num=0", basin=self.basin
                )
            except (NoEffectError, UnknownOutcomeError):
                await asyncio.sleep(_PAUSE_S)
                continue
            if status != 200:
                await asyncio.sleep(0.005)
                continue
            self.reads += 1
            texts: list[str] = [
                base64.b64decode(record["body"]).decode() for record in body["records"]
            ]
            lives = {int(text.split("/")[1]) for text in texts} - self.doubtful
            if len(lives) > 1 or any(life < begun_in for life in lives):
                self.violations.append(f"{self.stream}: lives {lives}, read begun in {begun_in}")
            if [record["seq_num"] for record in body["records"]] != list(range(len(texts))):
                self.violations.append(f"{self.stream}: numbers do not begin at 0")
