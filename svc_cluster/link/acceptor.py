"""The listening side of links: proves the callers, bounds those that have not proved themselves."""

from __future__ import annotations

import asyncio
import secrets
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from svc_cluster.base.log import get_logger
from svc_cluster.link.conversation import Terms
from svc_cluster.link.frame import Kind
from svc_cluster.link.greeting import NONCE_BYTES, Speaker
from svc_cluster.link.handshake import NotYetError
from svc_cluster.link.tls import check_certificate
from svc_cluster.link.wire import Wire

log = get_logger("link")

BACKLOG: Final = 128
"""Connections that the kernel keeps until they are accepted."""

UNPROVEN_MAX: Final = 64
"""Connections whose caller has not proved itself; one more is closed at once."""

REFUSAL_SECONDS: Final = 60.0
"""How often refusals of one address are logged, with their number."""

ADDRESSES_MAX: Final = 1024
"""Addresses whose refusals are counted apart; those beyond are counted together."""


class Caller(Protocol):
    """What the owner makes of a proven caller."""

    def message(self, kind: Kind, payload: bytes) -> None:
        """Raises FrameError for what ends the conversation."""
        ...

    def room(self, kind: Kind, size: int) -> None:
        """The caller is done with `size` more bytes of this class."""
        ...

    def link_down(self) -> None: ...


Welcome = Callable[[Speaker, Wire], Caller]
"""Called once a caller has proved itself; the wire is for the answers."""


class Refusals:
    """Says who was refused: the first time at once, then once a minute an address with a count."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._seen: dict[str, _Refused] = {}
        self.count = 0

    @property
    def tracked(self) -> int:
        return len(self._seen)

    def say(self, caller: str, reason: str, count: int, node: int | None) -> None:
        log.warning("caller_refused", node=node, peer=caller, reason=reason[:200], refusals=count)

    def note(self, address: str, reason: str, node: int | None = None) -> None:
        """A caller from `address` was turned away; `node`: with the proof of being that node."""
        self.count += 1
        if node is not None:
            address = f"node {node}"
        if address not in self._seen and len(self._seen) >= ADDRESSES_MAX:
            self._forget()
            if len(self._seen) >= ADDRESSES_MAX:
                address = "others"
        seen = self._seen.setdefault(address, _Refused())
        seen.count += 1
        now = self._now()
        if now - seen.said_at >= REFUSAL_SECONDS:
            self.say(address, reason, seen.count, node)
            seen.said_at, seen.count = now, 0

    def _forget(self) -> None:
        now = self._now()
        self._seen = {
            address: seen
            for address, seen in self._seen.items()
            if now - seen.said_at < REFUSAL_SECONDS
        }


@dataclass(slots=True)
class _Refused:
    count: int = 0
    said_at: float = float("-inf")


class Acceptor:
    """One listening address."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        terms: Callable[[], Terms],
        welcome: Welcome,
    ) -> None:
        """Under TLS a caller's certificate has to carry the name of the one it says to be."""
        self._loop = loop
        self._terms = terms
        self._welcome = welcome
        self._connections: set[_Connection] = set()
        self._unproven: set[_Connection] = set()
        self._server: asyncio.Server | None = None
        self._listener: socket.socket | None = None
        self.refusals = Refusals(loop.time)

    async def start(self, host: str, port: int, context: ssl.SSLContext | None = None) -> int:
        """Listen; returns the port. Raises OSError for an address that cannot be listened on."""
        self._listener = await self._bind(host, port)
        await self.renew(context)
        bound: int = self._listener.getsockname()[1]
        return bound

    async def _bind(self, host: str, port: int) -> socket.socket:
        found = await self._loop.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
            listener.setblocking(False)
        except OSError:
            listener.close()
            raise
        return listener

    async def renew(self, context: ssl.SSLContext | None) -> None:
        """Take callers under this context from now on; no connection is lost or refused by it."""
        assert self._listener is not None
        before = self._server
        self._server = await self._loop.create_server(
            lambda: _Connection(self).wire, sock=self._listener.dup(), ssl=context
        )
        if before is not None:
            before.close()

    @property
    def unproven(self) -> int:
        return len(self._unproven)

    async def close(self, reason: str) -> None:
        """Stop listening and end every conversation with this reason."""
        if self._server is not None:
            self._server.close()
        if self._listener is not None:
            self._listener.close()
        for connection in list(self._connections):
            connection.wire.close(reason)
        if self._server is not None:
            await self._server.wait_closed()

    # -- what connections tell

    def arrived(self, connection: _Connection) -> str | None:
        self._connections.add(connection)
        if len(self._unproven) >= UNPROVEN_MAX:
            return "too many callers have not proved themselves"
        self._unproven.add(connection)
        return None

    def proved(self, connection: _Connection, speaker: Speaker) -> Caller:
        self._unproven.discard(connection)
        return self._welcome(speaker, connection.wire)

    def ended(self, connection: _Connection, reason: str) -> None:
        self._connections.discard(connection)
        self._unproven.discard(connection)
        if connection.caller is not None:
            return
        if connection.is_early:
            log.debug("caller_early", peer=connection.address, reason=reason[:200])
        else:
            self.refusals.note(connection.address, reason, connection.node)

    def new_wire(self, connection: _Connection) -> Wire:
        terms = self._terms()

        def check(speaker: Speaker) -> None:
            certificate = connection.wire.info("peercert")
            if certificate is not None:
                check_certificate(speaker.identity, _names(certificate))
            if speaker.identity.role == "node":
                connection.node = speaker.identity.node_id
            try:
                terms.check(speaker)
            except NotYetError:
                connection.is_early = True
                raise

        return Wire(
            self._loop,
            replace(terms, check=check),
            connection,
            secrets.token_bytes(NONCE_BYTES),
            connection.on_end,
            acceptor=True,
            on_transport=connection.on_transport,
        )


def _names(certificate: Mapping[str, Any]) -> list[bytes]:
    """The DNS names that a certificate carries, as the ssl module tells them."""
    return [
        value.encode() for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"
    ]


class _Connection:
    """One accepted connection and what the owner made of it."""

    def __init__(self, acceptor: Acceptor) -> None:
        self._acceptor = acceptor
        self.address = "?"
        self.node: int | None = None
        """Of a caller that has proved to be a node, its id."""
        self.is_early = False
        """Refused because this process cannot tell yet whom it belongs with."""
        self.caller: Caller | None = None
        self.wire = acceptor.new_wire(self)

    def on_transport(self, transport: Any) -> str | None:
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if isinstance(peer, tuple) else str(peer)
        return self._acceptor.arrived(self)

    def opened(self, speaker: Speaker) -> None:
        self.caller = self._acceptor.proved(self, speaker)

    def message(self, kind: Kind, payload: bytes) -> None:
        assert self.caller is not None
        self.caller.message(kind, payload)

    def room(self, kind: Kind, size: int) -> None:
        if self.caller is not None:
            self.caller.room(kind, size)

    def on_end(self, wire: Wire, reason: str) -> None:
        self._acceptor.ended(self, reason)
        if self.caller is not None:
            self.caller.link_down()
