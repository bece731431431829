"""Whoever can reach a process's port, byte by byte: what it says is up to the test, and so is
whether it ever reads what it is told."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import secrets
import socket
import struct
import termios
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Self

from svc_cluster._pb.cluster.v1 import link_pb2, replica_pb2
from svc_cluster.link.calls import HEAD, Verb, decode, encode
from svc_cluster.link.credit import encode_window
from svc_cluster.link.frame import CLASSES, HEADER, MORE, FrameKind
from svc_cluster.link.greeting import NONCE_BYTES, Speaker, make_claim

PATIENCE_S: Final = 90.0
SLICE_BYTES: Final = 256 * 1024
_ESTABLISHED: Final = b"\x01"
OPEN: Final = "open"
"""What the other side is when it goes on listening."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Who a caller says to be, and the secret that it has."""

    secret: bytes
    speaker: Speaker

    def naming(self, *features: str) -> Claim:
        return replace(self, speaker=replace(self.speaker, features=features))


def frame(kind: int, payload: bytes, *, series: int = 0, flags: int = 0, zero: int = 0) -> bytes:
    """One frame with any header."""
    return HEADER.pack(len(payload), kind, flags, zero, series) + payload


class Stranger:
    """One connection to a listening process. Takes answers as they come unless it is `deaf`."""

    def __init__(self, connection: socket.socket, *, deaf: bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = connection
        self._held = bytearray()
        self._unsaid = bytearray()
        self._series = 0
        self._arrived = dict.fromkeys(CLASSES, 0)
        self._parts: dict[int, bytes] = {}
        self._pongs = 0
        self._news = asyncio.Event()
        self._wish = asyncio.Event()
        self.answers: dict[int, bytes] = {}
        """Bodies of answers, by number."""

        self.messages: list[tuple[FrameKind, bytes]] = []
        self.end: str | None = None
        """Why the other side ended it; None while it has not."""

        self.challenge = b""
        self.is_welcome = False
        self._tasks = [asyncio.create_task(self._speak())]
        if not deaf:
            self._tasks.append(asyncio.create_task(self._listen()))

    @classmethod
    async def call(cls, port: int, *, host: str = "127.0.0.1", deaf: bool = False) -> Self:
        """A connection that has heard the challenge; a deaf one takes nothing behind it from the
        kernel."""
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if deaf:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(connection, (host, port))
        except BaseException:
            connection.close()
            raise
        stranger = cls(connection, deaf=deaf)
        try:
            if deaf:
                await stranger._hear_challenge()
            else:
                await stranger._until(lambda: bool(stranger.challenge))
        except BaseException:
            await stranger.__aexit__()
            raise
        return stranger

    async def _hear_challenge(self) -> None:
        size = HEADER.size
        while len(self._held) < size:
            self._held += await self._loop.sock_recv(self._socket, size - len(self._held))
            if len(self._held) == HEADER.size:
                size += HEADER.unpack_from(self._held)[0]
        self.challenge = bytes(self._held[HEADER.size :])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._socket.close()

    async def vanish(self) -> None:
        """End it with a reset, whatever is under way."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await self.__aexit__()

    # -- saying

    def say(self, data: bytes) -> None:
        self._unsaid += data
        self._wish.set()

    @property
    def unsaid_bytes(self) -> int:
        """What the kernel has not taken yet."""
        return len(self._unsaid)

    async def _speak(self) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                await self._wish.wait()
                self._wish.clear()
                while self._unsaid:
                    part = bytes(self._unsaid[:SLICE_BYTES])
                    await self._loop.sock_sendall(self._socket, part)
                    del self._unsaid[: len(part)]
                    self._news.set()

    async def said(self) -> None:
        """The other side's kernel has everything, or the other side is gone."""
        end = self._loop.time() + PATIENCE_S
        while self._is_established() and not self._tasks[0].done():
            if not self._unsaid and not self._unacknowledged():
                return
            assert self._loop.time() < end, f"{self._unacknowledged()} bytes are not taken"
            await asyncio.sleep(0.01)

    def _is_established(self) -> bool:
        return self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) == _ESTABLISHED

    def _unacknowledged(self) -> int:
        (count,) = struct.unpack("i", fcntl.ioctl(self._socket, termios.TIOCOUTQ, b"\0" * 4))
        return int(count)

    def claim(self, claim: Claim) -> bytes:
        """The claim's bytes, made for this connection's challenge."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return make_claim(claim.secret, self.challenge, claim.speaker, nonce)[0]

    def greet(self, greeting: bytes) -> None:
        self.say(frame(FrameKind.GREETING, greeting))

    async def prove(self, claim: Claim) -> str:
        """OPEN, or the reason of the refusal."""
        self.greet(self.claim(claim))
        await self._until(lambda: self.is_welcome)
        return self.end or OPEN

    def message(self, kind: FrameKind, payload: bytes) -> None:
        """A message as the protocol wants it, however long."""
        if len(payload) <= SLICE_BYTES:
            self.say(frame(kind, payload))
            return
        self._series += 1
        for at in range(0, len(payload), SLICE_BYTES):
            more = MORE if at + SLICE_BYTES < len(payload) else 0
            part = payload[at : at + SLICE_BYTES]
            self.say(frame(kind, part, series=self._series, flags=more))

    def ask(
        self, number: int, request: replica_pb2.Request, kind: FrameKind = FrameKind.CALL
    ) -> None:
        self.message(kind, encode(Verb.REQUEST, number, request.SerializeToString()))

    # -- hearing

    async def listens(self) -> str:
        """OPEN once the other side has dealt with everything that was said and goes on listening,
        else why it does not: it answers a ping behind all of it."""
        wanted = self._pongs + 1
        self.say(frame(FrameKind.PING, b"?"))
        await self._until(lambda: self._pongs >= wanted)
        return self.end or OPEN

    async def answer(self, number: int) -> bytes | None:
        """The body of this answer; None when the conversation ends before."""
        await self._until(lambda: number in self.answers)
        return self.answers.get(number)

    async def gone(self) -> str:
        """Why the other side ended it."""
        await self._until(lambda: False)
        assert self.end is not None
        return self.end

    async def _until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.end is None and not holds():
                self._news.clear()
                await self._news.wait()

    async def _listen(self) -> None:
        try:
            while self.end is None:
                data = await self._loop.sock_recv(self._socket, SLICE_BYTES)
                if not data:
                    raise ConnectionError
                self._held += data
                self._cut()
        except ConnectionError:
            self.end = self.end or "closed"
        finally:
            self._news.set()

    def _cut(self) -> None:
        while len(self._held) >= HEADER.size:
            size, kind, flags, _, series = HEADER.unpack_from(self._held)
            end = HEADER.size + size
            if len(self._held) < end:
                break
            payload = bytes(self._held[HEADER.size : end])
            del self._held[:end]
            self._take(FrameKind(kind), bool(flags), series, payload)
        self._news.set()

    def _take(self, kind: FrameKind, more: bool, series: int, payload: bytes) -> None:
        if kind is FrameKind.FAREWELL:
            self.end = payload.decode()
        elif kind is FrameKind.GREETING:
            greeting = link_pb2.Greeting.FromString(payload)
            match greeting.WhichOneof("step"):
                case "challenge":
                    self.challenge = payload
                case "welcome":
                    self.is_welcome = True
                case _:
                    self.end = greeting.refusal.reason
        elif kind is FrameKind.PING:
            if payload == b"?":
                self.say(frame(FrameKind.PING, b"!"))
            else:
                self._pongs += 1
        elif kind in CLASSES:
            self._arrived[kind] += len(payload)
            self.say(frame(FrameKind.WINDOW, encode_window(kind, self._arrived[kind])))
            whole = self._parts.pop(series, b"") + payload
            if more:
                self._parts[series] = whole
                return
            if len(whole) >= HEAD.size and whole[0] == Verb.ANSWER:
                _, number, body = decode(whole)
                self.answers[number] = body
            else:
                self.messages.append((kind, whole))
