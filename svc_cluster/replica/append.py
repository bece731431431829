"""The write path of a basin's leader: from a request to a command in an entry.

Nothing of a record is looked at here; the gateway has counted, and apply checks again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from svc_cluster.base.errors import ServiceError, UnavailableError
from svc_cluster.model.record import AppendAck, SessionPlace, StoredBatch
from svc_cluster.replica.proposer import Proposal, Proposer, ResultCallback
from svc_cluster.stream.apply import Rejected
from svc_cluster.stream.sequencer import Sequencer

AckCallback = Callable[[AppendAck | None, ServiceError | None], None]

_COMMAND_OVERHEAD_BYTES = 64


class Appender:
    """Appends and stream changes of one basin; all of them go through the one sequencer."""

    def __init__(self, proposer: Proposer, sequencer: Sequencer) -> None:
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
        place: SessionPlace | None = None,
    ) -> None:
        """`done` gets the ack once the batch is committed and applied, or a refusal."""
        self._proposer.submit(
            Proposal(
                sequence=partial(
                    self._sequencer.append,
                    stream,
                    batch,
                    match_seq_num,
                    fencing_token,
                    place=place,
                ),
                size=len(batch.records) + _COMMAND_OVERHEAD_BYTES,
                deadline=deadline,
                done=partial(_acked, done),
            )
        )

    def change(self, sequence: Callable[[Any], Any], deadline: float, done: ResultCallback) -> None:
        """A change of streams or of the basin. `sequence(now_ms)` is a bound sequencer call."""

        def finished(outcome: Any, error: ServiceError | None) -> None:
            if isinstance(outcome, Rejected):
                done(None, _rejected(outcome))
            else:
                done(outcome, error)

        self._proposer.submit(Proposal(sequence, _COMMAND_OVERHEAD_BYTES, deadline, finished))


def _acked(done: AckCallback, outcome: Any, error: ServiceError | None) -> None:
    if error is not None:
        done(None, error)
    elif isinstance(outcome, Rejected):
        done(None, _rejected(outcome))
    else:
        done(outcome.ack, None)


def _rejected(outcome: Rejected) -> ServiceError:
    """Apply found a precondition broken that the sequencer had promised: without effect on every
    replica, and a bug of ours (the host logs it as an error)."""
    return UnavailableError(f"the write was rejected: {outcome.reason}")
