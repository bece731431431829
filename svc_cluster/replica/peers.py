"""Raft messages and snapshots to the other nodes over grpc.aio. Thin: it packs and sends.

Messages of all groups to one peer that arise in one turn of the event loop leave as one envelope.
Snapshots have a connection of their own, so that they never stand in the way of heartbeats.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Callable, Mapping
from typing import Final

import grpc
import grpc.aio

from svc_cluster.base.clock import Clock
from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.codec.peer_message import Outgoing, encode_message, envelopes
from svc_cluster.link.grpc_link import CHANNEL_OPTIONS, GrpcLink
from svc_cluster.link.handshake import Identity, make_metadata
from svc_cluster.link.session import LinkLostError, NodeSession
from svc_cluster.link.tls import CertificateError, PeerTls, node_name, open_channel
from svc_cluster.raft.messages import PeerMessage

PEER_METHOD: Final = "/svc.cluster.v1.Replica/Peer"
SNAPSHOT_METHOD: Final = "/svc.cluster.v1.Replica/Snapshot"
SESSION_METHOD: Final = "/svc.cluster.v1.Replica/Session"
SNAPSHOT_CALL_SECONDS: Final = 30.0
FORM_METHOD: Final = "/svc.cluster.v1.Replica/Form"
FORM_CALL_SECONDS: Final = 3.0


class _PeerLinkEvents:
    """Passes a link's state on as that of a peer."""

    def __init__(
        self, peer: NodeId, up: Callable[[NodeId], None], down: Callable[[NodeId], None]
    ) -> None:
        self._peer = peer
        self._up = up
        self._down = down

    def link_up(self) -> None:
        self._up(self._peer)

    def link_down(self) -> None:
        self._down(self._peer)

    def message(self, data: bytes) -> None:
        """The other side never speaks on this stream: its messages come on its own."""


class GrpcPeers:
    """Links to every other node. `connect` starts them, once the host exists."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        identity: Callable[[], Identity],
        secret: bytes,
        addresses: Mapping[NodeId, str],
        rng: random.Random,
        clock: Clock,
        tls: PeerTls | None = None,
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._tls = tls
        self._identity = identity
        self._secret = secret
        self._addresses = addresses
        self._rng = rng
        self._links: dict[NodeId, GrpcLink] = {}
        self._waiting: dict[NodeId, list[Outgoing]] = {}
        self._flush_scheduled = False
        self._snapshot_channels: dict[NodeId, grpc.aio.Channel] = {}
        self._form_channels: dict[NodeId, grpc.aio.Channel] = {}
        self.send_failures = dict.fromkeys(addresses, 0)
        self.sent_bytes = dict.fromkeys(addresses, 0)
        """Of Raft's messages, by peer; snapshots are not counted."""

    def metadata(self) -> tuple[tuple[str, str], ...]:
        return make_metadata(self._secret, self._identity(), secrets.token_hex(16))

    def connect(self, up: Callable[[NodeId], None], down: Callable[[NodeId], None]) -> None:
        for peer, address in self._others():
            self._links[peer] = GrpcLink(
                address=address,
                method=PEER_METHOD,
                metadata=self.metadata,
                events=_PeerLinkEvents(peer, up, down),
                rng=self._rng,
                tls=self._tls,
                server_name=node_name(peer),
            )

    def sessions(self) -> dict[NodeId, NodeSession]:
        """Conversations with the other nodes' services."""
        out: dict[NodeId, NodeSession] = {}
        for peer, address in self._others():
            session = NodeSession(self._loop)
            session.attach(
                GrpcLink(
                    address=address,
                    method=SESSION_METHOD,
                    metadata=self.metadata,
                    events=session,
                    rng=self._rng,
                    tls=self._tls,
                    server_name=node_name(peer),
                )
            )
            out[peer] = session
        return out

    def _others(self) -> list[tuple[NodeId, str]]:
        own = self._identity().node_id
        return [(peer, address) for peer, address in self._addresses.items() if peer != own]

    def send(self, peer: NodeId, group_id: GroupId, message: PeerMessage) -> None:
        self._waiting.setdefault(peer, []).append(encode_message(group_id, message))
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_scheduled = False
        waiting, self._waiting = self._waiting, {}
        for peer, messages in waiting.items():
            self._send_all(peer, messages)

    def _send_all(self, peer: NodeId, messages: list[Outgoing]) -> None:
        link = self._links.get(peer)
        if link is None:
            return
        for envelope in envelopes(messages, self._clock.wall_ms()):
            try:
                link.send(envelope.data, is_bulk=envelope.is_bulk)
            except LinkLostError:
                # the group repeats what matters
                self.send_failures[peer] += 1
                if envelope.is_bulk and envelope.small:
                    # entries are dropped where the peer does not take them; heartbeats are not
                    self._send_all(peer, envelope.small)
            else:
                self.sent_bytes[peer] += len(envelope.data)

    async def call(self, peer: NodeId, chunk: bytes) -> bytes:
        """Deliver one snapshot chunk. Raises ConnectionError."""
        channels = self._snapshot_channels
        return await self._ask(channels, peer, SNAPSHOT_METHOD, chunk, SNAPSHOT_CALL_SECONDS)

    async def form(self, peer: NodeId, report: bytes) -> bytes:
        """Ask a node about the formation. Raises ConnectionError."""
        return await self._ask(self._form_channels, peer, FORM_METHOD, report, FORM_CALL_SECONDS)

    async def _ask(
        self,
        channels: dict[NodeId, grpc.aio.Channel],
        peer: NodeId,
        method: str,
        data: bytes,
        seconds: float,
    ) -> bytes:
        channel = channels.get(peer)
        if channel is None:
            try:
                channel = open_channel(
                    self._addresses[peer], CHANNEL_OPTIONS, self._tls, node_name(peer)
                )
            except CertificateError as cause:
                raise ConnectionError(str(cause)) from cause
            channels[peer] = channel
        try:
            reply: bytes = await channel.unary_unary(method)(
                data, metadata=self.metadata(), timeout=seconds
            )
        except grpc.aio.AioRpcError as cause:
            # the next one is made with the certificate of then
            channels.pop(peer, None)
            await channel.close()
            raise ConnectionError(cause.details() or "the call failed") from cause
        return reply

    async def close(self) -> None:
        for link in self._links.values():
            await link.close()
        for channel in (*self._snapshot_channels.values(), *self._form_channels.values()):
            await channel.close()
