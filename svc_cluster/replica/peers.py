"""Raft messages, snapshots and formation to the other nodes, over links of our own.

Two conversations with each other node: one for Raft and its snapshots, which that node admits only
from a data directory that the cluster was formed with, and one for its service. What is small
leaves in envelopes, one a turn of the event loop, ahead of everything else; entries leave as
messages of their own, group by group in turn, within the credit that the peer gives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.base.tasks import Tasks
from svc_cluster.link.frame import FrameKind
from svc_cluster.link.greeting import Speaker
from svc_cluster.link.session import NodeSession
from svc_cluster.raft.messages import PeerMessage
from svc_cluster.replica.peer_conversation import PeerConversation, PeerLink

RAFT: Final = "raft"
"""The feature that a caller names in its greeting when the conversation is for Raft's messages and
snapshots: the acceptor then admits only a node that the cluster was formed with."""

SNAPSHOT_CALL_SECONDS: Final = 30.0
FORM_CALL_SECONDS: Final = 3.0


class _PeerEvents:
    """Passes a link's state on as that of a peer."""

    def __init__(
        self,
        peer: NodeId,
        talk: PeerConversation,
        up: Callable[[NodeId], None],
        down: Callable[[NodeId], None],
    ) -> None:
        self._peer = peer
        self._talk = talk
        self._up = up
        self._down = down

    def link_up(self, speaker: Speaker) -> None:
        self._talk.calls.link_up(speaker)
        self._up(self._peer)

    def link_down(self) -> None:
        self._talk.link_down()
        self._down(self._peer)

    def message(self, kind: FrameKind, payload: bytes) -> None:
        """The other side only answers here: its own messages come on its own conversation."""
        self._talk.calls.message(kind, payload)

    def room(self, kind: FrameKind, size: int) -> None:
        self._talk.room(kind, size)


Open = Callable[[NodeId, bool, "_PeerEvents | NodeSession"], PeerLink]
"""Makes the link to a peer that is kept up: for Raft, or for its service."""

_Told = Callable[[NodeId], None]


class LinkPeers:
    """Links to every other node. `start` begins with the service, `connect` with Raft, once the
    host exists."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        peers: tuple[NodeId, ...],
        clock: Callable[[], int | None],
        open_link: Open,
        addresses: dict[NodeId, str] | None = None,
    ) -> None:
        """`addresses`: where links are made to; those of nodes that come later are put into it."""
        self._loop = loop
        self._open = open_link
        self._clock = clock
        self._addresses = {} if addresses is None else addresses
        self._others: dict[NodeId, str] = {}
        self._tasks = Tasks()
        self._talks = {peer: PeerConversation(loop, clock) for peer in peers}
        self.sessions = {peer: NodeSession(loop) for peer in peers}
        """Conversations with the other nodes' services."""
        self._links: dict[NodeId, list[PeerLink]] = {}
        self._is_started = False
        self._tell: tuple[_Told, _Told, _Told] | None = None
        """Who is told of peers that are up, down, and take entries again."""
        self.on_sent: Callable[[NodeId, GroupId, PeerMessage], None] | None = None

    @property
    def send_failures(self) -> dict[NodeId, int]:
        return {peer: talk.send_failures for peer, talk in self._talks.items()}

    @property
    def sent_bytes(self) -> dict[NodeId, int]:
        """Return the bytes of Raft's messages, by peer; snapshots are not counted."""
        return {peer: talk.sent_bytes for peer, talk in self._talks.items()}

    @property
    def held_bytes(self) -> int:
        """About how much of all groups is on its way to peers that have not dealt with it."""
        return sum(talk.held_bytes for talk in self._talks.values())

    def start(self) -> None:
        self._is_started = True
        for peer in self.sessions:
            self._begin_service(peer)

    def _begin_service(self, peer: NodeId) -> None:
        session = self.sessions[peer]
        link = self._opened(peer, False, session)
        session.attach(link)
        self._links.setdefault(peer, []).append(link)

    def _opened(self, peer: NodeId, is_raft: bool, events: _PeerEvents | NodeSession) -> PeerLink:
        """A link that goes where the node was last met."""
        link = self._open(peer, is_raft, events)
        if other := self._others.get(peer):
            link.redirect(self._addresses[peer], other)
        return link

    def connect(
        self,
        up: Callable[[NodeId], None],
        down: Callable[[NodeId], None],
        room: Callable[[NodeId], None],
    ) -> None:
        """`room` is told of a peer that takes entries again, after `has_room` has said no."""
        self._tell = up, down, room
        for peer in self._talks:
            self._begin_raft(peer, *self._tell)

    def _begin_raft(self, peer: NodeId, up: _Told, down: _Told, room: _Told) -> None:
        talk = self._talks[peer]
        talk.on_room = lambda: room(peer)
        link = self._opened(peer, True, _PeerEvents(peer, talk, up, down))
        talk.attach(link)
        self._links.setdefault(peer, []).append(link)

    def meet(self, peer: NodeId, address: str, other: str = "") -> NodeSession:
        """Does what `Links.meet` does."""
        if (self._addresses.get(peer), self._others.get(peer, "")) != (address, other):
            self._addresses[peer], self._others[peer] = address, other
            for link in self._links.get(peer, ()):
                link.redirect(address, other)
        if peer not in self._talks:
            self._talks[peer] = PeerConversation(self._loop, self._clock)
            self.sessions[peer] = NodeSession(self._loop)
            if self._is_started:
                self._begin_service(peer)
            if self._tell is not None:
                self._begin_raft(peer, *self._tell)
        return self.sessions[peer]

    def leave(self, peer: NodeId) -> None:
        """Does what `Links.leave` does."""
        for link in self._links.pop(peer, ()):
            self._tasks.spawn(link.close(), f"leave node {peer}")
        self._talks.pop(peer, None)
        self._others.pop(peer, None)
        self.sessions.pop(peer, None)

    def knock(self, peer: NodeId) -> None:
        """The node has called: where a link to it is down, it is tried again soon. Nothing where it
        is no peer."""
        for link in self._links.get(peer, ()):
            link.knock()

    def send(self, peer: NodeId, group_id: GroupId, message: PeerMessage) -> None:
        talk = self._talks.get(peer)
        if talk is None:
            return  # it was removed, and hears nothing more
        if self.on_sent is not None:
            self.on_sent(peer, group_id, message)
        talk.send(group_id, message)

    def has_room(self, peer: NodeId) -> bool:
        """Whether a group may hand over more entries for this peer."""
        talk = self._talks.get(peer)
        return talk is None or talk.has_room

    def names(self, feature: str, peer: NodeId) -> bool:
        """Whether the node takes what belongs to this feature in a conversation of Raft."""
        talk = self._talks.get(peer)
        said = None if talk is None else talk.calls.peer
        return said is not None and feature in said.features

    async def call(self, peer: NodeId, chunk: bytes) -> bytes:
        """Deliver one snapshot chunk. Raises ConnectionError."""
        if (talk := self._talks.get(peer)) is None:
            raise ConnectionError("there is no such node")
        try:
            async with asyncio.timeout(SNAPSHOT_CALL_SECONDS):
                return await talk.calls.chunk(chunk)
        except TimeoutError as late:
            raise ConnectionError("no answer to a chunk of a snapshot") from late

    async def form(self, peer: NodeId, report: bytes) -> bytes:
        """Ask a node about the formation. Raises ConnectionError."""
        if (session := self.sessions.get(peer)) is None:
            raise ConnectionError("there is no such node")
        try:
            async with asyncio.timeout(FORM_CALL_SECONDS):
                return await session.form(report)
        except TimeoutError as late:
            raise ConnectionError("no answer about the formation") from late

    def part(self) -> None:
        """End every conversation of Raft; others follow."""
        for talk in self._talks.values():
            talk.part()

    async def close(self) -> None:
        for links in self._links.values():
            for link in links:
                await link.close()
        await self._tasks.cancel_all()
