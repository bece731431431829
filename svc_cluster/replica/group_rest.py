"""One group's rest: when nothing has happened for a while, its replicas agree to fall silent.

A replica that has nothing to do when it is opened begins at rest, without anybody's consent. Else
the leader asks every live member whether it has the same log, applied to its end. A member that has
agrees, and stops its election clock; when all have agreed the leader stops its heartbeats. Nothing
is promised by that and nothing is decided: elections, commits and reads go as they always do, each
begins by waking the group. So rest can cost time, never truth. Whose node is there is told by beats
(beats.py), and what is to wake with a node by `NodeRest`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from svc_cluster.base.clock import Clock
from svc_cluster.base.ids import GroupId, LogIndex, NodeId, Term
from svc_cluster.raft.group import Event, Message, PeerDown, PeerRoom, PeerUp, Role, Tick
from svc_cluster.raft.messages import (
    AppendRequest,
    AppendResponse,
    PeerMessage,
    RestKind,
    RestMark,
)
from svc_cluster.replica.tick_pace import TickPace

if TYPE_CHECKING:
    from svc_cluster.replica.group_replica import AnyGroup

PARTING_SECONDS: Final = 1.0
"""For so long behind its consent a follower does not wake by heartbeats, nor its leader by the
answers: the last of them are still under way."""


UNUSED_SECONDS: Final = 0.25
"""A group in which there is nothing that anybody could use rests so soon, if it rests at all: many
that are made one after another would otherwise all be awake for as long as one that is used. It is
less than what lies between two looks, so that the next one suffices."""


BRIEF_SECONDS: Final = 1.0
"""A group that was used for a moment rests after so long; one that was used for longer, when it was
quiet for as long as that, or for the node's time. So what is asked for now and then, or only once
behind a long rest, is not awake for many times as long as it is used."""


ANSWER_SECONDS: Final = 0.5
"""For so long the others may take to agree, before the group was quiet for nothing."""


class RestingNode(Protocol):
    """What a group needs of its node."""

    @property
    def seconds(self) -> float:
        """For how long a group has nothing to do before it rests, at most; 0: it never does."""
        ...

    def partners(self, members: Collection[NodeId]) -> tuple[NodeId, ...] | None:
        """Return the other members whose consent is wanted, which are with this node a quorum. It
        is None while the group cannot rest: of one of them it is not known whether it lives."""
        ...

    def lives(self, peer: NodeId) -> bool:
        """Whether the node was heard of late."""
        ...

    def slept(self, rest: GroupRest) -> None: ...

    def wakes_in_turn(self, rest: GroupRest) -> None:
        """It was opened asleep, and is to wake when those before it have."""
        ...

    def woke(self, rest: GroupRest) -> None: ...

    def send(self, peer: NodeId, group_id: GroupId, message: PeerMessage) -> None: ...


@dataclass(slots=True)
class _Round:
    """A question that was asked, and who has not answered."""

    term: Term
    log_index: LogIndex
    partners: tuple[NodeId, ...]
    waits_for: set[NodeId]
    asked_at: float


class GroupRest:
    """One replica's part. It is awake at first."""

    def __init__(self, group: AnyGroup, node: RestingNode, clock: Clock) -> None:
        self._group = group
        self._node = node
        self._clock = clock
        self.group_id = group.group_id
        self.asleep = False
        self.leader: NodeId | None = None
        """Who led, and in which term, when it fell asleep. Nobody: it was opened asleep."""
        self.term = Term(0)
        self.partners: tuple[NodeId, ...] = ()
        """Who has agreed, where this replica leads."""
        self._is_busy: Callable[[], bool] = lambda: True
        self.due_in: Callable[[], float] = lambda: float("inf")
        self._is_unused: Callable[[], bool] = lambda: False
        self.uses = 0
        """Differs whenever something was asked of the group, or it woke."""
        self.pace = TickPace(group)
        self._seen: tuple[object, ...] = ()
        self._quiet_since = 0.0
        self._used_since: float | None = None
        """When it was first seen at work since it was opened, or woke."""
        self._compares = False
        """The others were asked for their states; when these are equal, the group is to rest."""
        self._round: _Round | None = None
        self._number = 0
        self._parted_at = 0.0

    def heed(
        self,
        is_busy: Callable[[], bool],
        due_in: Callable[[], float],
        is_unused: Callable[[], bool] = lambda: False,
    ) -> None:
        """Without this it never rests. `is_busy`: whether something waits here that the group
        itself does not know of. `due_in`: in how many seconds something is to be done without being
        asked. `is_unused`: whether there is nothing in it that anybody could use."""
        self._is_busy, self.due_in, self._is_unused = is_busy, due_in, is_unused

    # -- falling asleep

    def look(self, now: float) -> None:
        """To be called now and then while it is awake: begin to rest, as leader, when nothing has
        happened for long enough."""
        engine = self._group.engine
        seen = self._what_shows_use()
        asked = self._round
        if asked is not None and now - asked.asked_at < ANSWER_SECONDS and seen == self._seen:
            return  # the others may still answer
        self._compares = False
        if seen != self._seen or asked is not None:
            self._seen, self._quiet_since, self._round = seen, now, None
            if self._used_since is None:
                self._used_since = now
            return
        seconds = self._wanted_quiet()
        if not seconds or now - self._quiet_since < seconds or engine.role is not Role.LEADER:
            return
        partners = self._node.partners(engine.members)
        if partners is None or not self._may_lead_to_rest(partners):
            return
        if not self._group.comparison.are_equal(partners):
            # whoever rests is compared by nobody but the scrub, which begins with this
            self._compares = True
            self._group.comparison.begin()
            return
        self._ask(partners)

    def compared(self) -> None:
        """Another replica has told the digest of its state. Where all have that are to agree, they
        are asked now: with the next look the group would be awake for half as long again."""
        if not self._compares or self._seen != self._what_shows_use():
            return
        partners = self._node.partners(self._group.engine.members)
        if partners is None or not self._group.comparison.are_equal(partners):
            return
        self._compares = False
        if self._may_lead_to_rest(partners):
            self._ask(partners)

    def _what_shows_use(self) -> tuple[object, ...]:
        engine = self._group.engine
        return (engine.role, engine.term, engine.last_index, self.uses)

    def _ask(self, partners: tuple[NodeId, ...]) -> None:
        engine = self._group.engine
        self._number += 1
        now = self._clock.monotonic()
        self._round = _Round(engine.term, engine.last_index, partners, set(partners), now)
        for peer in partners:
            self._say(peer, RestKind.ASK, self._number)
        self._settle_round()

    def begin(self) -> None:
        """The replica was just opened and sleeps, if it has nothing to do. It wakes when its turn
        or a message of another comes, or when somebody asks for it. A thousand that were opened
        awake would all elect at once."""
        if self._node.seconds and not self.asleep and self._may_rest():
            self._sleep(None, ())
            self._node.wakes_in_turn(self)

    def _wanted_quiet(self) -> float:
        """For how long it has to have had nothing to do; 0: it does not rest."""
        used_for = 0.0 if self._used_since is None else self._quiet_since - self._used_since
        wanted = UNUSED_SECONDS if self._is_unused() else max(used_for, BRIEF_SECONDS)
        return min(wanted, self._node.seconds)

    def _may_rest(self) -> bool:
        self._group.drain_now()
        return self._group.is_settled and not self._is_busy()

    def _may_lead_to_rest(self, partners: Collection[NodeId]) -> bool:
        engine = self._group.engine
        return (
            self._may_rest()
            and self._group.is_serving
            and all(engine.match_index(peer) == engine.last_index for peer in partners)
        )

    def received(self, sender: NodeId, mark: RestMark) -> None:
        """Another replica asks, agrees, or will have no more of it."""
        if self._group.stopped:
            return
        if mark.kind is RestKind.WAKE:
            self.wake(by=sender)
            self.used()
        elif mark.sender_term != self._group.engine.term:
            return
        elif mark.kind is RestKind.ASK:
            self._asked(sender, mark)
        elif self._round is not None and mark.number == self._number:
            self._round.waits_for.discard(sender)
            self._settle_round()

    def _asked(self, sender: NodeId, mark: RestMark) -> None:
        engine = self._group.engine
        follows = engine.role is Role.FOLLOWER and engine.leader == sender
        if not (self._node.seconds and follows and self._node.lives(sender)):
            return
        if not self._may_rest() or engine.last_index != mark.log_index:
            return
        self._sleep(sender, ())
        self._say(sender, RestKind.AGREE, mark.number)

    def _settle_round(self) -> None:
        """Everybody has agreed, and nothing has happened since. Nor have other groups taken the
        last places that there are with one of them."""
        asked, engine = self._round, self._group.engine
        if asked is None or asked.waits_for:
            return
        self._round = None
        same = (asked.term, asked.log_index) == (engine.term, engine.last_index)
        unused = self._seen == self._what_shows_use()
        free = self._node.partners(engine.members) == asked.partners
        if same and unused and free and self._may_lead_to_rest(asked.partners):
            self._sleep(engine.node_id, asked.partners)

    def _sleep(self, leader: NodeId | None, partners: tuple[NodeId, ...]) -> None:
        if self.asleep:
            self._node.woke(self)
        self.asleep = True
        self._used_since = None
        self.leader, self.term = leader, self._group.engine.term
        self.partners = partners
        self._parted_at = self._clock.monotonic()
        self._node.slept(self)

    # -- waking

    def used(self) -> None:
        """Something is asked of the group: it is awake from now on, for a while."""
        self.uses += 1
        self._round = None
        self.wake()

    def hears(self, event: Event) -> bool:
        """An event comes, which wakes the group if it is one to wake by. Returns whether it is only
        to be taken note of."""
        if not self.asleep:
            return False
        if isinstance(event, Message) and not self._is_parting(event):
            self.wake(by=event.sender)
        return isinstance(event, PeerUp | PeerDown | PeerRoom)

    def _is_parting(self, event: Message) -> bool:
        """Whether it was under way when the group fell silent."""
        body = event.body
        if self._clock.monotonic() - self._parted_at >= PARTING_SECONDS:
            return False
        if body.sender_term != self.term:
            return False
        last = self._group.engine.last_index
        if isinstance(body, AppendRequest):
            ends = body.previous_index == body.commit_index == last
            return event.sender == self.leader and ends and not body.entries
        if isinstance(body, AppendResponse):
            return body.success and body.next_index == last + 1 and not body.recovery
        return False

    def wake(self, *, by: NodeId | None = None, stands: bool = False) -> None:
        """Go on as if it had never rested. `by`: who is awake already. `stands`: a follower whose
        leader's node is lost, or that knows of none, stands for election at once."""
        if not self.asleep:
            return
        self.asleep = False
        self._node.woke(self)
        self.uses += 1
        group, leader = self._group, self.leader
        lives = leader is not None and self._node.lives(leader)
        if leader is not None and lives and leader not in (by, group.engine.node_id):
            self._say(leader, RestKind.WAKE)
        group.have(partial(self._go_on, leader_lives=lives))
        if stands and not lives:
            group.have(group.engine.campaign)

    def _go_on(self, *, leader_lives: bool) -> None:
        engine, now = self._group.engine, self._clock.monotonic()
        engine.standstill.is_over(now, leader_lives=leader_lives)
        engine.step(Tick(now))

    def missed(self) -> None:
        """Somebody asks a replica that does not serve: of a group whose leader is lost, or not
        known, it stands for election."""
        if self.asleep and (self.leader is None or not self._node.lives(self.leader)):
            self.wake(stands=True)

    def end(self, *, tells: bool) -> None:
        """The replica has stopped. `tells`: the others may not count on it any more."""
        self._round = None
        if not self.asleep:
            return
        self.asleep = False
        self._node.woke(self)
        for peer in self._group.engine.members:
            if tells and peer in (*self.partners, self.leader) and peer != self._own:
                self._say(peer, RestKind.WAKE)

    @property
    def _own(self) -> NodeId:
        return self._group.engine.node_id

    def _say(self, peer: NodeId, kind: RestKind, number: int = 0) -> None:
        engine = self._group.engine
        mark = RestMark(engine.term, kind, engine.last_index, number)
        self._node.send(peer, self.group_id, mark)
