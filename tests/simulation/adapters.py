"""A node's and a gateway's connections, carried by the simulated network.

The conversations are the real ones, frames, credit and proofs included; only the socket under them
is not: what a `Wire` would write travels as one message of the simulated network.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

from svc_cluster.base.clock import Clock
from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.base.tasks import Tasks
from svc_cluster.codec.peer_message import encode_envelope, encode_message
from svc_cluster.link.calls import Verb, decode
from svc_cluster.link.connector import LinkEvents
from svc_cluster.link.conversation import Terms
from svc_cluster.link.frame import FrameKind
from svc_cluster.link.greeting import NONCE_BYTES, Speaker
from svc_cluster.link.handshake import HandshakeError, Identity
from svc_cluster.link.link_errors import LinkLostError
from svc_cluster.link.session import NodeSession
from svc_cluster.link.wire import Wire
from svc_cluster.model.places import INCARNATION_CHARACTERS
from svc_cluster.raft.messages import PeerMessage
from svc_cluster.replica.link_server import caller_of, terms_of
from svc_cluster.replica.node import ReplicaNode
from svc_cluster.replica.peer_conversation import PeerLink
from svc_cluster.replica.peers import RAFT, LinkPeers
from tests.at_once import decode_envelope
from tests.simulation.loop import SimLoop, current_incarnation
from tests.simulation.network import SimNetwork

_NUMBER_BYTES: Final = 8

SECRET: Final = b"the secret of a simulated cluster"


def peer_address(node: int) -> str:
    """Where a node calls its peers from, for Raft."""
    return f"peer:{node}"


def hears_address(node: int) -> str:
    """Where a node takes what its peers say."""
    return f"hears:{node}"


def rpc_address(node: int) -> str:
    return f"rpc:{node}"


def asks_address(node: int) -> str:
    """Where a node calls the others' services from."""
    return f"asks:{node}"


def snapshot_address(node: int) -> str:
    """Where a node takes snapshots when Raft's messages are datagrams."""
    return f"snap:{node}"


def sends_address(node: int) -> str:
    return f"sends:{node}"


def addresses_of(node: int) -> list[str]:
    """Everything by which the network knows a node."""
    return [
        peer_address(node),
        hears_address(node),
        rpc_address(node),
        asks_address(node),
        snapshot_address(node),
        sends_address(node),
    ]


def raft_pairs(a: int, b: int) -> list[tuple[str, str]]:
    """Between which addresses two nodes talk Raft."""
    return [
        (peer_address(a), hears_address(b)),
        (peer_address(b), hears_address(a)),
    ]


SEGMENT_BYTES: Final = 64 * 1024
"""At most so much of what is written arrives at a time, as with TCP."""


class SimTransport:
    """The part of a transport that a `Wire` uses: it keeps what the link has not carried yet, and
    says so when that is too much."""

    def __init__(
        self, loop: SimLoop, send: Callable[[bytes], float], closed: Callable[[], None]
    ) -> None:
        """`send` says when the bytes have left."""
        self._loop = loop
        self._send = send
        self._closed = closed
        self._wire: Wire | None = None
        self._high = 0
        self._kept: deque[tuple[float, int]] = deque()
        self._kept_bytes = 0
        self._paused = False

    def carry(self, wire: Wire) -> None:
        self._wire = wire
        wire.connection_made(self)  # type: ignore[arg-type]

    def set_write_buffer_limits(self, high: int) -> None:
        self._high = high

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        """What arrives all the same is kept by the wire: nobody sends without credit."""

    def resume_reading(self) -> None:
        """Nothing was held back."""

    def writelines(self, frames: Iterable[bytes]) -> None:
        data, now = b"".join(frames), self._loop.time()
        for start in range(0, len(data), SEGMENT_BYTES):
            part = data[start : start + SEGMENT_BYTES]
            left_at = self._send(part)
            if left_at > now:
                self._kept.append((left_at, len(part)))
                self._kept_bytes += len(part)
        if self._kept and not self._paused:
            self._forget_what_left()
            if self._kept_bytes > self._high and self._wire is not None:
                self._paused = True
                self._wire.pause_writing()
                self._look_later()

    def _forget_what_left(self) -> None:
        while self._kept and self._kept[0][0] <= self._loop.time():
            self._kept_bytes -= self._kept.popleft()[1]

    def _look_later(self) -> None:
        self._loop.call_at(self._kept[0][0], self._look)

    def _look(self) -> None:
        self._forget_what_left()
        if self._kept_bytes > self._high // 4:
            self._look_later()
            return
        self._paused = False
        if self._wire is not None:
            self._wire.resume_writing()

    def get_extra_info(self, _name: str) -> Any:
        return None

    def close(self) -> None:
        self._wire = None
        self._closed()

    def abort(self) -> None:
        self.close()


class SimConnector:
    """Stands where a `Connector` stands: the network keeps the connection up, the rest is real."""

    def __init__(
        self,
        loop: SimLoop,
        network: SimNetwork,
        mine: str,
        to: str,
        terms: Callable[[], Terms],
        events: LinkEvents,
    ) -> None:
        self._loop = loop
        self._network = network
        self._mine = mine
        self._to = to
        self._terms = terms
        self._events = events
        self._wire: Wire | None = None
        self._number = b""
        self._is_closed = False

    # -- what the network tells

    def changed(self, up: bool) -> None:
        self._end("the connection is reset")
        if up:
            self._begin()

    def _begin(self) -> None:
        number = self._network.number()
        self._number = number.to_bytes(_NUMBER_BYTES, "big")
        wire = self._wire = Wire(
            self._loop,
            self._terms(),
            _Conversing(self),
            _nonce(number, 1),
            self._on_end,
            acceptor=False,
        )
        SimTransport(self._loop, self._write, lambda: self._closed(wire)).carry(wire)
        self._write(b"")  # the acceptor learns of the connection, and speaks first

    def message(self, data: bytes) -> None:
        if self._wire is not None and data[:_NUMBER_BYTES] == self._number:
            body = data[_NUMBER_BYTES:]
            if body:
                self._wire.data_received(body)
            else:
                self._end("the other side closed the connection")
                self._again()

    def _write(self, data: bytes) -> float:
        return self._network.send(self._mine, self._to, self._number + data)

    def _closed(self, wire: Wire) -> None:
        """This side closed it: the network knows no end of a connection but its reset."""
        if wire is self._wire:
            self._end("closed")
            self._again()

    def _again(self) -> None:
        """As a connector does: after a pause, for as long as the network has a connection."""
        number = self._number
        self._loop.call_later(0.1, lambda: self._begin_again(number))

    def _begin_again(self, number: bytes) -> None:
        if (
            self._wire is None
            and not self._is_closed
            and self._number == number
            and self._network.is_up(self._mine, self._to)
        ):
            self._begin()

    def _end(self, reason: str) -> None:
        wire = self._wire
        if wire is not None:
            wire.connection_lost(ConnectionResetError(reason))

    def _on_end(self, wire: Wire, _reason: str) -> None:
        if wire is self._wire:
            self._wire = None
            if wire.talk.peer is not None:
                self._events.link_down()
            # also one that gave up by itself, over a network that has a connection all the time
            self._again()

    # -- what the conversation tells

    def opened(self, speaker: Speaker) -> None:
        self._events.link_up(speaker)

    # -- what its owner does

    @property
    def is_up(self) -> bool:
        return self._wire is not None and self._wire.is_open

    def send(self, kind: FrameKind, flow: int, payload: bytes) -> None:
        if self._wire is None:
            raise LinkLostError(sent=False)
        self._wire.send(kind, flow, payload)

    @property
    def held_bytes(self) -> int:
        return 0 if self._wire is None else self._wire.talk.held_bytes

    def has_credit(self, kind: FrameKind, size: int) -> bool:
        return self._wire is None or self._wire.talk.outbox.credits[kind].allows(size)

    def under_way(self, kind: FrameKind) -> int:
        return 0 if self._wire is None else self._wire.talk.outbox.credits[kind].under_way

    def is_waiting(self, kind: FrameKind, flow: int) -> bool:
        return self._wire is not None and self._wire.is_waiting(kind, flow)

    def dealt_with(self, kind: FrameKind, size: int) -> None:
        if self._wire is not None:
            self._wire.dealt_with(kind, size)

    def knock(self) -> None:
        """The network says itself when there is a connection again."""

    def redirect(self, address: str, other: str = "") -> None:
        """A simulated node is where it is."""

    def reset(self, reason: str) -> None:
        if self._wire is not None:
            self._wire.close(reason)

    async def close(self) -> None:
        self._is_closed = True
        self._end("closed")


class _Conversing:
    """What a connector's conversation tells, passed on."""

    def __init__(self, connector: SimConnector) -> None:
        self._connector = connector
        self._events = connector._events

    def opened(self, speaker: Speaker) -> None:
        self._connector.opened(speaker)

    def message(self, kind: FrameKind, payload: bytes) -> None:
        self._events.message(kind, payload)

    def room(self, kind: FrameKind, size: int) -> None:
        self._events.room(kind, size)


class SimCaller:
    """The links of one process, all from one address."""

    def __init__(self, loop: SimLoop, network: SimNetwork, address: str) -> None:
        self._loop = loop
        self._network = network
        self._address = address
        self._links: dict[str, SimConnector] = {}
        network.register(address, self._heard, self._changed)

    def _heard(self, sender: str, data: bytes) -> None:
        """A process before this one may have had links to nodes that this one does not know yet."""
        if sender in self._links:
            self._links[sender].message(data)

    def _changed(self, to: str, up: bool) -> None:
        if to in self._links:
            self._links[to].changed(up)

    def link(self, to: str, terms: Callable[[], Terms], events: LinkEvents) -> SimConnector:
        """A link that is kept up from now on."""
        link = self._links[to] = SimConnector(
            self._loop, self._network, self._address, to, terms, events
        )
        self._network.connect(self._address, to)
        return link


class SimAcceptor:
    """The listening side of one address. What a new connection says ends the one before it."""

    def __init__(
        self,
        loop: SimLoop,
        network: SimNetwork,
        address: str,
        terms: Callable[[], Terms],
        welcome: Callable[[Speaker, Wire], Any],
    ) -> None:
        self._loop = loop
        self._network = network
        self._address = address
        self._terms = terms
        self._welcome = welcome
        self._connections: dict[str, tuple[bytes, _Accepted]] = {}
        network.register(address, self._message)

    def _message(self, sender: str, data: bytes) -> None:
        number, body = data[:_NUMBER_BYTES], data[_NUMBER_BYTES:]
        known = self._connections.get(sender)
        if known is None or known[0] != number:
            if known is not None and known[0] > number:
                return
            if known is not None:
                known[1].lost()
            if body:
                return  # the rest of a connection that is gone here
            known = self._connections[sender] = number, self._accept(sender, number)
        if body:
            known[1].wire.data_received(body)

    def _accept(self, sender: str, number: bytes) -> _Accepted:
        def write(data: bytes) -> float:
            return self._network.send(self._address, sender, number + data)

        def close() -> None:
            write(b"")

        accepted = _Accepted(self._welcome)
        accepted.wire = Wire(
            self._loop,
            self._terms(),
            accepted,
            _nonce(int.from_bytes(number, "big"), 2),
            accepted.on_end,
            acceptor=True,
        )
        SimTransport(self._loop, write, close).carry(accepted.wire)
        return accepted


class _Accepted:
    wire: Wire

    def __init__(self, welcome: Callable[[Speaker, Wire], Any]) -> None:
        self._welcome = welcome
        self._caller: Any = None

    def opened(self, speaker: Speaker) -> None:
        self._caller = self._welcome(speaker, self.wire)

    def message(self, kind: FrameKind, payload: bytes) -> None:
        self._caller.message(kind, payload)

    def room(self, kind: FrameKind, size: int) -> None:
        if self._caller is not None:
            self._caller.room(kind, size)

    def on_end(self, _wire: Wire, _reason: str) -> None:
        if self._caller is not None:
            self._caller.link_down()

    def lost(self) -> None:
        self.wire.connection_lost(ConnectionResetError("another connection took its place"))


def _nonce(number: int, side: int) -> bytes:
    """Of one side of one connection; unpredictable enough for a simulation."""
    return bytes([side]) + number.to_bytes(NONCE_BYTES - 1, "big")


class SimPeers:
    """The node's links to the others: for Raft with its snapshots, and for their services.

    With `datagrams` Raft's messages travel one by one and may be lost, doubled and late, which no
    conversation allows: to try Raft itself. Snapshots have a conversation of their own then.
    """

    def __init__(
        self,
        loop: SimLoop,
        network: SimNetwork,
        node: NodeId,
        others: Iterable[int],
        clock: Clock | None,
        *,
        datagrams: bool,
    ) -> None:
        """Without a `clock` the node is of an older version, which does not tell it."""
        self._loop = loop
        self._network = network
        self._node = node
        self._datagrams = datagrams
        self._wall_ms: Callable[[], int | None] = (lambda: None) if clock is None else clock.wall_ms
        self._waiting: dict[NodeId, list[bytes]] = {}
        self._incarnation = b""
        self._asks = SimCaller(loop, network, asks_address(node))
        self._caller: SimCaller | None = None
        self._speaker: Callable[[], Speaker] = lambda: _refused()
        self._check: Callable[[Speaker], None] = lambda _: None
        self._check_raft: Callable[[Speaker], None] = lambda _: None
        peers = tuple(NodeId(other) for other in others)
        self._links = LinkPeers(
            loop=loop, peers=peers, clock=self._wall_ms, open_link=self._open_link
        )
        self.sessions = self._links.sessions
        self.call = self._links.call
        self.form = self._links.form
        self.meet = self._links.meet
        self.leave = self._links.leave
        self.part = self._links.part
        self.on_sent: Callable[[NodeId, NodeId, GroupId, PeerMessage], None] | None = None

    def names(self, feature: str, peer: NodeId) -> bool:
        return self._links.names(feature, peer)

    def has_room(self, peer: NodeId) -> bool:
        return self._datagrams or self._links.has_room(peer)

    @property
    def held_bytes(self) -> int:
        return 0 if self._datagrams else self._links.held_bytes

    def start(self, node: ReplicaNode) -> None:
        """Links to the services of the others."""
        self._speaker = node.speaker
        self._check = node.services.version.check
        self._check_raft = node.check_raft
        self._links.start()

    def connect(self, node: ReplicaNode) -> None:
        """Links for Raft, once this node knows that it may take part."""
        host = node.host
        if self._datagrams:
            self._connect_datagrams(node)
            self._caller = SimCaller(self._loop, self._network, sends_address(self._node))
            self._links.connect(_unheard, _unheard, _unheard)
        else:
            self._caller = SimCaller(self._loop, self._network, peer_address(self._node))
            self._links.connect(host.news.up, host.news.down, host.news.room)

    def _open_link(self, peer: NodeId, is_raft: bool, events: Any) -> PeerLink:
        def terms() -> Terms:
            speaker = self._speaker()
            features = (*speaker.features, RAFT) if is_raft else speaker.features
            check = self._check_raft if is_raft else self._check
            return Terms(SECRET, replace(speaker, features=features), check)

        if not is_raft:
            return self._asks.link(rpc_address(peer), terms, events)
        assert self._caller is not None, "it is connected first"
        place = snapshot_address(peer) if self._datagrams else hears_address(peer)
        return self._caller.link(place, terms, events)

    def send(self, peer: NodeId, group_id: GroupId, message: PeerMessage) -> None:
        if self.on_sent is not None:
            self.on_sent(self._node, peer, group_id, message)
        if not self._datagrams:
            self._links.send(peer, group_id, message)
            return
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.setdefault(peer, []).append(encode_message(group_id, message))

    # -- datagrams

    def _connect_datagrams(self, node: ReplicaNode) -> None:
        peers = {hears_address(other): other for other in self._links.sessions}
        senders = {peer_address(other): other for other in self._links.sessions}
        self._incarnation = node.identity.incarnation.encode()

        def on_message(sender: str, data: bytes) -> None:
            caller, body = _from(senders[sender], data)
            try:
                node.check_peer(caller)
            except HandshakeError:
                return
            node.peer_envelope(caller.node_id, decode_envelope(body))

        def on_link(address: str, up: bool) -> None:
            if up:
                node.host.news.up(peers[address])
            else:
                node.host.news.down(peers[address])

        mine = peer_address(self._node)
        self._network.register(hears_address(self._node), on_message)
        self._network.register(mine, lambda _sender, _data: None, on_link)
        for address in peers:
            self._network.connect(mine, address)

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, {}
        mine = peer_address(self._node)
        for peer, members in waiting.items():
            for member in members:
                data = encode_envelope(self._incarnation, [member], self._wall_ms())
                self._network.send(mine, hears_address(peer), data, datagram=True)


def _refused() -> Speaker:
    raise AssertionError("it is started first")


def _unheard(_peer: NodeId) -> None:
    """Whether a peer is there is told by the connection of the datagrams."""


def _from(sender: int, data: bytes) -> tuple[Identity, bytes]:
    """Who says it, as a handshake tells it, and what is said."""
    incarnation = data[:INCARNATION_CHARACTERS].decode()
    identity = Identity("simulated", "node", NodeId(sender), incarnation)
    return identity, data[INCARNATION_CHARACTERS:]


class SimServer:
    """A node's side of the conversations with its peers, gateways, and nodes that ask it."""

    def __init__(
        self, loop: SimLoop, network: SimNetwork, node: ReplicaNode, *, datagrams: bool
    ) -> None:
        tasks = Tasks()
        number = node.config.node_id

        def welcome(speaker: Speaker, wire: Wire) -> _Watched:
            watched = _Watched(network, number, wire, speaker.identity)
            watched.caller = caller_of(node, speaker, watched, tasks)
            return watched

        raft = snapshot_address(number) if datagrams else hears_address(number)
        for address in (rpc_address(number), raft):
            SimAcceptor(loop, network, address, lambda: terms_of(node, SECRET), welcome)


class _Watched:
    """Stands between a caller's conversation and whoever deals with it, and tells of chunks,
    reports and their answers."""

    caller: Any

    def __init__(self, network: SimNetwork, node: int, wire: Wire, identity: Identity) -> None:
        self._network = network
        self._identity = identity
        self._node = node
        self._wire = wire
        self._asked: dict[int, Verb] = {}

    def message(self, kind: FrameKind, payload: bytes) -> None:
        if self._network.on_call is not None and payload[0] in (Verb.SNAPSHOT, Verb.FORM):
            verb, number, _ = decode(payload)
            self._asked[number] = verb
            self._network.called(verb, self._node, answered=False)
            owner = current_incarnation()
            if owner is not None and not owner.alive:
                return
        self.caller.message(kind, payload)
        if self._network.on_heard is not None and payload[0] == Verb.PEER:
            self._network.on_heard(self._node, self._identity)

    def room(self, kind: FrameKind, size: int) -> None:
        self.caller.room(kind, size)

    def link_down(self) -> None:
        self.caller.link_down()

    def send(self, kind: FrameKind, flow: int, payload: bytes) -> None:
        self._wire.send(kind, flow, payload)
        if self._asked:
            verb = self._asked.pop(decode(payload).number, None)
            if verb is not None:
                self._network.called_soon(verb, self._node)

    def waiting_bytes(self, kind: FrameKind) -> int:
        return self._wire.waiting_bytes(kind)

    def give_up(self, reason: str) -> None:
        self._wire.give_up(reason)

    def dealt_with(self, kind: FrameKind, size: int) -> None:
        self._wire.dealt_with(kind, size)


class SimRpcClient:
    """The conversations of one process with the nodes' services."""

    def __init__(
        self, loop: SimLoop, network: SimNetwork, address: str, speaker: Callable[[], Speaker]
    ) -> None:
        self._loop = loop
        self._speaker = speaker
        self._caller = SimCaller(loop, network, address)

    def session(self, node: NodeId) -> NodeSession:
        session = NodeSession(self._loop)
        terms = lambda: Terms(SECRET, self._speaker(), lambda _: None)  # noqa: E731
        session.attach(self._caller.link(rpc_address(node), terms, session))
        return session


def gateway_speaker(cluster_id: str, name: str) -> Speaker:
    return Speaker(Identity(cluster_id, "gateway", NodeId(0), name))
