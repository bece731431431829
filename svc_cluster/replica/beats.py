"""Nodes tell each other that they are there, once for all groups, so that groups may rest.

A beat also says which groups its sender leads that rest with the receiver's consent, as a number
and a digest. Where that is not what the receiver knows, and stays so, it asks for the list: a group
that only one of the two believes to be at rest wakes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Final, assert_never

from svc_cluster.base.guarded import guarded
from svc_cluster.base.ids import CATALOG_GROUP, GroupId, LogIndex, NodeId, Term
from svc_cluster.link.features import REST
from svc_cluster.raft.messages import Beat, RestKind, RestList, RestMark, RestMessage
from svc_cluster.replica.group_services import GroupServices
from svc_cluster.replica.host_settings import HostSettings
from svc_cluster.replica.peer_news import PeerNews
from svc_cluster.replica.pulse import Heard

BEAT_SECONDS: Final = 0.25


class Beats:
    """Those of one node, to all others that take them."""

    def __init__(
        self,
        services: GroupServices,
        news: PeerNews,
        settings: HostSettings,
        rng: random.Random,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        others = [node for node in settings.nodes if node != services.node_id]
        services.rest.begin(settings.rest_seconds, others, news.is_up, on_fatal)
        self._rest = services.rest
        self._peers = services.peers
        self._loop = services.loop
        self._clock = services.clock
        self._is_up = news.is_up
        self._boot = 0
        """Tells the beats of this process from those of one before it; 64 bits."""
        if self._rest.seconds:
            self._boot = rng.getrandbits(64)
            news.on_up, news.on_down = self.peer_up, self.peer_down
        self._next = guarded(self._beat, on_fatal)
        self._timer: asyncio.TimerHandle | None = None
        self._looked_at = 0.0
        self._asks: set[NodeId] = set()
        """Who is asked for a list with the next beat."""

    def start(self) -> None:
        """Nothing is sent where no group ever rests."""
        if self._rest.seconds:
            self._looked_at = self._clock.monotonic()
            self._next()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _beat(self) -> None:
        self._timer = self._loop.call_later(BEAT_SECONDS, self._next)
        now, rest = self._clock.monotonic(), self._rest
        late, self._looked_at = now - self._looked_at - BEAT_SECONDS, now
        for peer, pulse in rest.pulses.items():
            if late > BEAT_SECONDS:
                pulse.forgive(late, now)
            if pulse.falls_silent(now):
                rest.peer_lost(peer)
            if self._is_up(peer) and self._peers.names(REST, peer):
                led = rest.led[peer]
                beat = Beat(self._boot, len(led), led.digest, peer in self._asks)
                self._peers.send(peer, CATALOG_GROUP, beat)
        self._asks.clear()

    def received(self, sender: NodeId, group_id: GroupId, message: RestMessage) -> None:
        """Another node's beat, the list that it was asked for, or what one of its replicas says."""
        match message:
            case RestMark():
                self._rest.marked(sender, group_id, message)
            case Beat():
                self._heard(sender, message)
            case RestList():
                self._listed(sender, message)
            case _:
                assert_never(message)

    def _listed(self, sender: NodeId, message: RestList) -> None:
        if sender not in self._rest.following:
            return
        for group_id in self._rest.listed(sender, message.groups):
            # it does not rest here: its leader is to know
            wake = RestMark(Term(0), RestKind.WAKE, LogIndex(0), 0)
            self._peers.send(sender, group_id, wake)

    def _heard(self, sender: NodeId, beat: Beat) -> None:
        rest = self._rest
        pulse, pact = rest.pulses.get(sender), rest.following.get(sender)
        if pulse is None or pact is None or not rest.seconds:
            return
        match pulse.heard(beat, len(pact), pact.digest, self._clock.monotonic()):
            case Heard.NEW_LIFE:
                rest.peer_lost(sender)
                rest.peer_back(sender)
            case Heard.DIFFERS:
                self._asks.add(sender)
            case Heard.SAME:
                pass
        if beat.lists:
            self._peers.send(sender, CATALOG_GROUP, RestList(rest.led[sender].listed()))

    def peer_up(self, peer: NodeId) -> None:
        """It can be sent to again."""
        self._rest.peer_back(peer)

    def peer_down(self, peer: NodeId) -> None:
        """It cannot be sent to any more."""
        pulse = self._rest.pulses.get(peer)
        if pulse is not None and pulse.link_down():
            self._rest.peer_lost(peer)
