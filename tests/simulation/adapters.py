"""A node's and a gateway's connections, carried by the simulated network.

The conversations are the real ones, frames, credit and proofs included; only the socket under them
is not: what a `Wire` would write travels as one message of the simulated network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from svc_cluster.base.clock import Clock
from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.base.tasks import Tasks
from svc_cluster.codec.peer_message import decode_envelope, encode_envelope, encode_message
from svc_cluster.link.connector import LinkEvents
from svc_cluster.link.conversation import Terms
from svc_cluster.link.errors import LinkLostError
from svc_cluster.link.frame import Kind
from svc_cluster.link.greeting import NONCE_BYTES, Speaker
from svc_cluster.link.handshake import HandshakeError, Identity
from svc_cluster.link.session import NodeSession
from svc_cluster.link.wire import Wire
from svc_cluster.model.formation import INCARNATION_CHARACTERS
from svc_cluster.raft.messages import PeerMessage
from svc_cluster.replica.link_server import caller_of, terms_of
from svc_cluster.replica.node import ReplicaNode
from svc_cluster.replica.peers import RAFT, LinkPeers, PeerLink
from tests.simulation.loop import SimLoop
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


def snapshot_address(node: int) -> str:
    return f"snap:{node}"


def form_address(node: int) -> str:
    return f"form:{node}"


def addresses_of(node: int) -> list[str]:
    """Everything by which the network knows a node."""
    return [
        peer_address(node),
        hears_address(node),
        rpc_address(node),
        snapshot_address(node),
        f"asks:{node}",
        f"sends:{node}",
        form_address(node),
        f"forms:{node}",
    ]


def raft_pairs(a: int, b: int) -> list[tuple[str, str]]:
    """Between which addresses two nodes talk Raft."""
    return [
        (peer_address(a), hears_address(b)),
        (peer_address(b), hears_address(a)),
    ]


class SimTransport:
    """The part of a transport that a `Wire` uses. The network takes everything at once."""

    def __init__(self, send: Callable[[bytes], None], closed: Callable[[], None]) -> None:
        self._send = send
        self._closed = closed

    def set_write_buffer_limits(self, high: int) -> None:
        """What is written is never kept here."""

    def writelines(self, frames: Iterable[bytes]) -> None:
        self._send(b"".join(frames))

    def get_extra_info(self, _name: str) -> Any:
        return None

    def close(self) -> None:
        self._closed()

    def abort(self) -> None:
        self._closed()


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
        wire.connection_made(SimTransport(self._write, lambda: self._closed(wire)))  # type: ignore[arg-type]
        self._write(b"")  # the acceptor learns of the connection, and speaks first

    def message(self, data: bytes) -> None:
        if self._wire is not None and data[:_NUMBER_BYTES] == self._number:
            body = data[_NUMBER_BYTES:]
            if body:
                self._wire.data_received(body)
            else:
                self._end("the other side closed the connection")
                self._again()

    def _write(self, data: bytes) -> None:
        self._network.send(self._mine, self._to, self._number + data)

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

    # -- what the conversation tells

    def opened(self, speaker: Speaker) -> None:
        self._events.link_up(speaker)

    # -- what its owner does

    @property
    def is_up(self) -> bool:
        return self._wire is not None and self._wire.is_open

    def send(self, kind: Kind, flow: int, payload: bytes) -> None:
        if self._wire is None:
            raise LinkLostError(sent=False)
        self._wire.send(kind, flow, payload)

    def under_way(self, kind: Kind) -> int:
        return 0 if self._wire is None else self._wire.talk.outbox.credits[kind].under_way

    def is_waiting(self, kind: Kind, flow: int) -> bool:
        return self._wire is not None and self._wire.is_waiting(kind, flow)

    def dealt_with(self, kind: Kind, size: int) -> None:
        if self._wire is not None:
            self._wire.dealt_with(kind, size)

    async def close(self) -> None:
        self._end("closed")


class _Conversing:
    """What a connector's conversation tells, passed on."""

    def __init__(self, connector: SimConnector) -> None:
        self._connector = connector
        self._events = connector._events

    def opened(self, speaker: Speaker) -> None:
        self._connector.opened(speaker)

    def message(self, kind: Kind, payload: bytes) -> None:
        self._events.message(kind, payload)

    def room(self, kind: Kind, size: int) -> None:
        self._events.room(kind, size)


class SimCaller:
    """The links of one process, all from one address."""

    def __init__(self, loop: SimLoop, network: SimNetwork, address: str) -> None:
        self._loop = loop
        self._network = network
        self._address = address
        self._links: dict[str, SimConnector] = {}
        network.register(
            address,
            lambda sender, data: self._links[sender].message(data),
            lambda to, up: self._links[to].changed(up),
        )

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
        def write(data: bytes) -> None:
            self._network.send(self._address, sender, number + data)

        accepted = _Accepted(self._welcome)
        accepted.wire = Wire(
            self._loop,
            self._terms(),
            accepted,
            _nonce(int.from_bytes(number, "big"), 2),
            accepted.on_end,
            acceptor=True,
        )
        accepted.wire.connection_made(SimTransport(write, lambda: write(b"")))  # type: ignore[arg-type]
        return accepted


class _Accepted:
    wire: Wire

    def __init__(self, welcome: Callable[[Speaker, Wire], Any]) -> None:
        self._welcome = welcome
        self._caller: Any = None

    def opened(self, speaker: Speaker) -> None:
        self._caller = self._welcome(speaker, self.wire)

    def message(self, kind: Kind, payload: bytes) -> None:
        self._caller.message(kind, payload)

    def room(self, kind: Kind, size: int) -> None:
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
    """The node's links to its peers, for Raft. With `datagrams` its messages travel one by one and
    may be lost, doubled and late, which no conversation allows: to try Raft itself."""

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
        self._caller: SimCaller | None = None
        self._terms: Callable[[], Terms] = lambda: _refused()
        peers = tuple(NodeId(other) for other in others)
        self._links = LinkPeers(
            loop=loop, peers=peers, clock=self._wall_ms, open_link=self._open_link
        )
        self.on_sent: Callable[[NodeId, NodeId, GroupId, PeerMessage], None] | None = None

    def has_room(self, peer: NodeId) -> bool:
        return self._datagrams or self._links.has_room(peer)

    @property
    def held_bytes(self) -> int:
        return 0 if self._datagrams else self._links.held_bytes

    def connect(self, node: ReplicaNode) -> None:
        if self._datagrams:
            self._connect_datagrams(node)
            return
        self._terms = lambda: _with_raft(node)
        self._caller = SimCaller(self._loop, self._network, peer_address(self._node))
        host = node.host
        self._links.connect(host.peer_up, host.peer_down, host.peer_room)

    def _open_link(self, peer: NodeId, is_raft: bool, events: Any) -> PeerLink:
        assert is_raft and self._caller is not None, "services have links of their own here"
        return self._caller.link(hears_address(peer), self._terms, events)

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
                node.host.peer_up(peers[address])
            else:
                node.host.peer_down(peers[address])

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


def _refused() -> Terms:
    raise AssertionError("it is connected first")


def _with_raft(node: ReplicaNode) -> Terms:
    own = node.speaker()
    speaker = Speaker(own.identity, (RAFT,), own.basin_commands, own.catalog_commands)
    return Terms(SECRET, speaker, lambda _: None)


def _from(sender: int, data: bytes) -> tuple[Identity, bytes]:
    """Who says it, as a handshake tells it, and what is said."""
    incarnation = data[:INCARNATION_CHARACTERS].decode()
    identity = Identity("simulated", "node", NodeId(sender), incarnation)
    return identity, data[INCARNATION_CHARACTERS:]


class SimCalls:
    """Implements the node's `SnapshotTransport` and its `FormationTransport`."""

    def __init__(self, network: SimNetwork, node: NodeId) -> None:
        self._network = network
        self._node = node
        self._head = b""

    async def call(self, peer: NodeId, chunk: bytes) -> bytes:
        return await self._network.call(
            f"sends:{self._node}", snapshot_address(peer), self._head + chunk
        )

    async def form(self, peer: NodeId, report: bytes) -> bytes:
        return await self._network.call(
            f"forms:{self._node}", form_address(peer), self._head + report
        )

    def serve(self, node: ReplicaNode) -> None:
        self._head = bytes([self._node]) + node.identity.incarnation.encode()

        async def take_chunk(data: bytes) -> bytes:
            caller, chunk = _from(data[0], data[1:])
            try:
                node.check_peer(caller)
            except HandshakeError as refusal:
                raise ConnectionError(str(refusal)) from refusal
            return await node.host.receiver.chunk(caller.node_id, chunk)

        async def form(data: bytes) -> bytes:
            caller, report = _from(data[0], data[1:])
            node.check_member(caller)
            return node.form(caller, report)

        self._network.serve(snapshot_address(self._node), take_chunk)
        self._network.serve(form_address(self._node), form)


class SimServer:
    """A node's side of the conversations with its peers, gateways, and nodes that ask it."""

    def __init__(
        self, loop: SimLoop, network: SimNetwork, node: ReplicaNode, *, datagrams: bool
    ) -> None:
        tasks = Tasks()
        number = node.config.node_id
        places = [rpc_address(number)] + ([] if datagrams else [hears_address(number)])
        for address in places:
            SimAcceptor(
                loop,
                network,
                address,
                lambda: terms_of(node, SECRET),
                lambda speaker, wire: caller_of(node, speaker, wire, tasks),
            )


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
