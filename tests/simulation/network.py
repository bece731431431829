"""The wires between simulated processes.

`send` puts bytes on a connection: first in, first out, as fast as its link carries them, until a
reset loses what is in flight. Endpoints are found by address. A cut swallows what arrives during
it; both ends notice only after a while, as with silent partitions of real networks.
"""

from __future__ import annotations

import contextvars
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from svc_cluster.base.limits import MESSAGE_BYTES_MAX
from svc_cluster.link.calls import Verb
from svc_cluster.link.handshake import Identity
from tests.simulation.loop import Incarnation, SimLoop, current_incarnation

OnMessage = Callable[[str, bytes], None]
OnLink = Callable[[str, bool], None]
OnCall = Callable[[Verb, int, bool], None]


@dataclass(slots=True)
class NetworkProfile:
    """Times in seconds, shares of messages. The adversarial shares are 0 unless drawn."""

    delay_min_s: float = 0.0002
    delay_max_s: float = 0.005
    drop_share: float = 0.0
    duplicate_share: float = 0.0
    late_share: float = 0.0
    late_max_s: float = 2.5
    detect_min_s: float = 0.5
    detect_max_s: float = 4.0
    """How long a silent cut takes to be noticed."""
    reconnect_min_s: float = 0.01
    reconnect_max_s: float = 0.3
    latency_max_s: float = 0.0
    """Each way of each link has one of its own, up to so much, on top of every delay."""
    bytes_per_s: tuple[float, float] | None = None
    """Each way of each link carries so much, drawn between these; None: anything at once."""


ADVERSARIAL = NetworkProfile(drop_share=0.02, duplicate_share=0.02, late_share=0.01)


@dataclass(slots=True)
class NetworkStats:
    sent: int = 0
    delivered: int = 0
    lost: int = 0
    duplicated: int = 0
    resets: int = 0
    too_long: int = 0
    """Messages that no receiver takes; each has torn its connection."""


@dataclass(slots=True, eq=False)
class _Endpoint:
    address: str
    owner: Incarnation | None
    context: contextvars.Context
    on_message: OnMessage | None = None
    on_link: OnLink | None = None

    def enter(self, function: Callable[..., Any], *args: Any) -> Any:
        return self.context.copy().run(function, *args)


@dataclass(slots=True, eq=False)
class _Link:
    """One direction from `sender` to `to`, with the connection that it belongs to."""

    sender: str
    to: str
    up: bool = False
    kept_alive: bool = False
    """`connect` was called: reconnect for ever and report to `on_link`."""
    attempting: bool = False
    epoch: int = 0
    last_arrival: float = 0.0
    cut: bool = False
    clogged_until: float = 0.0
    held: list[bytes] = field(default_factory=list)
    latency_s: float = 0.0
    bytes_per_s: float | None = None
    free_at: float = 0.0
    """When the last byte that was sent has left."""


class SimNetwork:
    """All links of one cluster."""

    def __init__(
        self, loop: SimLoop, rng: random.Random, profile: NetworkProfile | None = None
    ) -> None:
        self.profile = profile or NetworkProfile()
        self.stats = NetworkStats()
        self._loop = loop
        self._rng = rng
        self._context = contextvars.copy_context()
        assert current_incarnation() is None, "the network belongs to no process"
        self._endpoints: dict[str, _Endpoint] = {}
        self._links: dict[tuple[str, str], _Link] = {}
        self._numbers = count(1)
        self.on_call: OnCall | None = None
        """Told of each chunk of a snapshot, and of each report of a formation, when it arrives at a
        node (what it is, the node, False), and of its answer when it leaves (True)."""
        self.on_heard: Callable[[int, Identity], None] | None = None
        """Told of each node that says something to another one as a peer, and is listened to."""

    # What adapters use

    def register(self, address: str, on_message: OnMessage, on_link: OnLink | None = None) -> None:
        """Messages to `address` go to `on_message(sender, data)`, in the context of the caller.

        `on_link(peer, up)` tells of the connections that `connect` keeps up from here."""
        endpoint = self._endpoint(address)
        endpoint.on_message = on_message
        endpoint.on_link = on_link

    def connect(self, sender: str, to: str) -> None:
        """Keep a connection up from now on: `on_link(to, True)` once it is, and on each change."""
        link = self._link(sender, to)
        link.kept_alive = True
        if not link.up:
            self._attempt_later(link)
        else:
            self._loop.call_soon(self._tell_link, link, link.epoch, context=self._context)

    def send(self, sender: str, to: str, data: bytes, *, datagram: bool = False) -> float:
        """When the last byte has left the sender. Lost without a word when there is no connection.
        A datagram is also subject to the profile's drops, duplicates and delays; without it a
        connection keeps its promises."""
        owner, now = current_incarnation(), self._loop.time()
        if owner is not None and not owner.alive:
            return now  # it died in the middle of this step
        self.stats.sent += 1
        link = self._link(sender, to)
        if len(data) > MESSAGE_BYTES_MAX:
            # the other side's receiver refuses it, and with it the whole connection
            self.stats.too_long += 1
            self.stats.lost += 1
            self._reset(link)
            self._reset(self._link(to, sender))
            return now
        if not link.up and (link.kept_alive or not self._can_open(link) or not self._open(link)):
            self.stats.lost += 1
            return now
        profile, rng, left_at = self.profile, self._rng, now
        if link.bytes_per_s is not None:
            left_at = link.free_at = max(link.free_at, now) + len(data) / link.bytes_per_s
        delay = rng.uniform(profile.delay_min_s, profile.delay_max_s)
        arrival = left_at + delay + link.latency_s
        if datagram and self._adversity(link, arrival, data):
            return left_at
        link.last_arrival = arrival = max(arrival, link.last_arrival)
        self._arrive_at(arrival, link, data)
        return left_at

    def _adversity(self, link: _Link, arrival: float, data: bytes) -> bool:
        """Whether a datagram has met its fate here."""
        profile, rng = self.profile, self._rng
        if profile.drop_share and rng.random() < profile.drop_share:
            self.stats.lost += 1
            return True
        if profile.duplicate_share and rng.random() < profile.duplicate_share:
            self.stats.duplicated += 1
            self._arrive_at(arrival + rng.uniform(0, profile.late_max_s), link, data)
        if profile.late_share and rng.random() < profile.late_share:
            self._arrive_at(arrival + rng.uniform(0, profile.late_max_s), link, data)
            return True
        return False

    def number(self) -> int:
        """A number that no two connections of a run share."""
        return next(self._numbers)

    def is_up(self, sender: str, to: str) -> bool:
        return self._link(sender, to).up

    def called(self, verb: Verb, node: int, *, answered: bool) -> None:
        """Tell `on_call`, as the world and not as the process in whose step this is."""
        if self.on_call is not None:
            self._context.copy().run(self.on_call, verb, node, answered)

    def called_soon(self, verb: Verb, node: int) -> None:
        """The same, of an answer that has left, behind the step in which it did."""
        if self.on_call is not None:
            self._loop.call_soon(self.on_call, verb, node, True, context=self._context)

    # Faults

    def crash(self, address: str) -> None:
        """The process at `address` is gone: its connections reset, its calls are lost."""
        self._endpoints.pop(address, None)
        for link in self._links.values():
            if address in (link.sender, link.to):
                if link.sender == address:
                    link.kept_alive = False
                if self._rng.random() < 0.5 or link.to == address:
                    self._reset(link)

    def reset(self, a: str, b: str) -> None:
        """Break the connections between two addresses; they may come back at once."""
        for link in (self._link(a, b), self._link(b, a)):
            self._reset(link)

    def cut(self, sender: str, to: str, *, both: bool = True) -> None:
        """Silently swallow everything from `sender` to `to` (and back, with `both`)."""
        for link in self._pair(sender, to, both):
            if not link.cut:
                link.cut = True
                self._later(self._detection(), self._notice_cut, link, link.epoch)

    def heal(self, sender: str, to: str, *, both: bool = True) -> None:
        for link in self._pair(sender, to, both):
            link.cut = False
            self._release(link)

    def heal_all(self) -> None:
        for link in self._links.values():
            link.cut = False
            link.clogged_until = 0.0
            self._release(link)

    def partition(self, *sides: Iterable[str]) -> None:
        """Cut every link between different sides."""
        groups = [list(side) for side in sides]
        for number, side in enumerate(groups):
            for other in groups[number + 1 :]:
                for a in side:
                    for b in other:
                        self.cut(a, b)

    def clog(self, sender: str, to: str, seconds: float) -> None:
        """Hold everything from `sender` to `to` back, in order, for a while."""
        link = self._link(sender, to)
        link.clogged_until = max(link.clogged_until, self._loop.time() + seconds)

    def limit(
        self, sender: str, to: str, *, bytes_per_s: float | None = None, latency_s: float = 0.0
    ) -> None:
        """From now on the way from `sender` to `to` carries no more (None: anything at once), and
        takes so much longer."""
        link = self._link(sender, to)
        link.bytes_per_s, link.latency_s = bytes_per_s, latency_s

    def lift_limits(self) -> None:
        """Every link carries anything at once, and so will those that are made later."""
        self.profile = replace(self.profile, latency_max_s=0.0, bytes_per_s=None)
        for link in self._links.values():
            link.bytes_per_s, link.latency_s = None, 0.0

    def is_cut(self, sender: str, to: str) -> bool:
        link = self._links.get((sender, to))
        return link is not None and link.cut

    # Connections

    def _endpoint(self, address: str) -> _Endpoint:
        owner = current_incarnation()
        endpoint = self._endpoints.get(address)
        if endpoint is None or endpoint.owner is not owner:
            context = self._context if owner is None else owner.context
            endpoint = self._endpoints[address] = _Endpoint(address, owner, context)
        return endpoint

    def _link(self, sender: str, to: str) -> _Link:
        link = self._links.get((sender, to))
        if link is None:
            link = self._links[sender, to] = _Link(sender, to)
            profile, rng = self.profile, self._rng
            if profile.latency_max_s:
                link.latency_s = rng.uniform(0, profile.latency_max_s)
            if profile.bytes_per_s is not None:
                least, most = profile.bytes_per_s
                link.bytes_per_s = least * (most / least) ** rng.random()
        return link

    def _pair(self, sender: str, to: str, both: bool) -> list[_Link]:
        links = [self._link(sender, to)]
        return [*links, self._link(to, sender)] if both else links

    def _alive(self, address: str) -> bool:
        endpoint = self._endpoints.get(address)
        return endpoint is not None and (endpoint.owner is None or endpoint.owner.alive)

    def _can_open(self, link: _Link) -> bool:
        return (
            not link.attempting
            and not link.cut
            and not self.is_cut(link.to, link.sender)
            and self._alive(link.sender)
            and self._alive(link.to)
        )

    def _open(self, link: _Link) -> bool:
        link.up = True
        link.epoch += 1
        link.last_arrival = link.free_at = 0.0
        link.held.clear()
        if link.kept_alive:
            self._loop.call_soon(self._tell_link, link, link.epoch, context=self._context)
        return True

    def _attempt_later(self, link: _Link) -> None:
        if not link.attempting:
            link.attempting = True
            profile = self.profile
            pause = self._rng.uniform(profile.reconnect_min_s, profile.reconnect_max_s)
            self._later(pause, self._attempt, link)

    def _attempt(self, link: _Link) -> None:
        link.attempting = False
        if link.up or not link.kept_alive or not self._alive(link.sender):
            return
        if self._can_open(link):
            self._open(link)
        else:
            self._attempt_later(link)

    def _reset(self, link: _Link) -> None:
        if not link.up:
            return
        link.up = False
        link.epoch += 1
        link.held.clear()
        self.stats.resets += 1
        self._later(self._delay(), self._noticed, link, link.epoch)

    def _noticed(self, link: _Link, epoch: int) -> None:
        """The sender learns of a reset, and only then connects again: no change is missed."""
        self._tell_link(link, epoch)
        if link.kept_alive and not link.up:
            self._attempt_later(link)

    def _notice_cut(self, link: _Link, epoch: int) -> None:
        """Both directions are one connection to whoever waits for its acknowledgements."""
        if link.cut and link.epoch == epoch:
            self._reset(link)
            self._reset(self._link(link.to, link.sender))

    def _tell_link(self, link: _Link, epoch: int) -> None:
        endpoint = self._endpoints.get(link.sender)
        if endpoint is None or endpoint.on_link is None or link.epoch != epoch:
            return
        if endpoint.owner is None or endpoint.owner.alive:
            endpoint.enter(endpoint.on_link, link.to, link.up)

    # Messages

    def _delay(self) -> float:
        return self._rng.uniform(self.profile.delay_min_s, self.profile.delay_max_s)

    def _detection(self) -> float:
        return self._rng.uniform(self.profile.detect_min_s, self.profile.detect_max_s)

    def _later(self, delay: float, function: Callable[..., object], *args: Any) -> None:
        self._loop.call_at(self._loop.time() + delay, function, *args, context=self._context)

    def _arrive_at(self, when: float, link: _Link, data: bytes) -> None:
        self._loop.call_at(when, self._arrive, link, link.epoch, data, context=self._context)

    def _arrive(self, link: _Link, epoch: int, data: bytes) -> None:
        if link.epoch != epoch:
            self.stats.lost += 1
            return
        if link.cut:
            link.held.append(data)
            return
        if link.clogged_until > self._loop.time():
            link.last_arrival = max(link.last_arrival, link.clogged_until)
            self._arrive_at(link.clogged_until, link, data)
            return
        endpoint = self._endpoints.get(link.to)
        if endpoint is None or endpoint.on_message is None or not self._alive(link.to):
            self.stats.lost += 1
            return
        self.stats.delivered += 1
        endpoint.enter(endpoint.on_message, link.sender, data)

    def _release(self, link: _Link) -> None:
        """What a cut held back is sent again, in order: nobody had noticed yet."""
        held, link.held = link.held, []
        for data in held:
            link.last_arrival = max(link.last_arrival, self._loop.time() + self._delay())
            self._arrive_at(link.last_arrival, link, data)
