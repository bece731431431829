"""This is the node's port for its peers and for gateways. What a proven caller says goes to whoever
deals with it, and answers go back. Thin: who may ask what stands in `roles`, the rest is decided
behind.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, Protocol

from svc_cluster.base.ids import NodeId
from svc_cluster.base.log import get_logger
from svc_cluster.base.tasks import Tasks
from svc_cluster.catalog.node_rows import REMOVED
from svc_cluster.codec.formation_report import FormationFormatError
from svc_cluster.codec.peer_message import PeerMessageError, decode_members, open_envelope
from svc_cluster.link.acceptor import Acceptor
from svc_cluster.link.calls import CallError, Verb, decode, encode
from svc_cluster.link.conversation import Terms
from svc_cluster.link.features import JOIN, STAGES
from svc_cluster.link.frame import FrameKind
from svc_cluster.link.greeting import Speaker
from svc_cluster.link.handshake import HandshakeError, Identity
from svc_cluster.link.link_errors import LinkLostError
from svc_cluster.link.outbox import NoCreditError
from svc_cluster.link.tls import PeerTls
from svc_cluster.link.tls_context import Renewal, acceptor_context
from svc_cluster.link.wire import Wire
from svc_cluster.model.versions import SPOKEN
from svc_cluster.replica.node import ReplicaNode
from svc_cluster.replica.peers import RAFT
from svc_cluster.replica.roles import JOINER, CallerRights

log = get_logger("rpc")

CHUNKS_MAX: Final = 8
"""Chunks of snapshots that one caller may have under way here."""

RENEWAL_SECONDS: Final = 1.0
"""How often the files of the certificate are looked at."""


class Outgoing(Protocol):
    """The way back to the caller."""

    def send(self, kind: FrameKind, flow: int, payload: bytes) -> None:
        """Raises NoCreditError, without effect."""
        ...

    def dealt_with(self, kind: FrameKind, size: int) -> None: ...

    def waiting_bytes(self, kind: FrameKind) -> int:
        """Bytes of this class that have not been handed to the socket yet."""
        ...

    def give_up(self, reason: str) -> None:
        """End the conversation at once."""
        ...


def terms_of(node: ReplicaNode, secret: bytes) -> Terms:
    """What the node says of itself to whoever calls, and whom it admits."""

    def check(speaker: Speaker) -> None:
        node.services.version.check(speaker)
        if RAFT in speaker.features:
            if speaker.identity.role != "node":
                raise HandshakeError("only nodes talk Raft")
            node.check_raft(speaker)
        else:
            node.check_caller(speaker)

    return Terms(secret, node.speaker(), check)


def caller_of(
    node: ReplicaNode, speaker: Speaker, wire: Outgoing, tasks: Tasks, address: str = ""
) -> PeerCaller | ServiceCaller:
    """Who deals with what a proven caller says. `tasks` own what takes a while. Callers that are no
    nodes share what a caller may have by `address`, where that is known: what they say of
    themselves beside their role is not proved."""
    if RAFT in speaker.features:
        return PeerCaller(node, speaker.identity, wire, tasks)
    newest = speaker.versions.newest
    return ServiceCaller(node, speaker.identity, wire, speaker.features, address, newest)


@dataclass(slots=True)
class _Arrived:
    """An envelope of which some messages wait: it is held on the sender's credit."""

    kind: FrameKind
    size: int
    members: list[bytes]
    wall_ms: int | None
    next: int = 0


class PeerCaller:
    """A node that sends Raft's messages, and snapshots of them."""

    def __init__(self, node: ReplicaNode, identity: Identity, wire: Outgoing, tasks: Tasks) -> None:
        self._node = node
        self._identity = identity
        self._wire = wire
        self._tasks = tasks
        self._chunks = 0
        self._arrived: deque[_Arrived] = deque()
        self._turns = node.peer_turns
        self._is_waiting = False
        self._fence = node.fence

    @property
    def _is_over(self) -> bool:
        """A place was given away since the conversation began: the other side may not know it."""
        return self._fence != self._node.fence

    def message(self, kind: FrameKind, payload: bytes) -> None:
        """Raises FrameError."""
        verb, number, body = decode(payload)
        try:
            # an incarnation may have been registered since the conversation began
            if self._is_over:
                raise HandshakeError("who has which place has changed")
            self._node.check_peer(self._identity)
            if verb is Verb.PEER:
                opened = open_envelope(body)
                self._arrived.append(_Arrived(kind, len(payload), *opened))
                self._hear()
                return
        except (PeerMessageError, HandshakeError) as fault:
            peer = self._identity.node_id
            log.warning("peer_stream_ended", peer_node=peer, reason=str(fault))
            raise CallError(str(fault)) from fault
        if verb is Verb.CANCEL:
            # nobody waits for the answer to a chunk: one that is being taken is taken
            self._wire.dealt_with(kind, len(payload))
            return
        if verb is not Verb.SNAPSHOT:
            raise CallError(f"{verb.name} in a conversation of Raft")
        if self._chunks >= CHUNKS_MAX:
            raise CallError(f"more than {CHUNKS_MAX} chunks of snapshots at once")
        self._chunks += 1
        self._tasks.spawn(self._take_chunk(kind, number, body, len(payload)), "snapshot chunk")

    def _hear(self) -> None:
        """Deal with what has arrived, in order, as far as this turn goes."""
        turns = self._turns
        if self._is_over:
            self._arrived.clear()
        while self._arrived and turns.has_room and not self._is_waiting:
            envelope = self._arrived[0]
            members, first = envelope.members, envelope.next
            while envelope.next < len(members) and turns.has_room:
                turns.take(len(members[envelope.next]))
                envelope.next += 1
            some = decode_members(members[first : envelope.next], envelope.wall_ms)
            envelope.wall_ms = None
            self._node.peer_envelope(self._identity.node_id, some)
            if envelope.next == len(members) and self._arrived:
                self._arrived.popleft()
                self._wire.dealt_with(envelope.kind, envelope.size)
        if self._arrived and not self._is_waiting:
            self._is_waiting = True
            turns.wait(self._go_on)

    def _go_on(self) -> None:
        self._is_waiting = False
        self._hear()

    async def _take_chunk(self, kind: FrameKind, number: int, chunk: bytes, size: int) -> None:
        try:
            answer = await self._node.host.receiver.chunk(self._identity.node_id, chunk)
        finally:
            self._chunks -= 1
            self._wire.dealt_with(kind, size)
        try:
            self._wire.send(FrameKind.CALL, 0, encode(Verb.ANSWER, number, answer))
        except (NoCreditError, LinkLostError):
            return  # the sender begins again

    def room(self, kind: FrameKind, size: int) -> None:
        """Answers here are few and small: nothing waits for room."""

    def link_down(self) -> None:
        """A chunk that is being taken is taken; messages that wait are lost, as others may be."""
        self._arrived.clear()


class ServiceCaller:
    """A gateway, or a node that asks the catalog's leader or takes part in a formation."""

    def __init__(
        self,
        node: ReplicaNode,
        identity: Identity,
        wire: Outgoing,
        features: Collection[str] = (),
        address: str = "",
        newest: int = SPOKEN.newest,
    ) -> None:
        """`newest`: the newest active version of a cluster that the caller speaks."""
        self._node = node
        self._identity = identity
        self._wire = wire
        is_node = identity.role == "node"
        which = str(identity.node_id) if is_node else address or identity.incarnation
        self.session = node.service.session(self, f"{identity.role} {which}")
        self.session.takes_stages = STAGES in features
        self._newest = newest
        self._comes = is_node and JOIN in features
        self._tell_version(begins=True)

    def message(self, kind: FrameKind, payload: bytes) -> None:
        """Raises FrameError."""
        verb, number, body = decode(payload)
        match verb:
            case Verb.REQUEST:
                self.session.request(kind, number, body, len(payload), self._admission())
            case Verb.CANCEL:
                self.session.cancel(number)
                self._wire.dealt_with(kind, len(payload))
            case Verb.FORM:
                answer = self._form(body)
                self._wire.dealt_with(kind, len(payload))
                # without credit for the answer whoever asked goes by its own deadline
                with contextlib.suppress(NoCreditError):
                    self.send(FrameKind.CALL, 0, encode(Verb.ANSWER, number, answer))
            case _:
                raise CallError(f"{verb.name} in a conversation with a service")

    def _admission(self) -> CallerRights:
        """What this caller may ask now. One that comes to the cluster is a node like any other as
        soon as it was let in."""
        if self._node.is_removed(self._identity):
            return CallerRights(self._identity.role, REMOVED, is_final=True)
        try:
            self._node.check_peer(self._identity)
        except HandshakeError as refusal:
            if self._comes:
                own = (self._identity.node_id, self._identity.incarnation)
                return CallerRights(JOINER, joins_as=own)
            return CallerRights(self._identity.role, str(refusal))
        return CallerRights(self._identity.role)

    def _form(self, report: bytes) -> bytes:
        """Open to every node of the cluster, whatever became of its data directory: it learns here
        that it is refused."""
        identity = self._identity
        if identity.role != "node":
            raise CallError("only nodes form a cluster")
        try:
            answer = self._node.form(identity, report)
        except (FormationFormatError, HandshakeError) as fault:
            raise CallError(str(fault)) from fault
        formation = self._node.former.formation
        if formation.is_formed:
            reason = formation.why_not(identity.node_id, identity.incarnation)
            if reason is not None:
                self._say_refused(identity, reason)
        return answer

    def _say_refused(self, identity: Identity, reason: str) -> None:
        count = self._node.refused_callers.refused(f"node {identity.node_id}")
        if count is not None:
            log.warning(
                "caller_refused", node=identity.node_id, peer=None, reason=reason, refusals=count
            )

    # -- the session's way back

    def send(self, kind: FrameKind, flow: int, payload: bytes) -> None:
        """Raises NoCreditError, without effect; behind the end it does nothing."""
        try:
            self._wire.send(kind, flow, payload)
        except LinkLostError:
            return

    def waiting_bytes(self, kind: FrameKind) -> int:
        return self._wire.waiting_bytes(kind)

    def give_up(self, reason: str) -> None:
        self._wire.give_up(reason)

    def dealt_with(self, kind: FrameKind, size: int) -> None:
        self._wire.dealt_with(kind, size)

    def room(self, kind: FrameKind, size: int) -> None:
        self.session.left(kind, size)

    def link_down(self) -> None:
        self._tell_version(begins=False)
        if self._identity.role == "node":
            self._node.former.left(self._identity.node_id, self._identity.incarnation)
        self.session.close()

    def _tell_version(self, *, begins: bool) -> None:
        if self._identity.role == "gateway":
            version = self._node.services.version
            version.gateway_talks(self._identity.incarnation, self._newest, begins=begins)


class LinkServer:
    """Listens on one address for peers and gateways of this cluster."""

    def __init__(
        self,
        node: ReplicaNode,
        secret: bytes,
        tls: PeerTls | None = None,
        *,
        called: Callable[[NodeId], None],
    ) -> None:
        """`called` is told of each node that begins a conversation here, also of one that asks to
        join."""
        self._tls = tls
        self._tasks = Tasks()
        loop = asyncio.get_running_loop()

        def welcome(speaker: Speaker, wire: Wire) -> PeerCaller | ServiceCaller:
            caller = caller_of(node, speaker, wire, self._tasks, wire.host)
            if speaker.identity.role == "node":
                called(speaker.identity.node_id)
            return caller

        self.acceptor = Acceptor(
            loop,
            lambda: terms_of(node, secret),
            welcome,
            lambda who: who.role == "node" and who.node_id not in node.roster,
        )
        node.host.memory.add("arriving", lambda: self.acceptor.arriving_bytes)

    async def start(self, address: str) -> int:
        """Listen on HOST:PORT; returns the port. Raises OSError for an address that cannot be
        listened on, CertificateError."""
        host, _, port = address.rpartition(":")
        renewal = context = None
        if self._tls is not None:
            renewal = Renewal(self._tls, acceptor_context)
            context = acceptor_context(self._tls)
        bound = await self.acceptor.start(host.strip("[]"), int(port), context)
        if renewal is not None:
            self._tasks.spawn(self._renew(renewal), "watch the certificate")
        return bound

    async def _renew(self, renewal: Renewal) -> None:
        while True:
            await asyncio.sleep(RENEWAL_SECONDS)
            context = renewal.changed()
            if context is not None:
                self.acceptor.renew(context)

    async def stop(self) -> None:
        """End every conversation."""
        await self.acceptor.close("the node is stopping")
        await self._tasks.cancel_all()
