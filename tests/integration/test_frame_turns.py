"""A node's loop is kept no longer by very many small frames that come at once than by one: of a
proven caller, over its real port, as many as the socket takes."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import NodeId
from svc_cluster.link.calls import Verb, encode
from svc_cluster.link.conversation import Conversation, Terms
from svc_cluster.link.credit import encode_window
from svc_cluster.link.frame import FrameKind, encode_frame
from svc_cluster.link.greeting import NONCE_BYTES, Speaker
from svc_cluster.link.handshake import Identity
from svc_cluster.replica.link_server import LinkServer
from tests.integration.turns import CLUSTER, Full, Turn, full, kept_short

SECRET = b"s" * 32
BURST_BYTES = 256 * 1024
"""What a transport reads at a time."""
ANSWER_SECONDS = 30.0


def request(number: int, **operation: Any) -> bytes:
    asked = pb.Request(group_id=1, deadline_ms=4000, **operation)
    return encode_frame(FrameKind.CALL, encode(Verb.REQUEST, number, asked.SerializeToString()))


BURSTS: dict[str, Callable[[int], bytes]] = {
    "pings": lambda _: encode_frame(FrameKind.PING, b"?"),
    "windows": lambda _: encode_frame(FrameKind.WINDOW, encode_window(FrameKind.BULK, 0)),
    "cancellations": lambda number: encode_frame(FrameKind.URGENT, encode(Verb.CANCEL, number)),
    "pings of the service": lambda number: request(number, ping=pb.Done()),
    "refused": lambda number: request(number, register_node=pb.RegisterNodeRequest()),
    "answered": lambda number: request(number, list_nodes=pb.ListNodesRequest()),
    "unreadable": lambda number: encode_frame(
        FrameKind.CALL, encode(Verb.REQUEST, number, b"\xff\xff\xff\xff")
    ),
}


class Caller(threading.Thread):
    """A gateway on another thread: it sends a burst, and ends once it has its last answer, or was
    told to go."""

    def __init__(self, port: int, burst: list[bytes]) -> None:
        super().__init__(name="caller", daemon=True)
        self._port = port
        self._burst = burst
        self.is_open = False
        self.said_last = False
        self.end: str | None = None

    def opened(self, _: Speaker) -> None:
        self.is_open = True

    def message(self, kind: FrameKind, payload: bytes) -> None: ...

    def room(self, kind: FrameKind, size: int) -> None: ...

    def run(self) -> None:
        gateway = Speaker(Identity(CLUSTER, "gateway", NodeId(0), "g2"))
        terms = Terms(SECRET, gateway, lambda _: None)
        talk = Conversation(terms, self, os.urandom(NONCE_BYTES), acceptor=False)
        with socket.create_connection(("127.0.0.1", self._port)) as sock:
            sock.settimeout(ANSWER_SECONDS)
            while not self.is_open:
                talk.receive(sock.recv(65536))
                sock.sendall(b"".join(talk.take()))
            sock.sendall(b"".join(self._burst))
            # behind the burst: whoever answers this has dealt with all before it
            sock.sendall(encode_frame(FrameKind.FAREWELL, b"that was all"))
            while sock.recv(1 << 20):
                pass
            self.said_last = True


def longest(directory: Path, what: str) -> tuple[str, Turn]:
    async def body(node: Full) -> Turn:
        server = LinkServer(node.node, SECRET, called=lambda _: None)
        port = await server.start("127.0.0.1:0")
        one = BURSTS[what]
        burst = [one(number) for number in range(1, 1 + BURST_BYTES // len(one(1)))]
        await node.looked()
        node.turns.clear()
        gc.freeze()
        caller = Caller(port, burst)
        caller.start()
        await asyncio.to_thread(caller.join, 2 * ANSWER_SECONDS)
        assert caller.said_last, "all of it was dealt with"
        await node.looked()
        await server.stop()
        gc.unfreeze()
        return max(node.turns)

    async def main() -> Turn:
        async with full(directory, 1) as node:
            return await body(node)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return what, runner.run(main())


@pytest.mark.parametrize("what", BURSTS)
def test_many_small_frames_at_once_keep_no_turn_long(what: str, tmp_path: Path) -> None:
    kept_short(lambda attempt: [longest(tmp_path / str(attempt), what)])
