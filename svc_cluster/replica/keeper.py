"""This is the leader's care for the streams of one basin. Records expire, deleted streams are
purged, streams that have been empty for long enough are deleted.

Each stream is looked at when something of it is due, not in turn with all the others. The times
are in memory only: a new leader works them out from its state, a bounded number of streams at a
time. Whatever is proposed may be lost: the stream is then looked at again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Final

from svc_cluster.base.errors import ServiceError, UnavailableError
from svc_cluster.base.ids import StreamId, TimestampMs
from svc_cluster.base.tasks import start_task
from svc_cluster.replica.append import Appender, Decision
from svc_cluster.replica.group_replica import AnyGroup
from svc_cluster.replica.group_services import GroupServices
from svc_cluster.replica.retention_clock import RetentionClock
from svc_cluster.replica.store_reads import StoreReads
from svc_cluster.storage.state_store import ON_DISK
from svc_cluster.stream import retention
from svc_cluster.stream.apply import StreamEvent
from svc_cluster.stream.basin_state import BasinState
from svc_cluster.stream.batch_finder import HoleError
from svc_cluster.stream.emptiness import empty_since_due
from svc_cluster.stream.retention import ExpiryStep
from svc_cluster.stream.rows import StreamState
from svc_cluster.stream.sequencer import Sequencer
from svc_cluster.stream.timetable import Timetable

PURGE_SECONDS: Final = 5.0
"""How long a deleted stream is shown as such before its records go and its name is free."""

STREAMS_PER_TURN: Final = 64
"""Streams looked at before others have the event loop; each costs a read of the store."""

TURN_SECONDS: Final = 0.02
"""Between two turns while there is more to do."""

ASKED_MAX: Final = 32
"""Changes proposed from here that may be on their way at one time: clients go first."""

RETRY_SECONDS: Final = 1.0
"""When a stream is looked at again whose change was lost."""

CHANGE_DEADLINE_SECONDS: Final = 4.0


class StreamKeeper:
    """One for each basin on each node; idle unless the node leads the basin's group."""

    def __init__(
        self,
        group: AnyGroup,
        state: BasinState,
        sequencer: Sequencer,
        appender: Appender,
        services: GroupServices,
        clock: RetentionClock,
    ) -> None:
        self._group = group
        self._state = state
        self._sequencer = sequencer
        self._appender = appender
        self._services = services
        self._clock = clock
        self._timetable = Timetable()
        """By the wall clock, as far as the group trusts it."""
        self._soon = Timetable()
        """By the monotonic clock: news, what is tried again, and the wait before a purge."""
        self._reads = StoreReads(services.store, group.generation)
        self._looking: dict[StreamId, asyncio.Task[ExpiryStep | None]] = {}
        """Streams whose batches the disk is asked about."""
        self._asked: set[StreamId] = set()
        """Streams with a change of ours on its way."""
        self._life = 0
        """Counts leaderships: an answer to an earlier one is nobody's."""
        self._load_after: str | None = None
        """While the due times are being worked out: the last name looked at."""
        self._timer: asyncio.TimerHandle | None = None

    def leadership_changed(self) -> None:
        """Begin anew, if the group is led from here now."""
        self.stop()
        self._life += 1
        self._timetable.clear()
        self._soon.clear()
        self._asked.clear()
        self._load_after = "" if self._group.is_serving else None

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        looking, self._looking = self._looking, {}
        for task in looking.values():
            task.cancel()

    def applied(self, events: Iterable[StreamEvent]) -> None:
        """Note what an entry has done to streams. For the leader only."""
        for event in events:
            if event.purged:
                self._timetable.discard(event.stream_id)
                self._soon.discard(event.stream_id)
            elif event.trimmed or not event.batches:
                self._soon.put(event.stream_id, TimestampMs(0))
            else:
                expires_at_ms = event.batches[0].placement.expires_at_ms
                if expires_at_ms is not None:
                    self._timetable.put(event.stream_id, expires_at_ms)

    @property
    def is_busy(self) -> bool:
        """Something is under way, or is to go on at once."""
        waits = self._asked or self._looking or self._timer is not None
        return bool(waits) or self._load_after is not None

    def due_in(self) -> float:
        """Seconds until `work` may have something to do; infinite: nothing is foreseen."""
        due_ms, soon_ms = self._timetable.next_due_ms, self._soon.next_due_ms
        waits = []
        if due_ms is not None:
            waits.append((due_ms - self._services.clock.wall_ms()) / 1000)
        if soon_ms is not None:
            waits.append((soon_ms - self._monotonic_ms()) / 1000)
        return min(waits, default=float("inf"))

    def work(self) -> None:
        """Do what is due, in turns. To be called now and then."""
        if self._timer is None and self._turn():
            self._timer = self._services.loop.call_later(TURN_SECONDS, self._next_turn)

    def _next_turn(self) -> None:
        self._timer = None
        self._group.attempt(self.work)

    def _turn(self) -> bool:
        """Whether there is more to do at once."""
        if not self._group.is_serving or self._state.sealed:
            return False
        self._load()
        now_ms = self._clock.wall_ms()
        for _ in range(STREAMS_PER_TURN):
            if len(self._asked) + len(self._looking) >= ASKED_MAX:
                return True
            stream_id = self._soon.pop_due(self._monotonic_ms())
            if stream_id is None and now_ms is not None:
                stream_id = self._timetable.pop_due(now_ms)
            if stream_id is None:
                return self._load_after is not None
            if stream_id not in self._asked and stream_id not in self._looking:
                self._look(stream_id, now_ms)
        return True

    def _load(self) -> None:
        """Put some more of the streams that there were when the leadership began."""
        if self._load_after is None:
            return
        entries, more = self._state.list_streams("", self._load_after, STREAMS_PER_TURN)
        for entry in entries:
            self._soon.put(entry.stream_id, TimestampMs(0))
        self._load_after = entries[-1].name if more else None

    def _monotonic_ms(self) -> TimestampMs:
        return TimestampMs(round(self._services.clock.monotonic() * 1000))

    def _look(self, stream_id: StreamId, now_ms: TimestampMs | None) -> None:
        """Ask for what is due of the stream, or note when something will be. `now_ms` is None while
        nothing may expire; what its owner has deleted goes all the same."""
        stream = self._state.stream(stream_id)
        if stream is None:
            return
        if stream.deleted_at_ms is not None:
            self._purge(stream)
            return
        if now_ms is None:
            self._timetable.put(stream_id, TimestampMs(0))
            return
        try:
            expiry = self._reads.at_once(retention.look_up_expired(stream, now_ms))
        except HoleError:
            self._judge(stream, now_ms)
            return
        if expiry is ON_DISK:
            task = start_task(self._look_on_disk(stream, now_ms), f"look at stream {stream_id}")
            self._looking[stream_id] = task
            task.add_done_callback(partial(self._looked, stream, now_ms))
            return
        self._heed(stream, expiry, now_ms)

    async def _look_on_disk(self, stream: StreamState, now_ms: TimestampMs) -> ExpiryStep | None:
        """None when the disk is too busy. Raises HoleError when something is missing, or was
        removed meanwhile."""
        with suppress(UnavailableError):
            return await self._reads.run(retention.look_up_expired(stream, now_ms))
        return None

    def _looked(
        self, stream: StreamState, now_ms: TimestampMs, task: asyncio.Task[ExpiryStep | None]
    ) -> None:
        if task.cancelled() or self._looking.get(stream.stream_id) is not task:
            return  # of an earlier leadership
        del self._looking[stream.stream_id]
        self._group.attempt(lambda: self._heed_disk(stream, now_ms, task))

    def _heed_disk(
        self, before: StreamState, now_ms: TimestampMs, task: asyncio.Task[ExpiryStep | None]
    ) -> None:
        expiry, is_missed = None, False
        try:
            expiry = task.result()
        except HoleError:
            is_missed = True
        stream = self._state.stream(before.stream_id)
        if not self._group.is_serving or stream is None:
            return
        if stream.trim_point != before.trim_point or stream.deleted_at_ms is not None:
            self._soon.put(stream.stream_id, TimestampMs(0))
        elif expiry is None:
            retry_ms = self._monotonic_ms() + round(RETRY_SECONDS * 1000)
            self._soon.put(stream.stream_id, TimestampMs(retry_ms))
            if is_missed:
                self._judge(stream, now_ms)
        else:
            self._heed(stream, expiry, now_ms)

    def _judge(self, stream: StreamState, now_ms: TimestampMs) -> None:
        """Whether something is missing, said in one turn of the event loop, in which nothing of
        the stream can go by right."""
        try:
            retention.find_expired(self._state.reader, stream, now_ms)
        except HoleError as hole:
            self._group.on_diverged(str(hole))

    def _heed(self, stream: StreamState, expiry: ExpiryStep, now_ms: TimestampMs) -> None:
        """Ask for what is due, or note when something will be."""
        stream_id = stream.stream_id
        if expiry.command is not None:
            trim_point = expiry.command.trim_point
            self._ask_to_expire(
                stream_id, lambda at_ms: self._sequencer.expire(stream_id, trim_point, at_ms)
            )
            return
        if expiry.next_due_ms is not None:
            self._timetable.put(stream_id, expiry.next_due_ms)
        empty_due_ms = empty_since_due(stream)
        if empty_due_ms is None:
            return
        if empty_due_ms <= now_ms:
            self._ask_to_expire(stream_id, partial(self._sequencer.delete_empty, stream_id))
        else:
            self._timetable.put(stream_id, empty_due_ms)

    def _purge(self, stream: StreamState) -> None:
        assert stream.deleted_at_ms is not None, "only deleted streams are purged"
        passed_ms = self._services.clock.wall_ms() - stream.deleted_at_ms
        wait_ms = round(PURGE_SECONDS * 1000) - passed_ms
        # a deletion that lies ahead was stamped by a leader whose clock is
        if wait_ms <= 0 or passed_ms < 0:
            self._ask(stream.stream_id, partial(self._sequencer.purge, stream.stream_id))
        else:
            self._soon.put(stream.stream_id, TimestampMs(self._monotonic_ms() + wait_ms))

    def _ask_to_expire(self, stream_id: StreamId, sequence: Decision) -> None:
        """Does what `_ask` does; it comes to nothing if the clock is not trusted any more by
        then."""
        self._ask(
            stream_id, lambda at_ms: None if self._clock.wall_ms() is None else sequence(at_ms)
        )

    def _ask(self, stream_id: StreamId, sequence: Decision) -> None:
        life = self._life
        self._asked.add(stream_id)

        def done(outcome: object, error: ServiceError | None) -> None:
            if life != self._life:
                return
            self._asked.discard(stream_id)
            wait_ms = 0 if error is None else round(RETRY_SECONDS * 1000)
            self._soon.put(stream_id, TimestampMs(self._monotonic_ms() + wait_ms))

        deadline = self._services.clock.monotonic() + CHANGE_DEADLINE_SECONDS
        self._appender.change(sequence, deadline, done)
