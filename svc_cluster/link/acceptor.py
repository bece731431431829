"""This is the listening side of links. It proves the callers, and bounds those that have not proved
themselves, from the moment at which they are accepted. The handshake of TLS is part of that. And it
bounds how many conversations a proven caller has."""

from __future__ import annotations

import asyncio
import secrets
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol

from svc_cluster.base.log import get_logger
from svc_cluster.base.tasks import Tasks
from svc_cluster.base.tls_handshakes import Handshakes
from svc_cluster.base.tls_trust import trusted_by
from svc_cluster.link.arriving import ARRIVING_BYTES_MAX
from svc_cluster.link.conversation import Terms
from svc_cluster.link.frame import FrameKind
from svc_cluster.link.frame_turns import FrameTurns
from svc_cluster.link.greeting import NONCE_BYTES, Speaker
from svc_cluster.link.handshake import HandshakeError, Identity, NotYetError
from svc_cluster.link.refused_callers import RefusedCallers
from svc_cluster.link.tls import check_certificate
from svc_cluster.link.tls_context import DISTRUSTED
from svc_cluster.link.wire import GREETING_SECONDS, Wire

log = get_logger("link")

BACKLOG: Final = 128
"""Connections that the kernel keeps until they are accepted."""

UNPROVEN_MAX: Final = 64
"""Connections whose caller has not proved itself, handshakes of TLS among them; one more is closed
at once."""

CONVERSATIONS_PER_CALLER_MAX: Final = 64
"""Open conversations of one proven caller: a node by its id, others by role and address. A gateway
has one with each node, and for some seconds those that lost connections have left behind; several
gateways may share an address."""

CONVERSATIONS_MAX: Final = 256
"""Open conversations of all proven callers that are no nodes. No node is kept out by them."""

STRANGERS_MAX: Final = 16
"""Open conversations of all proven nodes that are no members: those that come to join, and removed
ones. They may say any node id, so that a bound for each would be none."""

ACCEPT_PAUSE_SECONDS: Final = 1.0
"""Before the next attempt when a connection could not be accepted, as for want of descriptors."""

_TOO_MANY: Final = "too many callers have not proved themselves"


class ProvenCaller(Protocol):
    """What the owner makes of a proven caller."""

    def message(self, kind: FrameKind, payload: bytes) -> None:
        """Raises FrameError for what ends the conversation."""
        ...

    def room(self, kind: FrameKind, size: int) -> None:
        """The caller is done with `size` more bytes of this class."""
        ...

    def link_down(self) -> None: ...


Welcome = Callable[[Speaker, Wire], ProvenCaller]
"""Called once a caller has proved itself; the wire is for the answers."""


class Acceptor:
    """One listening address."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        terms: Callable[[], Terms],
        welcome: Welcome,
        is_stranger: Callable[[Identity], bool] = lambda _: False,
    ) -> None:
        """Under TLS a caller's certificate has to carry the name of the one it says to be.
        `is_stranger`: of a node that is welcome, but no member yet, or no more."""
        self._loop = loop
        self._terms = terms
        self._welcome = welcome
        self._is_stranger = is_stranger
        self._connections: set[_Connection] = set()
        self._unproven: set[_Connection] = set()
        self._open: Counter[_CallerKey] = Counter()
        """Conversations of proven callers, by caller; none has 0."""

        self._shaking_hands = 0
        """Connections under TLS whose handshake is not complete: nothing of ours is there yet."""

        self._listener: socket.socket | None = None
        self._context: ssl.SSLContext | None = None
        self._trusted: frozenset[bytes] = frozenset()
        """The CAs of that context."""
        self._distrusted = 0
        """How often CAs were taken out."""
        self._handshakes = Handshakes(loop)
        self._turns = FrameTurns(loop)
        self.arriving_bytes = 0
        """Bytes of messages that have arrived in part, in all conversations."""

        self._tasks = Tasks()
        self._refused = RefusedCallers(loop.time)
        self.refusals = 0
        """Callers that were turned away."""

    async def start(self, host: str, port: int, context: ssl.SSLContext | None = None) -> int:
        """Listen; returns the port. Raises OSError for an address that cannot be listened on."""
        self._listener = listener = await self._bind(host, port)
        self.renew(context)
        self._tasks.spawn(self._accept(listener), "accept callers")
        bound: int = listener.getsockname()[1]
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

    def renew(self, context: ssl.SSLContext | None) -> None:
        """Take callers under this context from now on. No connection is lost or refused by it,
        unless a CA of the one before is not in it: then all there are end, those that make their
        handshake included, and who is still trusted calls anew."""
        trusted = frozenset() if context is None else trusted_by(context)
        gone = self._trusted - trusted
        self._context, self._trusted = context, trusted
        if gone:
            self._distrusted += 1
            log.info("authorities_removed", count=len(gone), connections=len(self._connections))
            for connection in list(self._connections):
                connection.wire.part(DISTRUSTED)

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, address = await self._loop.sock_accept(listener)
            except ConnectionError:
                continue  # gone before it was accepted
            except OSError as cause:
                log.warning("accept_failed", reason=str(cause))
                await asyncio.sleep(ACCEPT_PAUSE_SECONDS)
                continue
            if self._context is not None and self.unproven >= UNPROVEN_MAX:
                # not even a handshake, which costs more than all that follows
                sock.close()
                self._turned_away(str(address[0]), _TOO_MANY)
            else:
                self._begin(sock, str(address[0]))

    def _begin(self, sock: socket.socket, address: str) -> None:
        """A stop in the middle of it, or before its first turn, leaves no socket behind."""
        taking = self._tasks.spawn_one(self._take(sock, address, self._context), "take a caller")
        taking.add_done_callback(partial(_close_cancelled, sock))

    async def _take(
        self, sock: socket.socket, address: str, context: ssl.SSLContext | None
    ) -> None:
        """Hand the connection to a wire, behind the handshake if there is one."""
        secured, distrusted = context is not None, self._distrusted
        self._shaking_hands += secured
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None:
                async with asyncio.timeout(GREETING_SECONDS):
                    context = await self._handshakes.take(sock, context)
            _, wire = await self._loop.connect_accepted_socket(
                lambda: _Connection(self).wire,
                sock,
                ssl=context,
                ssl_handshake_timeout=GREETING_SECONDS if secured else None,
            )
            if distrusted != self._distrusted:
                wire.part(DISTRUSTED)
        except OSError as cause:  # of TLS, or gone, or too slow
            sock.close()
            self._turned_away(address, f"{type(cause).__name__}: {cause}")
        finally:
            self._shaking_hands -= secured

    @property
    def unproven(self) -> int:
        return len(self._unproven) + self._shaking_hands

    async def close(self, reason: str) -> None:
        """Stop listening and end every conversation with this reason."""
        await self._tasks.cancel_all()
        self._handshakes.close()
        if self._listener is not None:
            self._listener.close()
        for connection in list(self._connections):
            connection.wire.close(reason)

    def _turned_away(self, address: str, reason: str, node: int | None = None) -> None:
        """`node`: of a caller that has proved to be that node. Told in a line now and then."""
        self.refusals += 1
        count = self._refused.refused(address if node is None else f"node {node}")
        if count is not None:
            log.warning(
                "caller_refused", node=node, peer=address, reason=reason[:200], refusals=count
            )

    # -- what connections tell

    def arrived(self, connection: _Connection) -> str | None:
        self._connections.add(connection)
        if len(self._unproven) >= UNPROVEN_MAX:
            return _TOO_MANY
        self._unproven.add(connection)
        return None

    def proved(self, connection: _Connection, speaker: Speaker) -> ProvenCaller:
        self._unproven.discard(connection)
        connection.identity = speaker.identity
        connection.key = key = _key(speaker.identity, connection.address)
        self._open[key] += 1
        return self._welcome(speaker, connection.wire)

    def _check_number(self, identity: Identity, address: str) -> None:
        """Raises HandshakeError for a conversation more than a caller, or all of them, may have."""
        key = _key(identity, address)
        if self._open[key] >= CONVERSATIONS_PER_CALLER_MAX:
            raise HandshakeError(
                f"a caller has at most {CONVERSATIONS_PER_CALLER_MAX} conversations at once"
            )
        if identity.role != "node":
            bound = CONVERSATIONS_MAX
            alike = sum(count for (role, _), count in self._open.items() if role != "node")
        elif self._is_stranger(identity):
            # who has become a member meanwhile is none any more
            bound = STRANGERS_MAX
            alike = sum(self._talks_as_stranger(each) for each in self._connections)
        else:
            return
        if alike >= bound:
            raise HandshakeError(f"there are {bound} conversations, as many as may be")

    def _talks_as_stranger(self, connection: _Connection) -> bool:
        return connection.identity is not None and self._is_stranger(connection.identity)

    def received(self, connection: _Connection) -> None:
        """A piece came, which may have left something incomplete, or made it whole."""
        arriving = connection.wire.talk.arriving_bytes
        self.arriving_bytes += arriving - connection.arriving_bytes
        connection.arriving_bytes = arriving
        while self.arriving_bytes > ARRIVING_BYTES_MAX:
            self._make_room()

    def _make_room(self) -> None:
        """The caller with the most that is incomplete, in all its conversations, loses the one with
        the most of that. No node does while another caller has more than its even share: what the
        cluster agrees on does not end for what gateways send."""
        by_caller: Counter[_CallerKey] = Counter()
        strangers = set()
        for connection in self._connections:
            if connection.key is not None:
                by_caller[connection.key] += connection.arriving_bytes
                if self._talks_as_stranger(connection):
                    strangers.add(connection.key)
        share = ARRIVING_BYTES_MAX // CONVERSATIONS_MAX
        held = by_caller.most_common()
        others = (
            key for key, size in held if size > share and (key[0] != "node" or key in strangers)
        )
        caller = next(others, held[0][0])
        theirs = (each for each in self._connections if each.key == caller)
        dearest = max(theirs, key=lambda each: each.arriving_bytes)
        reason = "too much has arrived in part"
        self._turned_away(dearest.address, reason, dearest.node)
        dearest.wire.give_up(reason)

    def ended(self, connection: _Connection, reason: str) -> None:
        self.arriving_bytes -= connection.arriving_bytes
        connection.arriving_bytes = 0
        self._connections.discard(connection)
        self._unproven.discard(connection)
        if connection.key is not None:
            self._open[connection.key] -= 1
            self._open += Counter()  # keeps what is above 0
        if connection.caller is not None:
            return
        if connection.is_early:
            log.debug("caller_early", peer=connection.address, reason=reason[:200])
        else:
            self._turned_away(connection.address, reason, connection.node)

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
            self._check_number(speaker.identity, connection.address)

        return Wire(
            self._loop,
            replace(terms, check=check),
            connection,
            secrets.token_bytes(NONCE_BYTES),
            connection.on_end,
            acceptor=True,
            on_transport=connection.on_transport,
            on_received=lambda: self.received(connection),
            turns=self._turns,
        )


def _close_cancelled(sock: socket.socket, taking: asyncio.Task[None]) -> None:
    if taking.cancelled():
        sock.close()


_CallerKey = tuple[str, str]
"""A role, and which node or address it is."""


def _key(identity: Identity, address: str) -> _CallerKey:
    return identity.role, str(identity.node_id) if identity.role == "node" else address


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
        """The id of a caller that has proved to be a node."""
        self.is_early = False
        """Refused because this process cannot tell yet whom it belongs with."""
        self.identity: Identity | None = None
        """Who has proved itself."""
        self.key: _CallerKey | None = None
        """Whose conversation it is, once that is proved."""
        self.caller: ProvenCaller | None = None
        self.arriving_bytes = 0
        """Bytes of messages that have arrived in part, as far as that was counted."""
        self.wire = acceptor.new_wire(self)

    def on_transport(self, transport: Any) -> str | None:
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if isinstance(peer, tuple) else str(peer)
        return self._acceptor.arrived(self)

    def opened(self, speaker: Speaker) -> None:
        self.caller = self._acceptor.proved(self, speaker)

    def message(self, kind: FrameKind, payload: bytes) -> None:
        assert self.caller is not None
        self.caller.message(kind, payload)

    def room(self, kind: FrameKind, size: int) -> None:
        if self.caller is not None:
            self.caller.room(kind, size)

    def on_end(self, wire: Wire, reason: str) -> None:
        self._acceptor.ended(self, reason)
        if self.caller is not None:
            self.caller.link_down()
