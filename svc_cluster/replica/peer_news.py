"""Which other nodes are up, and how every group of this one is told so: in walks, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from svc_cluster.base.ids import NodeId
from svc_cluster.raft.group import Event, PeerDown, PeerRoom, PeerUp
from svc_cluster.replica.basin import BasinReplica
from svc_cluster.replica.catalog import CatalogReplica
from svc_cluster.replica.group_walks import GroupWalks

WAITING_PER_PEER_MAX: Final = 3
"""What of one peer may wait to be told: that it went, came back and has room."""

Replica = CatalogReplica | BasinReplica


class _News(NamedTuple):
    event: PeerUp | PeerDown | PeerRoom
    wanted: Callable[[Replica], bool]


class PeerNews:
    """The one of a node. A group hears of a peer what came last, and hears in between that the
    conversation was another one."""

    def __init__(self, walks: GroupWalks, replicas: Callable[[], list[Replica]]) -> None:
        self._walks = walks
        self._replicas = replicas
        self._up: set[NodeId] = set()
        self._waiting: deque[_News] = deque()
        self._is_told = False
        """One of them is being told."""
        self.on_up: Callable[[NodeId], None] = lambda _: None
        self.on_down: Callable[[NodeId], None] = lambda _: None
        """Told once, before any group is."""

    @property
    def peers_up(self) -> list[NodeId]:
        """In order. A group that is opened is told of these first."""
        return sorted(self._up)

    def is_up(self, peer: NodeId) -> bool:
        return peer in self._up

    def up(self, peer: NodeId) -> None:
        self._up.add(peer)
        self.on_up(peer)
        self._tell(PeerUp(peer), obsolete=(PeerUp,))

    def down(self, peer: NodeId) -> None:
        self._up.discard(peer)
        self.on_down(peer)
        # nobody has heard of what it takes back
        self._tell(PeerDown(peer), obsolete=(PeerUp, PeerDown, PeerRoom))

    def room(self, peer: NodeId) -> None:
        """The way to a peer takes entries again: what was held back for it goes on, group by
        group."""
        self._tell(
            PeerRoom(peer), obsolete=(PeerRoom,), wanted=lambda one: one.group.engine.can_propose
        )

    def _tell(
        self,
        event: PeerUp | PeerDown | PeerRoom,
        obsolete: tuple[type[Event], ...],
        wanted: Callable[[Replica], bool] = lambda _: True,
    ) -> None:
        self._waiting = deque(
            news
            for news in self._waiting
            if news.event.peer != event.peer or not isinstance(news.event, obsolete)
        )
        self._waiting.append(_News(event, wanted))
        of_peer = sum(news.event.peer == event.peer for news in self._waiting)
        assert of_peer <= WAITING_PER_PEER_MAX, "what is obsolete was dropped"
        if not self._is_told:
            self._tell_next()

    def _tell_next(self) -> None:
        self._is_told = bool(self._waiting)
        if self._is_told:
            news = self._waiting.popleft()
            self._walks.start(self._replicas(), partial(_step, news), self._tell_next)


def _step(news: _News, replica: Replica) -> None:
    if news.wanted(replica):
        replica.group.step(news.event)
