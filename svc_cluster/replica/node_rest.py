"""Which groups of a node rest, which are awake, and what wakes those that rest.

A group at rest is visited when something of it is due, and seldom otherwise; nothing else of the
node goes over it. It wakes by itself when it is asked or told something. Here it is woken because
of another node: the one that leads it is lost, has begun a new life, or knows nothing of the
agreement; or so many are lost that its leader here has no quorum. Many wake in turn, as do those
with which a node begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from functools import partial
from heapq import heappop, heappush
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

from svc_cluster.base.clock import Clock
from svc_cluster.base.guarded import guarded
from svc_cluster.base.ids import GroupId, NodeId, Term
from svc_cluster.link.features import REST
from svc_cluster.raft.messages import REST_LIST_MAX, RestMark
from svc_cluster.replica.pulse import Pulse
from svc_cluster.replica.rest_pact import RestPact

if TYPE_CHECKING:
    from svc_cluster.replica.basin import BasinReplica
    from svc_cluster.replica.catalog import CatalogReplica
    from svc_cluster.replica.group_rest import GroupRest
    from svc_cluster.replica.group_services import PeerSender

    Replica: TypeAlias = CatalogReplica | BasinReplica

VISIT_SECONDS: Final = 30.0
"""A group at rest is visited at least so often."""

QUIET_TICK_SECONDS: Final = 0.105
"""From one tick to the next where the catalog alone is awake. Each finds that the 0.1 s between two
heartbeats are over, so that these come no less often than with more ticks."""

WAKE_SECONDS: Final = 0.05
WOKEN_PER_TURN: Final = 10
"""Groups that wake in turn, because of a node or behind a start, do so with so many at a time, so
often: 200 a second."""


class NodeRest:
    """The one of a node."""

    def __init__(
        self,
        node_id: NodeId,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        peers: PeerSender,
    ) -> None:
        self.seconds = 0.0
        """For how long a group has nothing to do before it rests; 0: it never does."""
        self.send = peers.send
        self._node_id = node_id
        self._loop = loop
        self._clock = clock
        self._peers = peers
        self._is_up: Callable[[NodeId], bool] = lambda _: False
        self._next_turn = self._turn
        self._replicas: dict[GroupId, Replica] = {}
        self._asleep: dict[GroupId, GroupRest] = {}
        self._awake: list[Replica] | None = None
        self._kinds: list[tuple[Replica, int]] | None = None
        """See `awake` and `one_led_of_each_kind`; None: to be found anew."""
        self._log_bytes: dict[GroupId, int] = {}
        """What the logs of those at rest hold in memory, as it was when they were last visited:
        nothing comes to them, and what a visit frees shows at the next one."""
        self._resting_bytes = 0
        """The sum of it."""
        self.pulses: dict[NodeId, Pulse] = {}
        self.led: dict[NodeId, RestPact] = {}
        """Groups at rest that are led here, by who consented."""
        self.following: dict[NodeId, RestPact] = {}
        """Groups at rest that are not led here, by who leads."""
        self._due: list[tuple[float, GroupId, GroupRest]] = []
        self._waking: dict[GroupId, None] = {}
        """Those at rest that are to wake, each once, in the order in which they were named."""
        self._own: dict[GroupId, None] = {}
        """Those that were opened asleep and for which it is for this node to stand: they wake when
        nobody is to wake because of a node, and a quorum of their members can be asked."""
        self._others: dict[GroupId, None] = {}
        """The same of those for which others are to stand: they wake when none of the own is to."""
        self._timer: asyncio.TimerHandle | None = None
        self.woken = 0
        """Groups that woke since the start, for whatever reason."""

    def begin(
        self,
        seconds: float,
        others: Iterable[NodeId],
        is_up: Callable[[NodeId], bool],
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        """`seconds`: see the attribute. `is_up`: whether a node can be sent to."""
        self.seconds = seconds
        self._is_up = is_up
        self._next_turn = guarded(self._turn, on_fatal)
        for peer in others:
            self.meet(peer)

    def meet(self, peer: NodeId) -> None:
        """There is this other node as well."""
        self.pulses[peer] = Pulse(self._clock.monotonic())
        self.led[peer], self.following[peer] = RestPact(), RestPact()

    def stop(self) -> None:
        self.seconds = 0.0
        for waiting in (self._waking, self._own, self._others):
            waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- which there are

    def opened(self, replica: Replica) -> None:
        """A replica is there, awake, perhaps in another one's place."""
        self._replicas[replica.group.group_id] = replica
        self._awake = self._kinds = None

    def closed(self, group_id: GroupId) -> None:
        """It is not visited any more."""
        if self._replicas.pop(group_id, None) is not None:
            self._awake = self._kinds = None

    @property
    def asleep(self) -> int:
        """How many groups rest."""
        return len(self._asleep)

    def awake(self) -> list[Replica]:
        """Those that are visited all the time, in the order in which they came."""
        if self._awake is None:
            replicas = self._replicas.items()
            self._awake = [one for group_id, one in replicas if group_id not in self._asleep]
        return self._awake

    def log_bytes(self) -> int:
        """Return what the logs of all groups hold in memory, without going over those at rest."""
        awake = sum(replica.group.engine.log_bytes for replica in self.awake())
        return awake + self._resting_bytes

    def _count_log(self, group_id: GroupId, log_bytes: int) -> None:
        self._resting_bytes += log_bytes - self._log_bytes.get(group_id, 0)
        self._log_bytes[group_id] = log_bytes

    @property
    def is_quiet(self) -> bool:
        """Whether groups may rest here and all do but one at most, which is the catalog."""
        return bool(self.seconds) and len(self.awake()) <= 1

    def tick_seconds(self, usual: float) -> float:
        """Return how long the next tick of those that are awake may wait."""
        return max(usual, QUIET_TICK_SECONDS) if self.is_quiet else usual

    def due(self, now: float) -> list[Replica]:
        """Groups at rest that are to be visited now; they are due again later."""
        found = []
        while self._due and self._due[0][0] <= now:
            _, group_id, rest = heappop(self._due)
            replica = self._replicas.get(group_id)
            if self._asleep.get(group_id) is not rest or replica is None:
                continue  # of an earlier rest
            found.append(replica)
        for replica in found:
            self._put_due(replica.group.rest, now)
            self._count_log(replica.group.group_id, replica.group.engine.log_bytes)
        return found

    def _put_due(self, rest: GroupRest, now: float) -> None:
        wait = min(VISIT_SECONDS, max(WAKE_SECONDS, rest.due_in()))
        heappush(self._due, (now + wait, rest.group_id, rest))

    def one_led_of_each_kind(self) -> Iterable[tuple[Replica, int]]:
        """Return one group at rest that is led here, for each set of members, and their number."""
        if self._kinds is None:
            self._kinds = self._found_kinds()
        return self._kinds

    def _found_kinds(self) -> list[tuple[Replica, int]]:
        kinds: dict[tuple[NodeId, ...], tuple[Replica, int]] = {}
        for group_id, rest in self._asleep.items():
            replica = self._replicas.get(group_id)
            if rest.leader == self._node_id and replica is not None:
                members = replica.group.engine.members
                first, count = kinds.get(members, (replica, 0))
                kinds[members] = first, count + 1
        return list(kinds.values())

    # -- what a group asks and says

    def lives(self, peer: NodeId) -> bool:
        """Whether the node was heard of late; this node is there."""
        if peer == self._node_id:
            return True
        pulse = self.pulses.get(peer)
        return pulse is not None and pulse.lives(self._clock.monotonic())

    def partners(self, members: Collection[NodeId]) -> tuple[NodeId, ...] | None:
        """Return the other members whose consent is wanted, which are with this node a quorum. It
        is None while the group cannot rest: of one of them it is not known whether it lives."""
        now = self._clock.monotonic()
        found: list[NodeId] = []
        for peer in members:
            pulse = self.pulses.get(peer)
            if peer == self._node_id:
                continue
            if pulse is None:
                return None
            if pulse.lives(now) and self._is_up(peer) and self._peers.names(REST, peer):
                if len(self.led[peer]) >= REST_LIST_MAX:
                    return None
                found.append(peer)
            elif self._is_up(peer) or not pulse.is_excused(now):
                return None
        return tuple(found) if self._is_quorum(len(found), members) else None

    def _is_quorum(self, others: int, members: Collection[NodeId]) -> bool:
        return others + 1 >= len(members) // 2 + 1

    def slept(self, rest: GroupRest) -> None:
        self._asleep[rest.group_id] = rest
        self._awake = self._kinds = None
        replica = self._replicas.get(rest.group_id)
        self._count_log(rest.group_id, 0 if replica is None else replica.group.engine.log_bytes)
        for pact in self._pacts(rest):
            pact.add(rest.group_id, rest.term)
        self._put_due(rest, self._clock.monotonic())

    def woke(self, rest: GroupRest) -> None:
        self.woken += 1
        del self._asleep[rest.group_id]
        self._resting_bytes -= self._log_bytes.pop(rest.group_id)
        self._waking.pop(rest.group_id, None)
        self._own.pop(rest.group_id, None)
        self._others.pop(rest.group_id, None)
        self._awake = self._kinds = None
        for pact in self._pacts(rest):
            pact.remove(rest.group_id)

    def _pacts(self, rest: GroupRest) -> list[RestPact]:
        if rest.leader == self._node_id:
            return [self.led[peer] for peer in rest.partners]
        return [] if rest.leader is None else [self.following[rest.leader]]

    def marked(self, sender: NodeId, group_id: GroupId, mark: RestMark) -> None:
        """A replica on another node says something to that of its group here."""
        replica = self._replicas.get(group_id)
        if replica is not None:
            replica.group.attempt(partial(replica.group.rest.received, sender, mark))

    # -- what wakes them

    def peer_lost(self, peer: NodeId) -> None:
        """A node is gone. What it led wakes, and what is led here and has no quorum without it."""
        self._wake_soon(self.following[peer])
        alone = [
            group_id
            for group_id in self.led[peer]
            if not self._has_quorum(self._asleep[group_id], self._replicas[group_id])
        ]
        self._wake_soon(alone)

    def _has_quorum(self, rest: GroupRest, replica: Replica) -> bool:
        living = sum(not self.pulses[peer].is_lost for peer in rest.partners)
        return self._is_quorum(living, replica.group.engine.members)

    def peer_back(self, peer: NodeId) -> None:
        """A node can be sent to again, or has begun a new life. It may lack what it had, or be
        damaged, and cannot say so to a leader at rest."""
        members = (
            group_id
            for group_id, rest in self._asleep.items()
            if rest.leader == self._node_id
            and peer in self._replicas[group_id].group.engine.members
        )
        self._wake_soon(sorted(members))

    def listed(self, leader: NodeId, groups: Iterable[tuple[GroupId, Term]]) -> list[GroupId]:
        """A node tells which groups rest, as it leads them, with consent from here. Those that it
        does not know of wake; returned are those that it alone knows of."""
        theirs = dict(groups)
        pact = self.following[leader]
        self._wake_soon(pact.without(theirs))
        mine = dict(pact.listed())
        return [group_id for group_id, term in theirs.items() if mine.get(group_id) != term]

    def wake_all(self) -> None:
        """All of them, in turn."""
        self._wake_soon(sorted(self._asleep))

    def wakes_in_turn(self, rest: GroupRest) -> None:
        """It was opened asleep, and is to wake when those before it have. First come those for
        which it is for this node to stand: by that most of the others wake on their own."""
        (self._own if self._stands(rest) else self._others)[rest.group_id] = None
        self._begin_turns()

    def _wake_soon(self, groups: Iterable[GroupId]) -> None:
        self._waking.update(dict.fromkeys(groups))
        self._begin_turns()

    def _begin_turns(self) -> None:
        if (self._waking or self._own or self._others) and self._timer is None:
            self._timer = self._loop.call_later(0, self._next_turn)

    def _turn(self) -> None:
        self._timer = None
        left = WOKEN_PER_TURN
        for waiting in (self._waking, self._own, self._others):
            for rest in [self._asleep[one] for one in islice(waiting, left)]:
                if rest.leader is not None or self._can_ask_a_quorum(rest):
                    rest.wake(stands=self._stands(rest))
                    left -= 1  # who has to wait takes nobody's place
                else:
                    waiting[rest.group_id] = waiting.pop(rest.group_id)
        if self._waking or self._own or self._others:
            self._timer = self._loop.call_later(WAKE_SECONDS, self._next_turn)

    def _can_ask_a_quorum(self, rest: GroupRest) -> bool:
        """Whether an election could be won. Those that wait for one would all begin it at once."""
        members = self._replicas[rest.group_id].group.engine.members
        others = sum(self._is_up(one) for one in members if one != self._node_id)
        return self._is_quorum(others, members)

    def _stands(self, rest: GroupRest) -> bool:
        """Whether it is for this node to stand first, of those that live. Where nobody has led
        since the group was opened, of all: who will be there is not known then."""
        members = self._replicas[rest.group_id].group.engine.members
        is_new = rest.leader is None
        able = [one for one in members if is_new or (one != rest.leader and self.lives(one))]
        return bool(able) and able[rest.group_id % len(able)] == self._node_id
