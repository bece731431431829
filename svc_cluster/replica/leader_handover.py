"""Giving leadership away on purpose: before a planned end, and when the own disk is slow."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.base.tasks import Tasks
from svc_cluster.raft.group import RaftGroup, Role
from svc_cluster.replica.catalog import CatalogReplica
from svc_cluster.replica.group_watch import NodeFigures
from svc_cluster.replica.host import Host, Replica
from svc_cluster.replica.lead_places import Places, peers_of, places, successor
from svc_cluster.replica.node_questions import is_drained

ASK_SECONDS: Final = 0.02
"""How often the successor is asked until it has taken over."""

LOOK_SECONDS: Final = 0.05
QUIET_LOOK_SECONDS: Final = 0.5
"""From one look to the next where the catalog alone is awake."""

SLOW_SECONDS: Final = 2.0
"""A leader whose disk is behind a quorum of the others for this long gives its place away."""

FORGIVENESS: Final = 3.0
"""A look at which the disk is not behind takes back so many looks at which it was."""

TRY_SECONDS: Final = 1.0
"""Pause of writes for one attempt, but for the wait for an answer. The next comes only after
`AGAIN_SECONDS`."""

AGAIN_SECONDS: Final = 30.0

AVOID_SECONDS: Final = 600.0
"""A node whose disk was too slow or too full for a lead is given none for so long."""

TOLD_SECONDS: Final = 0.3
"""How long who gave the catalog's lead away waits until the successor has the gateways' leases."""

SETTLE_SECONDS: Final = 0.25
"""How long a leader of the catalog goes on for revocations that wait for gateways, which renew
their leases each 0.2 s. One that waits for a gateway that is gone is broken off."""

HANDOVERS_MAX: Final = 64
"""Groups whose lead is being given away at one time by a node that stops."""

NEAR_ENTRIES: Final = 64
"""A member that lacks no more of the log is as good a successor as one that has it all."""

BACKLOG_ENTRIES_MAX: Final = 256
"""A node that follows a group and has more of its entries to apply is no place for leads: a new
leader serves nobody before it has applied them, and behind a start that may take seconds. Under
full load it is a few dozen. A quarter of what makes a node unready (`node_readiness`)."""

ATTEMPT_SECONDS: Final = 0.5
"""Pause of a group's writes for one attempt of a node that stops, but for the wait for an
answer."""

ANSWER_SECONDS: Final = 0.2
"""An attempt that is over goes on for so long behind its last question: what is appended while the
successor stands for election makes it lose, and leaves the group without a leader."""

STALL_SECONDS: Final = 2.0
"""A node that stops tries on while a lead has left it in the last so many seconds. How long a lead
takes depends on the machine and on what else it does: their number alone says nothing."""

LIMIT_SECONDS: Final = 10.0
"""A node that stops begins no attempt after so long, whatever it still leads."""


class Patience:
    """Until when a node that stops tries to give its leads away. Times are monotonic seconds."""

    def __init__(self, now: float, led: int) -> None:
        self._fewest = led
        self._limit = now + LIMIT_SECONDS
        self._look_at = now + STALL_SECONDS

    def is_over(self, now: float, led: Callable[[], int]) -> bool:
        """`led` counts what the node leads now, and is called once in STALL_SECONDS. Only fewer
        than ever before are a step ahead: what others give back keeps nobody going."""
        if now >= self._limit:
            return True
        if now < self._look_at:
            return False
        count = led()
        if count >= self._fewest:
            self._limit = now  # for whoever asks next as well
            return True
        self._fewest = count
        self._look_at = now + STALL_SECONDS
        return False


def is_led(replica: Replica) -> bool:
    """Whether this node leads the group now, whoever else could."""
    return not replica.group.stopped and replica.group.engine.role is Role.LEADER


def leads(replica: Replica) -> bool:
    """Whether somebody else could lead the group in this node's place, which leads it now."""
    group = replica.group
    engine = group.engine
    return not group.stopped and engine.role is Role.LEADER and len(engine.members) > 1


async def hand_over(
    replica: Replica, figures: NodeFigures, to: NodeId, seconds: float = ATTEMPT_SECONDS
) -> None:
    """Does what `_hand_over` does, and counts what came of it. Raises TimeoutError."""
    if not leads(replica):
        return
    try:
        await _hand_over(replica, to, seconds)
    finally:
        if leads(replica):
            figures.hand_overs_failed += 1
        else:
            figures.hand_overs_done += 1


async def _hand_over(replica: Replica, to: NodeId, seconds: float) -> None:
    """Stop proposing and ask `to` to lead, until somebody else does. Raises TimeoutError when
    nobody has within `seconds`, and ANSWER_SECONDS behind the last question.

    Writes wait meanwhile. The follower is asked only when it has the whole log, and this node has
    it on its disk: the library refuses a transfer under load, as there is always an entry on its
    way.
    """
    engine, loop = replica.group.engine, asyncio.get_running_loop()
    until = loop.time() + seconds
    answered_by = until
    with replica.proposer.pause():
        if isinstance(replica, CatalogReplica):
            await _wait_for(replica, lambda: replica.revocations == 0, SETTLE_SECONDS)
        while leads(replica):
            now = loop.time()
            if now >= max(until, answered_by):
                raise TimeoutError
            if now < until and engine.match_index(to) == engine.commit_index == engine.last_index:
                replica.group.transfer_leadership(to)
                answered_by = now + ANSWER_SECONDS
            await asyncio.sleep(ASK_SECONDS)
        if isinstance(replica, CatalogReplica):
            # this process may be about to end; a successor of a release that does not ask for the
            # leases waits until they are over
            await _wait_for(replica, lambda: replica.leases.is_handed_on, TOLD_SECONDS)


async def _wait_for(catalog: CatalogReplica, is_so: Callable[[], bool], seconds: float) -> None:
    """Until the catalog's leases are so, or time is over."""
    try:
        async with asyncio.timeout(seconds):
            while not is_so():
                await catalog.lease_news.event.wait()
    except TimeoutError:
        pass


class Retirement:
    """A Retirement gives every leadership of a node away, for a planned end. It gives many at a
    time, each to the member that leads least of those that have answered. What cannot be given away
    is led on."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._log = host.services.log
        self._lock = asyncio.Lock()
        self._waiting: deque[Replica] = deque()
        self._tried: dict[GroupId, set[NodeId]] = {}
        self._led: Counter[NodeId] = Counter()
        """Groups by their leader, as far as it is known here, and to be soon."""
        self._places = Places(frozenset(), frozenset())
        """What the others said last. Who takes leads is asked first, and who goes is not asked."""

    async def run(self) -> int:
        """Returns how many groups are still led here. May be called again, also meanwhile."""
        async with self._lock:
            return await self._run()

    async def _run(self) -> int:
        clock = self._host.services.clock
        began = clock.monotonic()
        count = len(self._leading())
        patience = Patience(began, count)

        def is_over() -> bool:
            return patience.is_over(clock.monotonic(), lambda: len(self._leading()))

        while (leading := self._leading()) and not is_over() and await self._somebody_stays():
            await self._round(leading, is_over)
        left = len(self._leading())
        seconds = round(clock.monotonic() - began, 3)
        say = self._log.warning if left else self._log.info
        say("leaderships_handed_over", groups=count, left=left, seconds=seconds)
        return left

    async def _somebody_stays(self) -> bool:
        """Asked again each round: of nodes that are told to stop one by one, each is a place for
        leads until it is told. Who is away may come back."""
        peers_up = set(self._host.news.peers_up)
        self._places = await places(self._host.ask_any, peers_up)
        return not peers_up or not peers_up <= self._places.going

    def _leading(self) -> list[Replica]:
        return [replica for replica in self._host.replicas() if leads(replica)]

    async def _round(self, leading: list[Replica], is_over: Callable[[], bool]) -> None:
        """One attempt for each, as long as there is time."""
        self._led = Counter(
            leader
            for replica in self._host.replicas()
            if (leader := replica.group.engine.leader) is not None
        )
        self._waiting = deque(leading)
        async with asyncio.TaskGroup() as workers:
            for number in range(min(HANDOVERS_MAX, len(leading))):
                workers.create_task(self._work(is_over), name=f"hand over {number}")

    async def _work(self, is_over: Callable[[], bool]) -> None:
        while self._waiting and not is_over():
            await self._attempt(self._waiting.popleft())

    async def _attempt(self, replica: Replica) -> None:
        to = self._successor(replica)
        if to is not None:
            self._led[to] += 1
        try:
            if to is None:  # everybody else is away
                await asyncio.sleep(ASK_SECONDS)
            else:
                await hand_over(replica, self._host.services.figures, to)
        except TimeoutError:
            pass  # another one is asked in the next round

    def _successor(self, replica: Replica) -> NodeId | None:
        engine = replica.group.engine
        up = [one for one in peers_of(self._host, engine) if one not in self._places.going]
        if not up:
            return None
        tried = self._tried.setdefault(engine.group_id, set())
        if tried.issuperset(up):
            tried.clear()
        whole = [peer for peer in up if peer not in tried]
        # who lacks a few entries has them before it is asked: it is not the lesser successor
        last = engine.last_index
        best = min(
            whole,
            key=lambda p: (
                p not in self._places.taking,
                last - engine.match_index(p) > NEAR_ENTRIES,
                self._led[p],
                p,
            ),
        )
        tried.add(best)
        return best


def is_behind(engine: RaftGroup) -> bool:
    """Whether a quorum of the other replicas has on disk what this one has not yet."""
    quorum = len(engine.members) // 2 + 1
    durable_index = engine.durable_index
    ahead = sum(
        engine.match_index(peer) > durable_index
        for peer in engine.members
        if peer != engine.node_id
    )
    return ahead >= quorum


@dataclass(slots=True)
class _Score:
    looked_at: float
    behind_seconds: float = 0.0
    not_before: float = 0.0


class SlowDiskWatch:
    """Hands leaderships over whose log is held up by this node's disk alone.

    An append waits for the leader's own disk even when a quorum of others has it already. Disks
    that are all as slow are not behind one another, and nothing happens.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._services = host.services
        self._scores: dict[GroupId, _Score] = {}
        self._tasks = Tasks()
        self._handle: asyncio.TimerHandle | None = None
        self._pause = LOOK_SECONDS
        """Before the next look."""
        self._stopped = False
        self.handed_over = 0
        self._gave_away_at = float("-inf")
        host.avoids_leads = self.avoids_leads

    def avoids_leads(self) -> bool:
        """Whether the node is no place for leads: it goes, gave some away for its disk, had no room
        on it, or has much to apply. Whoever has no room gives every lead away at once."""
        host, now = self._host, self._services.clock.monotonic()
        disk_failed_at = max(self._gave_away_at, host.full_at)
        return (
            host.draining
            or is_drained(host)
            or now - disk_failed_at < AVOID_SECONDS
            or not self._services.wal.has_space()
            or self._has_much_to_apply()
        )

    def _has_much_to_apply(self) -> bool:
        # who rests has nothing to apply, and a parked replica will not before an upgrade
        return any(
            one.group.backlog_entries > BACKLOG_ENTRIES_MAX
            for one in self._services.rest.awake()
            if not one.group.is_held and one.group.engine.role is not Role.LEADER
        )

    def start(self) -> None:
        self._handle = self._services.loop.call_later(LOOK_SECONDS, self._host.guarded(self._look))

    async def stop(self) -> None:
        self._stopped = True
        if self._handle is not None:
            self._handle.cancel()
        await self._tasks.cancel_all()

    def _look(self) -> None:
        # who rests is not behind
        self._host.walks.start(self._services.rest.awake(), self._look_at, self._looked)

    def _look_at(self, replica: Replica) -> None:
        if self._stopped:
            return  # a walk of many turns goes on until the host stops
        if replica.group.is_serving:
            self._judge(replica, self._services.clock.monotonic())
        else:
            self._scores.pop(replica.group.group_id, None)

    def _looked(self) -> None:
        if len(self._scores) > len(self._host.basins) + 1:
            # more than there are groups, the catalog among them: some are gone
            for group_id in [one for one in self._scores if self._host.replica(one) is None]:
                del self._scores[group_id]
        if self._stopped:
            return
        self._pause = QUIET_LOOK_SECONDS if self._services.rest.is_quiet else LOOK_SECONDS
        self._handle = self._services.loop.call_later(self._pause, self._host.guarded(self._look))

    def _judge(self, replica: Replica, now: float) -> None:
        group = replica.group
        score = self._scores.setdefault(group.group_id, _Score(now))
        passed = now - score.looked_at
        score.looked_at = now
        if not is_behind(group.engine):
            score.behind_seconds = max(0.0, score.behind_seconds - FORGIVENESS * passed)
            return
        # A late look says nothing of the time before it: this process may have been stopped.
        score.behind_seconds += min(passed, 2 * self._pause)
        if score.behind_seconds >= SLOW_SECONDS and now >= score.not_before:
            score.not_before = now + AGAIN_SECONDS
            score.behind_seconds = 0.0
            self._gave_away_at = now
            self._services.log_of(group.group_id).warning("slow_disk_handover")
            self._tasks.spawn(self._give_away(replica), "slow-disk-handover")

    async def _give_away(self, replica: Replica) -> None:
        try:
            async with asyncio.timeout(TRY_SECONDS):
                to = await successor(self._host, replica.group.engine)
            if to is not None:
                await hand_over(replica, self._services.figures, to, TRY_SECONDS)
                self.handed_over += 1
        except TimeoutError:
            pass  # nobody else can lead now; this node goes on
