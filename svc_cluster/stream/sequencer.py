"""The leader's side of a basin: requests become commands, or are refused.

Everything it decides by (tails, timestamps, tokens, trim points, existence) is the applied state
with the effects of the commands handed out since on top. Every command of the group goes through
it, in log order; one that was handed out is proposed, or undone before the next one is decided, or
the whole of it is `reset`.
A refusal may rest on commands still in flight: it may be told only once those are committed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from svc_cluster.base.errors import (
    FencingTokenMismatchError,
    InvalidError,
    SeqNumMismatchError,
    ServiceError,
    StreamNotFoundError,
)
from svc_cluster.base.ids import LogIndex, StreamId, TimestampMs
from svc_cluster.model.idempotency_table import (
    EXPIRED_AT_ONCE_MAX,
    IDEMPOTENCY_KEYS_MAX,
    check_room,
    is_final_refusal,
)
from svc_cluster.model.record import SessionSequence, StoredBatch
from svc_cluster.model.stream_config import BasinConfig, NewStream, PartialStreamConfig
from svc_cluster.stream import provision_rules, sealing, stream_quotas, timestamping
from svc_cluster.stream.append_run import AppendRun
from svc_cluster.stream.basin_state import BasinState
from svc_cluster.stream.commands import (
    AppendCommand,
    BasinCommand,
    Bootstrap,
    CreateStream,
    DeleteEmptyStream,
    DeleteStream,
    ExpireIdempotencyKeys,
    ExpirePrefix,
    IdempotentWrite,
    PurgeStream,
    Seal,
    Write,
)
from svc_cluster.stream.effects import RejectionReason, View, effect
from svc_cluster.stream.journal import Journal
from svc_cluster.stream.overlay import Overlay
from svc_cluster.stream.rows import StreamState
from svc_cluster.stream.sessions import Sessions

UNPROPOSED: Final = LogIndex(2**63 - 1)
"""Stands for the index of an entry that is still being filled."""

Decided = TypeVar("Decided", bound=BasinCommand)

_Touched = StreamId | str | bytes | None
"""A stream, a name, a request key, or (None) the basin's record."""


@dataclass(frozen=True, slots=True)
class IdempotentAnswer:
    """What comes of a request that may be repeated."""

    answer: bytes
    command: IdempotentWrite | None
    """None: this is a repetition, and nothing is done."""


class Sequencer:
    """One for each basin on each node; of use only while the node leads the basin's group."""

    def __init__(
        self,
        state: BasinState,
        sessions: Sessions | None = None,
        *,
        idempotency_keys_max: int = IDEMPOTENCY_KEYS_MAX,
        streams_max: int | None = None,
        stored_bytes_max: int | None = None,
    ) -> None:
        """The bound `idempotency_keys_max` is of repeatable requests that are kept at one time. The
        bound `streams_max` is of streams, those that are being deleted among them;
        `stored_bytes_max` is of the metered bytes that the basin stores. All are bounds of what is
        taken in, not of the state."""
        self._state = state
        self._streams_max = streams_max
        self._stored_bytes_max = stored_bytes_max
        self._journal = Journal()
        self._overlay = Overlay(state, self._journal)
        self._idempotency = state.idempotency
        self._idempotency_keys_max = idempotency_keys_max
        self.repeats = 0
        """Requests that were found to be repetitions."""
        self._sessions = Sessions() if sessions is None else sessions
        self._touched_at: dict[_Touched, LogIndex] = {}
        """The last entry that changed what is in the overlay."""
        self._unproposed: dict[_Touched, None] = {}
        self._in_flight: deque[tuple[LogIndex, tuple[_Touched, ...]]] = deque()

    def change_quotas(self, streams_max: int | None, stored_bytes_max: int | None) -> None:
        """From now on these are the bounds of what is taken in; what there is stays."""
        self._streams_max, self._stored_bytes_max = streams_max, stored_bytes_max

    # -- requests. `now_ms` is the leader's reading of the wall clock for this command.

    def append(
        self,
        stream_name: str,
        batch: StoredBatch,
        match_seq_num: int | None,
        fencing_token: str | None,
        now_ms: TimestampMs,
        *,
        session: SessionSequence | None = None,
    ) -> AppendCommand:
        """Place a batch at the tail. Its size and names are checked at the edge.

        Raises, in this order: UnavailableError (basin not bootstrapped, or frozen),
        BasinDeletionPendingError, StreamNotFoundError, KeyRequiredError, SealMismatchError (it was
        not sealed for this stream), StreamDeletionPendingError, UnavailableError (`session` is not
        the session's next), FencingTokenMismatchError, SeqNumMismatchError, InvalidError (the
        cipher reaches no further), QuotaError (the basin stores as much as it may), InvalidError (a
        timestamp is required, or the batch contradicts itself).
        """
        provision_rules.open_for_appends(self._overlay)
        stream = sealing.open_sealed(self._overlay, stream_name, batch.sealed_for)
        if session is not None:
            self._sessions.check(session, stream.stream_id)
        if fencing_token is not None and fencing_token != stream.fencing_token:
            raise FencingTokenMismatchError(stream.fencing_token)
        if match_seq_num is not None and match_seq_num != stream.tail_seq_num:
            raise SeqNumMismatchError(stream.tail_seq_num)
        sealing.check_room(stream, batch.record_count)
        self._check_stored(batch)
        placement = timestamping.place(
            batch,
            first_seq_num=stream.tail_seq_num,
            base_timestamp_ms=stream.last_timestamp_ms,
            config=stream.config,
            now_ms=now_ms,
        )
        command = AppendCommand(
            stream_id=stream.stream_id,
            placement=placement,
            records=batch.records,
            start_timestamp_ms=timestamping.first_timestamp(placement, batch),
            commands=batch.commands,
            match_seq_num=match_seq_num,
            fencing_token=fencing_token,
            op_units=batch.op_units,
        )
        self._hand_out(command)
        if session is not None:
            self._sessions.take(session, stream.stream_id, self._journal)
        return command

    # -- appends that share a command. From the run's begin to its end nothing else is decided.

    def begin_run(self, name: str, batch: StoredBatch, command: AppendCommand) -> AppendRun | None:
        """`command` was just handed out for this request. Returns what further ones may join; None
        for a request that stands alone."""
        stream = self._overlay.stream(command.stream_id)
        assert stream is not None, "it was just appended to"
        if batch.commands:
            return None
        return AppendRun(
            name, batch, command, stream, self._sessions, self._journal, self._check_stored
        )

    def end_run(self, run: AppendRun) -> AppendCommand:
        """Hand out what has joined. Returns the command of all, to be proposed in place of the
        first one's, which `undo` leaves as it was."""
        if run.joined:
            self._hand_out(run.rest())
        return run.whole()

    def decide(self, decision: Callable[[View], Decided | None]) -> Decided | None:
        """Hand out what a decision of `provision` comes to, taken on everything in flight. Raises
        what it raises, and InvalidError for what is not a stream's name."""
        command = decision(self._overlay)
        if command is not None:
            self._hand_out(command)
        return command

    @property
    def view(self) -> View:
        """The basin as the last decision left it."""
        return self._overlay

    def create_stream(
        self, name: str, config: PartialStreamConfig | None, now_ms: TimestampMs
    ) -> CreateStream | None:
        """Does what `provision_rules.create_stream` does, for a request that nothing repeats."""
        new = NewStream(config)
        return self.decide(lambda view: provision_rules.create_stream(view, name, new, b"", now_ms))

    def delete_stream(self, name: str, now_ms: TimestampMs) -> DeleteStream | None:
        """None when the stream is being deleted already. Raises UnavailableError,
        BasinDeletionPendingError, StreamNotFoundError."""
        provision_rules.open_basin(self._overlay)
        stream = self._overlay.stream_by_name(name)
        if stream is None:
            raise StreamNotFoundError("no stream of this name in the basin")
        if stream.deleted_at_ms is not None:
            return None
        command = DeleteStream(stream.stream_id, now_ms)
        self._hand_out(command)
        return command

    # -- requests that may be repeated

    def sequence_idempotent(
        self,
        key: bytes,
        write: Callable[[TimestampMs], Write | None],
        answer: Callable[[Write | None], bytes],
        refusal: Callable[[ServiceError], bytes],
        now_ms: TimestampMs,
    ) -> IdempotentAnswer:
        """Return what `write`, one of the requests above, comes to. Where this key stands for a
        request that was decided before, return what that came to. `answer` and `refusal` say what
        the client is told of a success and of a definite refusal.

        Raises RateLimitedError when there is no room to keep the key, and what `write`
        raises that is no definite refusal (`is_final_refusal`): that leaves no trace.
        """
        known = self._overlay.idempotency_row(key)
        if known is not None:
            self.repeats += 1
            return IdempotentAnswer(known.answer, None)
        provision_rules.open_basin(self._overlay)
        in_flight = len(self._overlay.idempotency_rows)
        check_room(self._idempotency, in_flight, self._idempotency_keys_max, now_ms)
        try:
            command = write(now_ms)
        except ServiceError as refused:
            if not is_final_refusal(refused):
                raise
            command = None
            told = refusal(refused)
        else:
            told = answer(command)
        self._hand_out(IdempotentWrite(key, now_ms, told))
        return IdempotentAnswer(told, IdempotentWrite(key, now_ms, told, command))

    def expire_idempotency_keys(self, before_ms: TimestampMs) -> ExpireIdempotencyKeys | None:
        """Forget keys that were decided before then, some of them at a time. They count as
        known until that is applied, so nothing here depends on it."""
        basin = self._overlay.basin
        if basin is None or basin.sealed_at_ms is not None:
            return None
        return ExpireIdempotencyKeys(before_ms, EXPIRED_AT_ONCE_MAX)

    # -- the basin's own life. None everywhere: nothing has to change (any more).

    def bootstrap(
        self, basin: str, config: BasinConfig, created_at_ms: TimestampMs
    ) -> Bootstrap | None:
        if self._overlay.basin is not None:
            return None
        command = Bootstrap(basin, config, created_at_ms, counts_usage=True)
        self._hand_out(command)
        return command

    def seal(self, now_ms: TimestampMs) -> Seal | None:
        """Raises UnavailableError before the bootstrap."""
        if provision_rules.bootstrapped(self._overlay).sealed_at_ms is not None:
            return None
        command = Seal(now_ms)
        self._hand_out(command)
        return command

    def expire(
        self, stream_id: StreamId, trim_point: int, now_ms: TimestampMs = TimestampMs(0)
    ) -> ExpirePrefix | None:
        """Drop the records below `trim_point`, which is at most the tail."""
        stream = self._living(stream_id)
        if stream is None or stream.deleted_at_ms is not None or trim_point <= stream.trim_point:
            return None
        command = ExpirePrefix(stream_id, trim_point, now_ms)
        self._hand_out(command)
        return command

    def delete_empty(self, stream_id: StreamId, now_ms: TimestampMs) -> DeleteEmptyStream | None:
        """Does what `provision_rules.delete_empty_stream` does."""
        return self.decide(
            lambda view: provision_rules.delete_empty_stream(view, stream_id, now_ms)
        )

    def purge(
        self, stream_id: StreamId, now_ms: TimestampMs = TimestampMs(0)
    ) -> PurgeStream | None:
        """Remove what is left of a deleted stream."""
        stream = self._living(stream_id)
        if stream is None or stream.deleted_at_ms is None:
            return None
        command = PurgeStream(stream_id, now_ms)
        self._hand_out(command)
        return command

    # -- what became of the commands

    def begin(self) -> None:
        """The next request is about to be decided: what was handed out before it stays."""
        self._journal.begin()

    def undo(self) -> None:
        """Nothing of what was handed out since `begin` will be proposed: expect none of it."""
        self._journal.undo()

    def proposed(self, log_index: LogIndex) -> None:
        """The commands handed out since the last call are the entry at `log_index`."""
        touched = tuple(self._unproposed)
        if not touched:
            return
        assert not self._in_flight or log_index > self._in_flight[-1][0], "proposals are in order"
        self._unproposed.clear()
        for key in touched:
            self._touched_at[key] = log_index
        self._in_flight.append((log_index, touched))

    def applied(self, log_index: LogIndex) -> None:
        """The state holds everything up to `log_index`: forget what is no newer than that."""
        in_flight = self._in_flight
        while in_flight and in_flight[0][0] <= log_index:
            entry_index, touched = in_flight.popleft()
            for key in touched:
                if self._touched_at[key] == entry_index:
                    self._forget(key)

    def reset(self) -> None:
        """Drop everything not applied. On any loss of leadership, and before the first command of
        a new leader, once its own no-op is applied."""
        self._overlay.clear()
        self._touched_at.clear()
        self._unproposed.clear()
        self._in_flight.clear()
        self._sessions.clear()

    def rejected(self) -> None:
        """Apply has rejected a command, against what was promised here: what its session sends
        behind it must not be taken."""
        self._sessions.clear()

    # -- helpers

    def _living(self, stream_id: StreamId) -> StreamState | None:
        """The stream, if commands on it can still have an effect."""
        basin = self._overlay.basin
        if basin is None or basin.sealed_at_ms is not None:
            return None
        return self._overlay.stream(stream_id)

    def _hand_out(self, command: BasinCommand) -> None:
        """Expect of the command what apply will make of it. Raises QuotaError for a stream too
        many, and InvalidError for a command that no gateway should have asked for."""
        if self._streams_max is not None and isinstance(command, CreateStream):
            stream_quotas.check_streams(self._state, self._overlay.basin, self._streams_max)
        change = effect(self._overlay, command)
        if change is RejectionReason.MALFORMED:
            raise InvalidError("the request contradicts itself")
        assert not isinstance(change, RejectionReason), f"apply would reject this: {change}"
        self._overlay.adopt(change)
        if change.idempotency_row is not None:
            self._touch(change.idempotency_row[0])
        if change.basin is not None:
            self._touch(None)
        stream = change.after if change.after is not None else change.before
        if stream is not None:
            self._touch(stream.stream_id)
            if change.before is None or change.after is None:
                self._touch(stream.name)

    def _check_stored(self, batch: StoredBatch) -> None:
        """Raises QuotaError."""
        if self._stored_bytes_max is not None:
            stream_quotas.check_stored(self._state.usage.reading, self._stored_bytes_max, batch)

    def _touch(self, key: _Touched) -> None:
        self._journal.put(self._touched_at, key, UNPROPOSED)
        self._journal.put(self._unproposed, key, None)

    def _forget(self, key: _Touched) -> None:
        del self._touched_at[key]
        if key is None:
            self._overlay.basin_changed = None
        elif isinstance(key, str):
            del self._overlay.ids[key]
        elif isinstance(key, bytes):
            del self._overlay.idempotency_rows[key]
        else:
            del self._overlay.streams[key]
