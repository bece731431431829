"""A node's and a gateway's connections, carried by the simulated network.

They stand where the gRPC adapters stand in a process: thin, with the same batching and the same
promises (first in, first out on a connection; a lost connection is reported).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from svc_cluster.base.clock import Clock
from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.codec.peer_message import Outgoing, decode_envelope, encode_message, envelopes
from svc_cluster.link.handshake import HandshakeError, Identity
from svc_cluster.link.session import LinkEvents, LinkLostError, NodeSession
from svc_cluster.model.formation import INCARNATION_CHARACTERS
from svc_cluster.raft.messages import PeerMessage
from svc_cluster.replica.node import ReplicaNode
from svc_cluster.replica.service import ServiceSession
from tests.simulation.loop import SimLoop
from tests.simulation.network import SimNetwork

_NUMBER_BYTES: Final = 8


def peer_address(node: int) -> str:
    return f"peer:{node}"


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
        rpc_address(node),
        snapshot_address(node),
        f"asks:{node}",
        f"sends:{node}",
        form_address(node),
        f"forms:{node}",
    ]


class SimPeers:
    """Implements the node's `PeerSender`. Messages of one turn to one peer leave as one."""

    def __init__(
        self,
        loop: SimLoop,
        network: SimNetwork,
        node: NodeId,
        clock: Clock | None,
        *,
        datagrams: bool,
    ) -> None:
        """Without a `clock` the node is of an older version, which does not tell it."""
        self._loop = loop
        self._network = network
        self._node = node
        self._datagrams = datagrams
        self._clock = clock
        self._waiting: dict[NodeId, list[Outgoing]] = {}
        self._incarnation = b""
        self.on_sent: Callable[[NodeId, NodeId, GroupId, PeerMessage], None] | None = None

    def connect(self, node: ReplicaNode, others: Iterable[NodeId]) -> None:
        peers = {peer_address(other): other for other in others}
        mine = peer_address(self._node)
        self._incarnation = node.identity.incarnation.encode()

        def on_message(sender: str, data: bytes) -> None:
            caller, body = _from(peers[sender], data)
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

        self._network.register(mine, on_message, on_link)
        for address in peers:
            self._network.connect(mine, address)

    def send(self, peer: NodeId, group_id: GroupId, message: PeerMessage) -> None:
        if self.on_sent is not None:
            self.on_sent(self._node, peer, group_id, message)
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.setdefault(peer, []).append(encode_message(group_id, message))

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, {}
        mine = peer_address(self._node)
        for peer, messages in waiting.items():
            wall_ms = None if self._clock is None else self._clock.wall_ms()
            for envelope in envelopes(messages, wall_ms):
                self._network.send(
                    mine,
                    peer_address(peer),
                    self._incarnation + envelope.data,
                    datagram=self._datagrams,
                )


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


class SimRpcServer:
    """A node's side of the conversations with gateways and other nodes.

    Each message begins with the number of the caller's connection: what a new one says ends the
    old one, as the end of a stream does.
    """

    def __init__(self, network: SimNetwork, node: NodeId, service: ReplicaNode) -> None:
        self._network = network
        self._address = rpc_address(node)
        self._node = service
        self._sessions: dict[str, tuple[bytes, ServiceSession]] = {}
        network.register(self._address, self._message)

    def _message(self, sender: str, data: bytes) -> None:
        number, body = data[:_NUMBER_BYTES], data[_NUMBER_BYTES:]
        known = self._sessions.get(sender)
        if known is None or known[0] != number:
            if known is not None:
                known[1].close()
            known = self._sessions[sender] = number, self._open(sender, number)
        known[1].message(body)

    def _open(self, sender: str, number: bytes) -> ServiceSession:
        def send(data: bytes) -> None:
            self._network.send(self._address, sender, number + data)
            session.sent(len(data))

        session = self._node.service.session(send)
        return session


class SimRpcClient:
    """The links of one process to the nodes, all from one address."""

    def __init__(self, network: SimNetwork, address: str) -> None:
        self._network = network
        self._address = address
        self._links: dict[str, _SimLink] = {}
        network.register(address, self._message, self._link_changed)

    def session(self, loop: SimLoop, node: NodeId) -> NodeSession:
        session = NodeSession(loop)
        link = self._links[rpc_address(node)] = _SimLink(
            self._network, self._address, rpc_address(node), session
        )
        session.attach(link)
        self._network.connect(self._address, rpc_address(node))
        return session

    def _message(self, sender: str, data: bytes) -> None:
        self._links[sender].message(data)

    def _link_changed(self, to: str, up: bool) -> None:
        self._links[to].changed(up)


class _SimLink:
    """Implements `link.session.Link`."""

    def __init__(self, network: SimNetwork, mine: str, to: str, events: LinkEvents) -> None:
        self._network = network
        self._mine = mine
        self._to = to
        self._events = events
        self._number = 0
        self._up = False

    def changed(self, up: bool) -> None:
        if up == self._up:
            return
        self._up = up
        if up:
            self._number = self._network.number()
            self._events.link_up()
        else:
            self._events.link_down()

    def message(self, data: bytes) -> None:
        if self._up and data[:_NUMBER_BYTES] == self._prefix():
            self._events.message(data[_NUMBER_BYTES:])

    def send(self, data: bytes) -> None:
        if not self._up:
            raise LinkLostError(sent=False)
        self._network.send(self._mine, self._to, self._prefix() + data)

    async def close(self) -> None:
        self._up = False

    def _prefix(self) -> bytes:
        return self._number.to_bytes(_NUMBER_BYTES, "big")
