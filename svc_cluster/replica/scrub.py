"""This finds out whether the replicas of a group hold the same. In the background each leader has
all of them read what they have stored, chunk by chunk, as of one applied index, and compares the
digests.

What a quorum holds is right; whoever holds something else is damaged, the leader included, and is
repaired as any damaged replica is. Design: docs/adr/0031. Deciding parts: scrub_round.py,
scrub_votes.py; what is read: model/content.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from svc_cluster.base.ids import GroupId, NodeId
from svc_cluster.model.content import CONTENT_VERSION, Chunk
from svc_cluster.raft.messages import (
    ScrubAnswer,
    ScrubMessage,
    ScrubOutcome,
    ScrubQuestion,
)
from svc_cluster.replica.group_replica import AnyGroup
from svc_cluster.replica.host import Host
from svc_cluster.replica.prefixed import PrefixedReader
from svc_cluster.replica.scrub_reader import ScrubReader, content_of
from svc_cluster.replica.scrub_round import GroupScrub, Settled, comparable_peers

MIB: Final = 1024 * 1024

CHUNK_SECONDS: Final = 0.5
CHUNK_BYTES_MIN: Final = 64 * 1024
CHUNK_BYTES_MAX: Final = 4 * MIB
"""A chunk is what is read in so much time, within these bounds."""

ANSWER_SECONDS: Final = 30.0
"""How long an answer is waited for; who let it pass is not waited for in the rest of the round."""

RETRY_SECONDS: Final = 0.5
"""Until a chunk is asked for again that somebody could not answer at its index."""

WORK_SECONDS: Final = 0.5
"""Between two looks at what is due while nothing is under way."""

IDLE_SECONDS_MAX: Final = 5.0
IDLE_SHARE: Final = 0.01
"""A look at all groups that are led here found none to be due: the next is behind this share of the
time between two rounds, and `IDLE_SECONDS_MAX` at most."""

ALONE_SECONDS: Final = 5.0
"""Until a group is looked at again in which too few replicas can be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubSettings:
    """How much is read, and how often."""

    mib_per_second: float = 8.0
    """What a node reads at most for it, all groups together; 0: it takes no part."""
    interval_seconds: float = 3600.0
    """From the beginning of a round to that of the next, of one group."""

    @property
    def version(self) -> int:
        """Said to the others; 0: no part is taken."""
        return CONTENT_VERSION if self.mib_per_second else 0

    @property
    def chunk_bytes(self) -> int:
        wanted = round(self.mib_per_second * MIB * CHUNK_SECONDS)
        return min(max(wanted, CHUNK_BYTES_MIN), CHUNK_BYTES_MAX)


@dataclass(frozen=True, slots=True)
class _AwaitedChunk:
    """The chunk that this node, as leader of `group`, waits for."""

    group: AnyGroup
    waited_for: frozenset[NodeId]
    deadline: float


class Scrubber:
    """One for each node: asks for the groups that it leads, one chunk at a time, and answers."""

    def __init__(self, host: Host, settings: ScrubSettings) -> None:
        self._host = host
        self._services = host.services
        self._settings = settings
        self._begun_at = self._services.clock.monotonic()
        self._scrubs: dict[GroupId, GroupScrub] = {}
        self._asking: _AwaitedChunk | None = None
        self._served: dict[GroupId, int] = {}
        """When each group had its last turn, counted in turns."""
        self._turns = 0
        self._idle_until = float("-inf")
        self._not_before: dict[GroupId, float] = {}
        self._silent: dict[GroupId, set[NodeId]] = {}
        """Who let an answer be waited for, in this round."""
        self.rounds_complete = 0
        self.rounds_partial = 0
        self.differences = 0
        """Damaged replicas that were found by groups led here."""
        self._timer: asyncio.TimerHandle | None = None
        self._look = host.guarded(self._run)
        self._reader: ScrubReader | None = None
        if settings.mib_per_second:
            self._reader = ScrubReader(
                self._services.loop,
                self._services.clock,
                self._services.log,
                host.guarded,
                settings.mib_per_second * MIB,
            )
            host.on_scrub = self.received
        host.on_copied = self._copied

    # -- for observers

    @property
    def read_bytes(self) -> int:
        return 0 if self._reader is None else self._reader.read_bytes

    @property
    def in_doubt(self) -> int:
        """Groups led here whose replicas differ while nobody knows which of them is right."""
        return sum(self._scrub(group).is_in_doubt for group in self._led())

    @property
    def age_seconds(self) -> float:
        """Return how long ago the last complete round of a group led here was over, where that is
        longest. It is 0 where nothing is led here, or no part is taken."""
        if self._reader is None:
            return 0.0
        now = self._services.clock.monotonic()
        ended = (self._scrub(group).completed_at for group in self._led())
        return max((now - (self._begun_at if at is None else at) for at in ended), default=0.0)

    def _led(self) -> list[AnyGroup]:
        return [one.group for one in self._host.replicas() if one.group.is_serving]

    def _scrub(self, group: AnyGroup) -> GroupScrub:
        known = self._scrubs.get(group.group_id)
        if known is None:
            known = GroupScrub(self._services.node_id, group.machine.known.encoding)
            self._scrubs[group.group_id] = known
        return known

    # -- as leader

    def start(self) -> None:
        if self._reader is not None:
            self._timer = self._services.loop.call_later(WORK_SECONDS, self._look)

    def stop(self) -> None:
        """Read no more, and close what was being read."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._reader is not None:
            self._reader.stop()

    def _run(self) -> None:
        self._timer = self._services.loop.call_later(WORK_SECONDS, self._look)
        self._work()

    def _work(self) -> None:
        now = self._services.clock.monotonic()
        asking = self._asking
        if asking is not None:
            self._look_after(asking, now)
        if now < self._idle_until:
            return
        if self._asking is None and not self._host.draining:
            self._next(now)
        for group_id in [one for one in self._scrubs if self._host.replica(one) is None]:
            del self._scrubs[group_id]
            for known in (self._served, self._not_before, self._silent):
                known.pop(group_id, None)

    def _look_after(self, asking: _AwaitedChunk, now: float) -> None:
        group = asking.group
        scrub = self._scrub(group)
        asked = scrub.asked
        lost = asked is None or not group.is_serving or group.engine.term != asked.sender_term
        if lost or self._group(group.group_id) is not group:
            self._drop(asking, now)
        elif now >= asking.deadline:
            silent = self._silent.setdefault(group.group_id, set())
            silent.update(scrub.silent(asking.waited_for))
            if scrub.has_own:
                self._settle(asking, now)
            else:
                self._drop(asking, now)

    def _group(self, group_id: GroupId) -> AnyGroup | None:
        replica = self._host.replica(group_id)
        return None if replica is None else replica.group

    def _drop(self, asking: _AwaitedChunk, now: float) -> None:
        self._scrub(asking.group).drop()
        self._not_before[asking.group.group_id] = now + RETRY_SECONDS
        self._asking = None

    def _next(self, now: float) -> None:
        """Ask for a chunk of the group whose turn it is."""
        led = self._led()
        due = [
            group
            for group in led
            if now >= self._not_before.get(group.group_id, now) and self._scrub(group).is_due(now)
        ]
        if due:
            group = min(due, key=lambda one: self._served.get(one.group_id, 0))
            group.attempt(partial(self._ask, group, now))
        elif not any(self._scrub(group).is_running for group in led):
            pause = min(IDLE_SECONDS_MAX, IDLE_SHARE * self._settings.interval_seconds)
            self._idle_until = now + pause

    def _ask(self, group: AnyGroup, now: float) -> None:
        group_id, engine = group.group_id, group.engine
        self._turns += 1
        self._served[group_id] = self._turns
        peers = {
            peer
            for peer in comparable_peers(
                group.comparison.scrub_versions, group.machine.known.encoding
            )
            if peer in engine.members and self._host.is_peer_up(peer)
        }
        if 1 + len(peers) < len(engine.members) // 2 + 1:
            self._not_before[group_id] = now + ALONE_SECONDS
            return
        scrub, settings = self._scrub(group), self._settings
        if not scrub.is_running:
            self._silent.pop(group_id, None)
        # nobody has applied more: who is not there yet comes past it
        question = scrub.ask(
            engine.term,
            engine.commit_index,
            tuple(engine.members),
            settings.chunk_bytes,
            now,
            settings.interval_seconds,
        )
        waited_for = frozenset(peers - self._silent.get(group_id, set()))
        asking = self._asking = _AwaitedChunk(group, waited_for, now + ANSWER_SECONDS)
        for peer in sorted(peers):
            self._services.peers.send(peer, group_id, question)
        own = partial(self._read, group, question, partial(self._own, asking))
        group.when_at(question.log_index, own)

    def _own(self, asking: _AwaitedChunk, chunk: Chunk | None) -> None:
        if self._asking is not asking:
            return
        if chunk is None:
            self._drop(asking, self._services.clock.monotonic())
        elif self._scrub(asking.group).asked is not None:
            self._scrub(asking.group).own(chunk)
            self._settle_if_heard(asking)

    def _settle_if_heard(self, asking: _AwaitedChunk) -> None:
        scrub = self._scrub(asking.group)
        if scrub.has_own and not scrub.silent(asking.waited_for):
            self._settle(asking, self._services.clock.monotonic())

    def _settle(self, asking: _AwaitedChunk, now: float) -> None:
        group = asking.group
        scrub = self._scrub(group)
        if scrub.wants_again:
            self._drop(asking, now)
            return
        settled = scrub.settle(now, self._settings.interval_seconds)
        self._asking = None
        self._not_before.pop(group.group_id, None)
        if settled.ended_round:
            self.rounds_complete += settled.was_complete
            self.rounds_partial += not settled.was_complete
            self._say_ended(group, settled)
        group.attempt(partial(self._carry_out, group, settled))
        self._services.loop.call_soon(self._host.guarded(self._work))

    def _say_ended(self, group: AnyGroup, settled: Settled) -> None:
        log = self._services.log_of(group.group_id)
        tell = log.debug if settled.was_complete else log.info
        encoding = group.machine.known.encoding
        tell(
            "scrub_round_ended",
            round=self._scrub(group).round_number,
            complete=settled.was_complete,
            other_versions=sorted(
                set(group.comparison.scrub_versions)
                - comparable_peers(group.comparison.scrub_versions, encoding)
            ),
            silent=sorted(self._silent.get(group.group_id, ())),
        )

    def _carry_out(self, group: AnyGroup, settled: Settled) -> None:
        """Do to those who are damaged what has to be done."""
        judgement, own = settled.judgement, self._services.node_id
        self.differences += len(judgement.damaged)
        for node in sorted(judgement.damaged - {own}):
            assert settled.verdict is not None, "what is right is known"
            self._services.peers.send(node, group.group_id, settled.verdict)
        if own in judgement.damaged:
            group.on_diverged(self._reason(group, "the scrub: a quorum holds other content"))
        elif judgement.in_doubt and len(group.engine.members) == 1:
            group.on_diverged(self._reason(group, "the scrub: damage, and no other replica"))
        elif settled.newly_in_doubt:
            self._services.log_of(group.group_id).error(
                "scrub_in_doubt",
                compared=settled.compared,
                reason="replicas differ, or damage is seen in all, and no majority is known to be "
                "right: nothing is repaired",
                flaw=self._scrub(group).flaw,
                remedy="see docs/operations/scrub.md",
            )

    # -- as follower, and what others say

    def received(self, group: AnyGroup, sender: NodeId, message: ScrubMessage) -> None:
        """Take a message of a peer whose identity is already proven."""
        engine = group.engine
        if group.stopped or message.sender_term != engine.term:
            return
        if isinstance(message, ScrubAnswer):
            asking = self._asking
            if (
                asking is not None
                and asking.group is group
                and group.is_serving
                and self._scrub(group).answered(sender, message)
            ):
                self._settle_if_heard(asking)
        elif sender != engine.leader or sender == self._services.node_id:
            return
        elif isinstance(message, ScrubQuestion):
            self._question(group, sender, message)
        elif not group.is_given_up and self._scrub(group).convicts(message):
            group.on_diverged(self._reason(group, "the scrub: a quorum holds other content"))

    def _question(self, group: AnyGroup, sender: NodeId, question: ScrubQuestion) -> None:
        scrub = self._scrub(group)
        now = self._services.clock.monotonic()

        def refuse(outcome: ScrubOutcome) -> None:
            refusal = scrub.refusal(question, outcome)
            self._services.peers.send(sender, group.group_id, refusal)

        if not scrub.comparable(question):
            refuse(ScrubOutcome.OTHER_VERSION)
            return
        scrub.heard(question, now, self._settings.interval_seconds)
        if group.is_given_up or group.is_held:
            refuse(ScrubOutcome.UNFIT)
            return

        def answer(chunk: Chunk | None) -> None:
            if group.is_given_up or group.engine.term != question.sender_term:
                return
            if chunk is None:
                refuse(ScrubOutcome.BUSY)
                return
            told = scrub.answer(question, chunk)
            self._services.peers.send(sender, group.group_id, told)

        def look() -> None:
            if self._services.clock.monotonic() - now < ANSWER_SECONDS:
                self._read(group, question, answer)

        if not group.when_at(question.log_index, look):
            refuse(ScrubOutcome.MISSED)

    def _reason(self, group: AnyGroup, what: str) -> str:
        flaw = self._scrub(group).flaw
        return f"{what}; {flaw}" if flaw else what

    def _copied(self, group_id: GroupId, source: NodeId) -> None:
        group = self._group(group_id)
        if group is not None:
            self._scrub(group).copied(source)

    # -- reading

    def _read(
        self, group: AnyGroup, question: ScrubQuestion, done: Callable[[Chunk | None], None]
    ) -> None:
        """Read the chunk as the store is now; `done(None)` when that cannot be."""
        assert self._reader is not None, "who does not read is not asked"
        if self._reader.is_full:
            done(None)
            return
        view = self._services.store.snapshot(fills_cache=False)
        reader = PrefixedReader(view, group.generation)
        visits = content_of(group.group_id).visits(reader, question.after)
        self._reader.read(view, visits, question.cost_max, done)
