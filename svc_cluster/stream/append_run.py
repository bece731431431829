"""Appends to one stream that stand behind each other in the queue become one command.

Nothing is left of where one ended and the next began but what each is acknowledged: a record gets
the same sequence number and the same timestamp as if its batch had a command of its own. Timestamps
are a running maximum over one arrival time and one rule, which does not look at batches
(stream/timestamping.py); what joins comes in the same entry, so that both are the same for all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from svc_cluster.base.errors import ServiceError
from svc_cluster.base.ids import StreamId
from svc_cluster.base.limits import BATCH_METERED_BYTES_MAX, BATCH_RECORDS_MAX
from svc_cluster.model.cipher import seq_num_max
from svc_cluster.model.record import (
    AppendAck,
    BatchPlacement,
    Position,
    SessionSequence,
    StoredBatch,
)
from svc_cluster.stream import timestamping
from svc_cluster.stream.commands import AppendCommand
from svc_cluster.stream.journal import Journal
from svc_cluster.stream.rows import StreamState
from svc_cluster.stream.sessions import Sessions


class AppendRun:
    """One command that grows. It is as if it were one batch, so it is no larger than a batch."""

    __slots__ = (
        "_bytes",
        "_check_stored",
        "_cipher",
        "_config",
        "_first",
        "_journal",
        "_last",
        "_metered_bytes",
        "_name",
        "_op_units",
        "_pieces",
        "_record_count",
        "_sealed_for",
        "_sessions",
        "joined",
    )

    def __init__(
        self,
        name: str,
        batch: StoredBatch,
        command: AppendCommand,
        stream: StreamState,
        sessions: Sessions,
        journal: Journal,
        check_stored: Callable[[StoredBatch], None],
    ) -> None:
        """`command` is what was made of `batch`, and `stream` is as it left it. It has no command
        records, because these act where they stand. `check_stored` raises QuotaError."""
        assert not batch.commands, "what acts on the stream stands alone"
        self._sessions = sessions
        self._journal = journal
        self._check_stored = check_stored
        self._name = name
        self._sealed_for = batch.sealed_for
        self._config = stream.config
        self._cipher = stream.cipher
        self._first = command
        self._last = command.placement
        self._pieces = [command.records]
        self._bytes = len(command.records)
        self._record_count = batch.record_count
        self._metered_bytes = batch.metered_bytes
        self._op_units = batch.op_units
        self.joined: list[AppendAck] = []
        """What the requests behind the first one are acknowledged, in order."""

    @property
    def stream_id(self) -> StreamId:
        return self._first.stream_id

    def join(self, name: str, batch: StoredBatch, session: SessionSequence | None) -> bool:
        """Take one more request, which has no condition; returns whether it was taken. One that was
        not is to be decided by itself, behind the run's end: that also says why it is refused."""
        if not self._fits(name, batch):
            return False
        before = self._last
        try:
            if session is not None:
                self._sessions.check(session, self.stream_id)
            self._check_stored(batch)
            place = timestamping.place(
                batch,
                first_seq_num=before.end_seq_num,
                base_timestamp_ms=before.last_timestamp_ms,
                config=self._config,
                now_ms=before.arrival_ms,
            )
        except ServiceError:
            return False
        start = Position(place.first_seq_num, timestamping.first_timestamp(place, batch))
        end = Position(place.end_seq_num, place.last_timestamp_ms)
        if not self.joined:
            self._journal.begin()  # what is undone from here on is not the first one
        if session is not None:
            self._sessions.take(session, self.stream_id, self._journal)
        self._last = place
        self._pieces.append(batch.records)
        self._bytes += len(batch.records)
        self._record_count += batch.record_count
        self._metered_bytes += batch.metered_bytes
        self._op_units += batch.op_units
        self.joined.append(AppendAck(start, end, end))
        return True

    def _fits(self, name: str, batch: StoredBatch) -> bool:
        last = self._last.end_seq_num + batch.record_count - 1
        return (
            name == self._name
            and not batch.commands
            and batch.sealed_for == self._sealed_for
            and self._record_count + batch.record_count <= BATCH_RECORDS_MAX
            and self._metered_bytes + batch.metered_bytes <= BATCH_METERED_BYTES_MAX
            and self._bytes + len(batch.records) <= BATCH_METERED_BYTES_MAX
            and batch.record_count > 0
            and last <= seq_num_max(self._cipher)
        )

    def whole(self) -> AppendCommand:
        """The command of all requests: it has the condition of the first."""
        if not self.joined:
            return self._first
        return replace(
            self._first,
            placement=self._placement(self._first.placement, self._record_count),
            records=b"".join(self._pieces),
            op_units=self._op_units,
        )

    def rest(self) -> AppendCommand:
        """The command of the requests that have joined, as if the first one stood by itself."""
        first = self._first.placement
        placement = replace(
            self._placement(first, self._record_count - first.record_count),
            first_seq_num=first.end_seq_num,
            base_timestamp_ms=first.last_timestamp_ms,
            metered_bytes=self._metered_bytes - first.metered_bytes,
        )
        return AppendCommand(
            stream_id=self._first.stream_id,
            placement=placement,
            records=b"",
            start_timestamp_ms=self.joined[0].start.timestamp_ms,
        )

    def _placement(self, first: BatchPlacement, record_count: int) -> BatchPlacement:
        return replace(
            first,
            record_count=record_count,
            metered_bytes=self._metered_bytes,
            last_timestamp_ms=self._last.last_timestamp_ms,
        )
