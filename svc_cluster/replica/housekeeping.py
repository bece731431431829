"""What a node does now and then: flush, free log space, give back what deleted records held."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from svc_cluster.base.ids import Generation, GroupId, LogIndex, Term
from svc_cluster.raft.group import Role, Trim
from svc_cluster.replica.basin import BasinReplica
from svc_cluster.replica.host import Host, Replica
from svc_cluster.replica.leadership_news import Cause, QuorumNews, cause_of
from svc_cluster.replica.memory_budget import log_allowance
from svc_cluster.replica.retention_clock import ClockWatch
from svc_cluster.replica.seamed import flushable

INTERVAL_SECONDS: Final = 0.5
RECLAIM_FLUSHES: Final = 2.0
"""Intervals of regular flushes between two looks at space to give back: of deleted ranges, which
must have been flushed, and of log segments, whose use goes up and down with the flushes."""

COMPARE_SECONDS: Final = 20.0
"""How often leaders compare their state with that of the other replicas."""

STUCK_SECONDS: Final = 30.0
"""A recovering replica that finds no leader for this long needs a person."""

STAND_ASIDE_SECONDS: Final = 10.0
"""How often at most a node whose disk is full asks others to lead in its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HousekeepingSettings:
    """How much is kept and how often it is looked at."""

    flush_seconds: float = 5.0
    """The store is flushed this often while it changes; a restart replays what came after."""
    log_retention_seconds: float = 60.0
    log_retention_bytes: int = 64 * 1024 * 1024
    """How much of a group's log is kept in memory for slow replicas; behind that a snapshot
    serves."""


FLUSH_SLACK_BYTES: Final = 8 * 1024 * 1024
"""Room that a flush takes at most beside what it writes: the store's manifest and its own logs."""


@dataclass(slots=True, eq=False)
class _Look:
    """One look at all groups, and what it has found so far."""

    now: float
    is_full: bool
    """The disk has no room for appends."""
    compares: bool = False
    """Leaders compare their state with that of the others."""
    alone: dict[GroupId, float] = field(default_factory=dict)
    leaderless: dict[GroupId, Cause] = field(default_factory=dict)
    """Groups whose leader is not known here, and why they may have no quorum."""
    distances: list[int | None] = field(default_factory=list)
    """How far the own clock is from those of each group that is led here."""


class Housekeeper:
    """One for each node; everything it does may be interrupted and done again."""

    def __init__(self, host: Host, settings: HousekeepingSettings) -> None:
        self._host = host
        self._services = host.services
        self._settings = settings
        self._handle: asyncio.TimerHandle | None = None
        self._look = host.guarded(self._run)
        self._flushing = False
        self._stopped = False
        self._last_flush = self._services.clock.monotonic() - self._flush_offset()
        self._last_reclaim = self._last_flush
        self._last_comparison = self._last_flush
        self._alone_since: dict[GroupId, float] = {}
        """Recovering replicas without a leader; infinite once that was said."""
        self._flushed: dict[Generation, LogIndex] = {}
        """What of each replica is in the flushed state. An installed snapshot may be behind what
        was flushed before it: what is known of one generation says nothing of the next."""
        self._marks: dict[Generation, deque[tuple[float, LogIndex]]] = {}
        self._leaving: dict[GroupId, tuple[Term, int]] = {}
        """Groups whose lead was offered to others: the term of the offer, and how many there were
        in it."""
        self._stood_aside: dict[GroupId, float] = {}
        self.flushes = 0
        self._log_bytes_max = settings.log_retention_bytes
        self._postponed = False
        """The disk has no room for a flush."""
        self.clock_watch = ClockWatch(self._services.clock, self._services.log)
        self.quorum_news = QuorumNews(self._services.log, self._services.names)

    def _flush_offset(self) -> float:
        """Return the seconds by which the first flush comes earlier, another share of the interval
        on each node. Nodes that start together then flush at different moments, and the disks under
        the replicas of a group are not busy at the same time."""
        nodes, own = self._host.settings.nodes, self._services.node_id
        place = nodes.index(own) if own in nodes else own % len(nodes)
        return self._settings.flush_seconds * place / len(nodes)

    def start(self) -> None:
        self._handle = self._services.loop.call_later(INTERVAL_SECONDS, self._look)

    def stop(self) -> None:
        self._stopped = True
        if self._handle is not None:
            self._handle.cancel()

    def _run(self) -> None:
        now = self._services.clock.monotonic()
        if (
            now - self._last_flush >= self._settings.flush_seconds or self._log_can_shrink()
        ) and self._has_room_to_flush():
            self.flush()
        self._log_bytes_max = self._allowance()
        self._services.wal.release()
        self._services.wal.mark_idle()
        if now - self._last_reclaim >= RECLAIM_FLUSHES * self._settings.flush_seconds:
            self._last_reclaim = now
            if not self._postponed:
                self._services.store.reclaim()
            self._services.wal.shrink()
            self._forget_destroyed()
        look = _Look(now, is_full=not self._host.look_at_space())
        if now - self._last_comparison >= COMPARE_SECONDS:
            self._last_comparison = now
            look.compares = True
        rest = self._services.rest
        if look.is_full:
            rest.wake_all()  # others are to lead what is led here
        self._host.walks.start(
            [*rest.awake(), *rest.due(now)],
            partial(self._look_at, look),
            partial(self._looked, look),
        )

    def _look_at(self, look: _Look, replica: Replica) -> None:
        """Everything that is due for one group."""
        if self._stopped:
            return  # a walk of many turns goes on until the host stops
        group = replica.group
        if look.is_full:
            self._stand_aside(replica, look.now)
        group.attempt(partial(self._trim_log, replica, look.now))
        if isinstance(replica, BasinReplica):
            group.attempt(replica.reconcile)
            group.attempt(replica.keeper.work)
        if group.is_serving:
            group.attempt(replica.idempotency_keeper.work)
        if look.compares and not group.rest.asleep and group.comparison.begin():
            self._services.log_of(group.group_id).error("state_in_doubt")
        self._look_for_stuck(replica, look)
        cause = cause_of(group.engine, self._host.is_peer_up)
        if cause is not None and not group.stopped:
            look.leaderless[group.group_id] = cause
        if group.is_serving and not group.rest.asleep:
            look.distances.append(replica.retention_clock.away_ms())
        if not (group.rest.asleep or look.is_full or self._host.draining):
            group.attempt(partial(group.rest.look, look.now))

    def _looked(self, look: _Look) -> None:
        if self._stopped:
            return
        self._alone_since = look.alone
        for replica, count in self._services.rest.one_led_of_each_kind():
            look.distances += [replica.retention_clock.away_ms()] * count
        self.quorum_news.looked(look.now, look.leaderless)
        self._services.leadership.look()
        self._host.receiver.sweep(look.now)
        self.clock_watch.look(look.distances)
        self._host.held_groups.bound_parked()
        self._handle = self._services.loop.call_later(INTERVAL_SECONDS, self._look)

    # -- damage

    def _look_for_stuck(self, replica: Replica, look: _Look) -> None:
        """Say once, in a line for a person, that a damaged replica finds nobody to repair it."""
        engine = replica.group.engine
        if not engine.recovery or engine.leader is not None:
            return
        since = self._alone_since.get(engine.group_id, look.now)
        if look.now - since >= STUCK_SECONDS:
            since = float("inf")
            self._services.log_of(engine.group_id).error(
                "replica_cannot_recover",
                reason="no majority of undamaged replicas: bring the other nodes back, or "
                "restore one of them from a copy of its data directory",
            )
        look.alone[engine.group_id] = since

    def _stand_aside(self, replica: Replica, now: float) -> None:
        """No room here: another node may have some, so it is to lead. Asked until it does, but not
        soon again, because the others may be as full."""
        engine = replica.group.engine
        group_id = engine.group_id
        asked_in, asked = self._leaving.get(group_id, (None, 0))
        if asked_in is not None and (not replica.group.is_serving or engine.term > asked_in):
            # also where the other was as full and has given the lead back meanwhile
            del self._leaving[group_id]
            asked = 0
            self._stood_aside[group_id] = now
        if not replica.group.is_serving:
            return
        if now - self._stood_aside.get(group_id, float("-inf")) < STAND_ASIDE_SECONDS:
            return
        others = [peer for peer in engine.members if peer != engine.node_id]
        if others:
            self._leaving[group_id] = engine.term, asked + 1
            others.sort(key=lambda peer: (-engine.match_index(peer), peer))
            # in turn: one that drains, or is held, does not take over however often it is asked
            replica.group.transfer_leadership(others[asked % len(others)])

    # -- store and log

    def _has_room_to_flush(self) -> bool:
        """A flush that finds the disk full ends the process, which then cannot start. While there
        is no room, reads go on from memory and the log keeps what was acknowledged."""
        wal = self._services.wal
        needed = self._services.store.unflushed_bytes + min(FLUSH_SLACK_BYTES, wal.reserve_bytes)
        free = wal.free_bytes
        if (free < needed) != self._postponed:
            self._postponed = not self._postponed
            if self._postponed:
                self._services.log.warning("flush_postponed", free_bytes=free, needed_bytes=needed)
            else:
                self._services.log.info("flush_resumed", free_bytes=free)
        return not self._postponed

    def _allowance(self) -> int:
        """Return how much each group may keep of its log in memory. It is less than the settings
        say where all of them together would keep more than their share of the node's memory."""
        budget = self._host.memory
        budget.look()
        if self._services.rest.log_bytes() <= budget.log_bytes_max:
            return self._settings.log_retention_bytes
        sizes = [replica.group.engine.log_bytes for replica in self._host.replicas()]
        allowance = log_allowance(sizes, budget.log_bytes_max)
        if allowance is None:
            return self._settings.log_retention_bytes
        if self._has_room_to_flush():
            self.flush()  # only what is flushed can be forgotten
        return min(allowance, self._settings.log_retention_bytes)

    def _log_can_shrink(self) -> bool:
        """Tells whether a flush would let the log, which is too long, forget something. What a
        group that applies no further has in it stays until the process is started again."""
        wal = self._services.wal
        host = self._host
        return wal.needs_release(self._applied) and not host.held_groups.is_log_held(host.catalog)

    def _applied(self, group_id: GroupId) -> LogIndex:
        replica = self._host.replica(group_id)
        return LogIndex(0) if replica is None else replica.group.applied_index

    def flush(self) -> None:
        """Make the applied state durable, then let the WAL forget what led to it."""
        if self._flushing:
            return
        # the vector is taken before the flush begins: only this much is surely in it
        vector = {
            replica.group.group_id: (
                replica.group.generation,
                flushable(replica.group.engine, replica.group.applied_index),
            )
            for replica in self._host.replicas()
        }
        self._flushing = True
        self._last_flush = self._services.clock.monotonic()

        def done() -> None:
            self._flushing = False
            self.flushes += 1
            for group_id, (generation, applied_index) in vector.items():
                replica = self._host.replica(group_id)
                if replica is None or replica.group.generation != generation:
                    continue
                self._flushed[generation] = applied_index
                self._services.wal.set_flushed(group_id, applied_index)
            self._services.wal.release()

        self._services.store.flush(self._host.guarded(done))

    def _forget_destroyed(self) -> None:
        for of_groups in (self._stood_aside, self._leaving):
            for group_id in [one for one in of_groups if self._host.replica(one) is None]:
                del of_groups[group_id]
        here = {replica.group.generation for replica in self._host.replicas()}
        for of_generations in (self._flushed, self._marks):
            for generation in [one for one in of_generations if one not in here]:
                del of_generations[generation]

    def _trim_log(self, replica: Replica, now: float) -> None:
        """Shorten the in-memory log, but never beyond the flushed state. It is not shortened while
        a replica still needs it or is being sent a snapshot, unless that costs more than the
        bounds."""
        group = replica.group
        if group.engine.recovery:
            return  # its log may not even reach what is applied
        marks = self._marks.setdefault(group.generation, deque())
        if not marks or marks[-1][1] < group.applied_index:
            marks.append((now, group.applied_index))
        by_age = LogIndex(0)
        while marks and now - marks[0][0] > self._settings.log_retention_seconds:
            by_age = marks.popleft()[1]
        engine = group.engine
        wanted = max(by_age, engine.index_keeping_bytes(self._log_bytes_max))
        if engine.role is Role.LEADER:
            others = [peer for peer in engine.members if peer != engine.node_id]
            matched = min(map(engine.match_index, others), default=engine.last_index)
            wanted = max(wanted, matched)
            wanted = self._host.sender.holds.limit(group.group_id, engine, LogIndex(wanted), now)
        else:
            self._host.sender.holds.release_all(group.group_id)
        trim = min(LogIndex(wanted), self._flushed.get(group.generation, LogIndex(0)))
        if trim > engine.base_index:
            group.step(Trim(trim))
