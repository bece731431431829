"""Both sides of conversations on the loopback interface, in clear and under TLS."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from svc_cluster.base.ids import NodeId
from svc_cluster.cli.admin.authority import Authority, certificate_names, issue
from svc_cluster.cli.processes.own_certificate import utc_now
from svc_cluster.link.acceptor import Acceptor
from svc_cluster.link.connector import Connector
from svc_cluster.link.conversation import Terms
from svc_cluster.link.frame import FrameKind
from svc_cluster.link.greeting import Speaker
from svc_cluster.link.handshake import Identity
from svc_cluster.link.tls import PeerTls
from svc_cluster.link.tls_context import CallerTls, acceptor_context
from svc_cluster.link.wire import Wire


def terms(role: str, node: int, secret: bytes = b"s" * 32) -> Callable[[], Terms]:
    speaker = Speaker(Identity("c1", role, NodeId(node), "i1"))
    return lambda: Terms(secret, speaker, lambda _: None)


class Served:
    """The acceptor's side of one conversation."""

    def __init__(self, speaker: Speaker, wire: Wire) -> None:
        self.speaker = speaker
        self.wire = wire
        self.got: asyncio.Queue[tuple[FrameKind, bytes]] = asyncio.Queue()
        self.deals = True
        self.down = asyncio.Event()
        self.rooms: list[tuple[FrameKind, int]] = []

    def message(self, kind: FrameKind, payload: bytes) -> None:
        self.got.put_nowait((kind, payload))
        if self.deals:
            self.wire.dealt_with(kind, len(payload))

    def room(self, kind: FrameKind, size: int) -> None:
        self.rooms.append((kind, size))

    def link_down(self) -> None:
        self.down.set()


class Called:
    """The owner of a connector."""

    def __init__(self) -> None:
        self.ups: asyncio.Queue[Speaker] = asyncio.Queue()
        self.downs = 0
        self.got: asyncio.Queue[tuple[FrameKind, bytes]] = asyncio.Queue()
        self.rooms: list[tuple[FrameKind, int]] = []

    def room(self, kind: FrameKind, size: int) -> None:
        self.rooms.append((kind, size))

    def link_up(self, speaker: Speaker) -> None:
        self.ups.put_nowait(speaker)

    def link_down(self) -> None:
        self.downs += 1

    def message(self, kind: FrameKind, payload: bytes) -> None:
        self.got.put_nowait((kind, payload))


class Pair:
    """An acceptor and a connector on one loop."""

    def __init__(self, acceptor: Acceptor, port: int, served: asyncio.Queue[Served]) -> None:
        self.acceptor = acceptor
        self.port = port
        self.served = served

    def connector(self, called: Called, secret: bytes = b"s" * 32) -> Connector:
        return Connector(
            loop=asyncio.get_running_loop(),
            address=f"127.0.0.1:{self.port}",
            terms=terms("node", 1, secret),
            events=called,
            rng=random.Random(1),
            tls=None,
            server_name="",
        )


@contextlib.asynccontextmanager
async def listening(own: Callable[[], Terms] = terms("node", 2)) -> AsyncIterator[Pair]:
    served: asyncio.Queue[Served] = asyncio.Queue()

    def welcome(speaker: Speaker, wire: Wire) -> Served:
        made = Served(speaker, wire)
        served.put_nowait(made)
        return made

    acceptor = Acceptor(asyncio.get_running_loop(), own, welcome)
    port = await acceptor.start("127.0.0.1", 0)
    try:
        yield Pair(acceptor, port, served)
    finally:
        await acceptor.close("the test is over")


class Pki:
    """A CA and the files that it issues."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = Authority.create(directory / "ca", utc_now)
        self.pem = (directory / "ca" / "ca.pem").read_bytes()

    def tls(self, place: str, *, node: int | None = None, gateway: bool = False) -> PeerTls:
        out = self.directory / place
        names = certificate_names([] if node is None else [node], gateway=gateway, names=[])
        issue(self.authority, names, out)
        return PeerTls(out / "tls.crt", out / "tls.key", out / "ca.crt")


def secure(connector_of: Pair, called: Called, tls: PeerTls, role: str, node: int) -> Connector:
    return Connector(
        loop=asyncio.get_running_loop(),
        address=f"127.0.0.1:{connector_of.port}",
        terms=terms(role, node),
        events=called,
        rng=random.Random(1),
        tls=CallerTls(tls),
        server_name="node-2.svc-cluster.internal",
    )


@contextlib.asynccontextmanager
async def listening_securely(tls: PeerTls) -> AsyncIterator[Pair]:
    served: asyncio.Queue[Served] = asyncio.Queue()

    def welcome(speaker: Speaker, wire: Wire) -> Served:
        made = Served(speaker, wire)
        served.put_nowait(made)
        return made

    acceptor = Acceptor(asyncio.get_running_loop(), terms("node", 2), welcome)
    port = await acceptor.start("127.0.0.1", 0, acceptor_context(tls))
    try:
        yield Pair(acceptor, port, served)
    finally:
        await acceptor.close("the test is over")


def two_authorities(directory: Path) -> tuple[Pki, Pki]:
    for name in ("first", "second"):
        (directory / name).mkdir()
    return Pki(directory / "first"), Pki(directory / "second")
