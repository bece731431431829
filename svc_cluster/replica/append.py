"""The write path of a basin's leader: from a request to a command in an entry.

Nothing of a record is looked at here; the gateway has counted, and apply checks again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from svc_cluster.base.errors import ServiceError, UnavailableError
from svc_cluster.base.ids import TimestampMs
from svc_cluster.codec import rpc
from svc_cluster.model.leader_stages import LeaderStages
from svc_cluster.model.record import AppendAck, SessionSequence, StoredBatch
from svc_cluster.replica.entry_draft import PlainAppend
from svc_cluster.replica.proposal import Proposal, ResultCallback
from svc_cluster.replica.proposer import Proposer
from svc_cluster.replica.repeatable import (
    ANSWER_BYTES,
    Fill,
    answer_bytes,
    filler,
    refusal_bytes,
)
from svc_cluster.stream.apply import Outcome, Rejected, ack_of
from svc_cluster.stream.commands import AppendCommand, BasinCommand, Write
from svc_cluster.stream.sequencer import IdempotentAnswer, Sequencer

Decision = Callable[[TimestampMs], BasinCommand | None]
"""What a request comes to, at that time; None: nothing has to change. Raises a ServiceError."""

AckCallback = Callable[[AppendAck | None, ServiceError | None], None]

FillCallback = Callable[[Fill | None, ServiceError | None], None]

COMMAND_BYTES: Final = 64
"""About what a command takes in an entry beside its records."""


class Appender:
    """Appends and stream changes of one basin; all of them go through the one sequencer."""

    def __init__(self, proposer: Proposer[BasinCommand, Outcome], sequencer: Sequencer) -> None:
        self._proposer = proposer
        self._sequencer = sequencer

    def append(
        self,
        stream: str,
        batch: StoredBatch,
        match_seq_num: int | None,
        fencing_token: str | None,
        deadline: float,
        done: AckCallback,
        session: SessionSequence | None = None,
        stages: LeaderStages | None = None,
        requests: int = 1,
    ) -> None:
        """`done` gets the ack once the batch is committed and applied, or a refusal. By then
        `stages` have been told where the time went. The batch stands for so many `requests`."""
        self._proposer.submit(
            Proposal(
                sequence=partial(
                    self._sequencer.append,
                    stream,
                    batch,
                    match_seq_num,
                    fencing_token,
                    session=session,
                ),
                size=len(batch.records) + COMMAND_BYTES,
                deadline=deadline,
                done=partial(_acked, done),
                stages=stages,
                requests=requests,
                append=PlainAppend(
                    stream,
                    batch,
                    session,
                    match_seq_num is not None or fencing_token is not None,
                ),
            )
        )

    def change_idempotent(
        self,
        key: bytes,
        sequence: Callable[[TimestampMs], Write | None],
        tell: Callable[[Write | None], Fill],
        size: int,
        deadline: float,
        done: FillCallback,
        stages: LeaderStages | None = None,
    ) -> None:
        """Make a write that its client may repeat. Then `done` gets the answer, or that of the
        first request with this key. `sequence(now_ms)` is a bound sequencer call, and
        `tell(command)` its answer as the sequencer's view is behind it. `size` is that of the
        command, in bytes."""
        answered: IdempotentAnswer | None = None

        def sequence_with_key(now_ms: TimestampMs) -> BasinCommand | None:
            nonlocal answered
            answered = self._sequencer.sequence_idempotent(
                key,
                sequence,
                lambda command: answer_bytes(tell(command)),
                refusal_bytes,
                now_ms,
            )
            return answered.command

        def finished(outcome: Outcome | None, error: ServiceError | None) -> None:
            if isinstance(outcome, Rejected):
                error = _rejected(outcome)
            if error is not None:
                done(None, error)
            else:
                assert answered is not None, "what succeeds has been sequenced"
                is_repeated = answered.command is None
                done(filler(answered.answer, is_repeated=is_repeated), None)

        self._proposer.submit(
            Proposal(sequence_with_key, size + ANSWER_BYTES, deadline, finished, stages)
        )

    def append_idempotent(
        self,
        key: bytes,
        stream: str,
        batch: StoredBatch,
        match_seq_num: int | None,
        fencing_token: str | None,
        deadline: float,
        done: FillCallback,
        stages: LeaderStages | None = None,
    ) -> None:
        """Does what `append` does, for a client that may repeat it. The tail that it is told is the
        end of its own batch."""
        self.change_idempotent(
            key,
            partial(self._sequencer.append, stream, batch, match_seq_num, fencing_token),
            _tell_ack,
            len(batch.records) + COMMAND_BYTES,
            deadline,
            done,
            stages,
        )

    def change(
        self,
        sequence: Decision,
        deadline: float,
        done: ResultCallback[Outcome],
        size: int = COMMAND_BYTES,
    ) -> None:
        """A change of streams or of the basin. `sequence(now_ms)` is a bound sequencer call, `size`
        that of its command, in bytes."""

        def finished(outcome: Outcome | None, error: ServiceError | None) -> None:
            if isinstance(outcome, Rejected):
                done(None, _rejected(outcome))
            else:
                done(outcome, error)

        self._proposer.submit(Proposal(sequence, size, deadline, finished))


def _tell_ack(command: Write | None) -> Fill:
    assert isinstance(command, AppendCommand), "an append is never without effect"
    ack = ack_of(command)
    return lambda response: rpc.ack_to_pb(response.append, ack)


def _acked(done: AckCallback, outcome: Outcome | None, error: ServiceError | None) -> None:
    if error is not None:
        done(None, error)
    elif isinstance(outcome, Rejected):
        done(None, _rejected(outcome))
    else:
        assert outcome is not None, "an append is never without effect"
        done(outcome.ack, None)


def _rejected(outcome: Rejected) -> ServiceError:
    """Apply found a precondition broken that the sequencer had promised. That is without effect on
    every replica, and a bug of ours (the host logs it as an error)."""
    return UnavailableError(f"the write was rejected: {outcome.reason}")
