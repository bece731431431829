"""The network between the processes of a cluster: TCP connections that go through our hands.

Every connection from process `a` to process `b` carries bytes a->b and bytes b->a. A fault is set
on a directed pair, and applies to the bytes in that direction on every connection between the two,
whoever opened it, as a cable would. Bytes that a cut holds back arrive when it heals, as TCP
retransmission would bring them; those of a reset connection never do.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from tests.chaos.namespaces import Namespace

_READ_BYTES: Final = 64 * 1024
_HELD_BYTES_MAX: Final = 8 * 1024 * 1024
"""Beyond this a direction is not read any more: the sender's window closes."""


@dataclass(slots=True)
class Way:
    """The state of one direction between two processes."""

    cut: bool = False
    delay_s: tuple[float, float] | None = None
    """Each piece is late by a time drawn from this range; order is kept."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def set(self, *, cut: bool | None = None, delay_s: tuple[float, float] | None = None) -> None:
        """`delay_s` None takes a delay away."""
        if cut is not None:
            self.cut = cut
        self.delay_s = delay_s
        self.changed.set()


class _Pump:
    """One direction of one connection."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        way: Way,
        rng: random.Random,
    ) -> None:
        self._reader, self._writer, self._way, self._rng = reader, writer, way, rng
        self._held: deque[tuple[float, bytes]] = deque()
        self._held_bytes = 0
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._over = False

    async def run(self) -> None:
        """Until the source closes and everything is delivered. Raises OSError."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._take())
            group.create_task(self._give())

    async def _take(self) -> None:
        loop = asyncio.get_running_loop()
        due = 0.0
        while data := await self._reader.read(_READ_BYTES):
            delay = self._way.delay_s
            late = 0.0 if delay is None else self._rng.uniform(*delay)
            due = max(due, loop.time() + late)
            self._held.append((due, data))
            self._held_bytes += len(data)
            self._news.set()
            while self._held_bytes > _HELD_BYTES_MAX:
                self._room.clear()
                await self._room.wait()
        self._over = True
        self._news.set()

    async def _give(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            while self._way.cut:
                self._way.changed.clear()
                await self._way.changed.wait()
            if not self._held:
                if self._over:
                    with contextlib.suppress(OSError):
                        self._writer.write_eof()
                    return
                self._news.clear()
                await self._news.wait()
                continue
            wait = self._held[0][0] - loop.time()
            if wait > 0:
                await asyncio.sleep(wait)
                continue
            _, data = self._held.popleft()
            self._held_bytes -= len(data)
            self._room.set()
            self._writer.write(data)
            await self._writer.drain()


class Network:
    """All forwarders of a cluster. Processes are called by name."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._ways: dict[tuple[str, str], Way] = {}
        self._servers: list[asyncio.Server] = []
        self._open: dict[tuple[str, str], set[asyncio.StreamWriter]] = {}
        self.resets = 0

    def way(self, source: str, target: str) -> Way:
        return self._ways.setdefault((source, target), Way())

    def names(self) -> set[str]:
        return {name for pair in self._ways for name in pair}

    async def forward(
        self, source: str, target: str, inside: Namespace, there: Namespace, port: int, at: int = 0
    ) -> int:
        """Listen in `inside` for `source`'s connections and lead them to `port` in `there`, where
        `target` listens. Returns the port listened on."""
        listener = inside.listen(at)
        forward, back = self.way(source, target), self.way(target, source)
        open_ones = self._open.setdefault((source, target), set())

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            out = there.make_socket()
            try:
                await asyncio.get_running_loop().sock_connect(out, ("127.0.0.1", port))
                far_reader, far_writer = await asyncio.open_connection(sock=out)
            except OSError:
                out.close()
                _reset(writer)
                return
            ends = {writer, far_writer}
            open_ones.update(ends)
            pumps = [
                _Pump(reader, far_writer, forward, self._rng),
                _Pump(far_reader, writer, back, self._rng),
            ]
            running = [asyncio.ensure_future(pump.run()) for pump in pumps]
            try:
                # one side's end is the other's, as soon as what it had said is delivered
                await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in running:
                    task.cancel()
                await asyncio.gather(*running, return_exceptions=True)
                open_ones.difference_update(ends)
                for end in ends:
                    end.close()

        server = await asyncio.start_server(serve, sock=listener)
        self._servers.append(server)
        return int(listener.getsockname()[1])

    # -- faults

    def cut(self, source: str, target: str) -> None:
        """Nothing from `source` reaches `target` any more; neither notices by its socket."""
        self.way(source, target).set(cut=True)

    def isolate(self, name: str, others: list[str]) -> None:
        for other in others:
            self.cut(name, other)
            self.cut(other, name)

    def delay(self, source: str, target: str, low_s: float, high_s: float) -> None:
        self.way(source, target).set(delay_s=(low_s, high_s))

    def reset(self, one: str, other: str) -> None:
        """End every connection between the two with RST; what was held back is gone."""
        for pair in ((one, other), (other, one)):
            for writer in list(self._open.get(pair, ())):
                self.resets += 1
                _reset(writer)

    def heal(self) -> None:
        """Everything flows again."""
        for way in self._ways.values():
            way.set(cut=False)

    async def close(self) -> None:
        self.heal()
        for server in self._servers:
            server.close()
        for one, other in list(self._open):
            self.reset(one, other)
        while any(self._open.values()):
            await asyncio.sleep(0.01)


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection as a port does that nobody listens on."""
    sock = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
