"""Pipelined sessions as a leader knows them: how far each has come in this leadership.

The argument in one paragraph (docs/adr/0009): a number is taken only when the one before it was
taken by the same leader since it began to lead, and what a leader takes is proposed in that order
or all of it is dropped together with this table. So batch k+1 stands behind batch k in the log of
one term, and whatever becomes of that log, k+1 is never in it without k.
"""

from __future__ import annotations

from typing import Final

from svc_cluster.base.errors import UnavailableError
from svc_cluster.base.ids import StreamId
from svc_cluster.model.record import SessionSequence
from svc_cluster.stream.journal import Journal

SESSIONS_MAX: Final = 10_000
"""How many sessions of one basin are remembered. The one that was silent for longest is forgotten
first: its next batch is refused, and its gateway begins a new one."""


class Sessions:
    """The next number of every session of a basin. Not part of the state: dropped on any loss of
    leadership."""

    def __init__(self, *, sessions_max: int = SESSIONS_MAX) -> None:
        self._next: dict[bytes, tuple[StreamId, int]] = {}
        self._sessions_max = sessions_max

    def check(self, session: SessionSequence, stream_id: StreamId) -> None:
        """Raises UnavailableError for a number that is not the session's next. A batch
        before it was refused, or lost, or the leadership under which it was taken is over. Nothing
        was done."""
        expected = self._next.get(session.session_id)
        if session.number == 0 if expected is None else (stream_id, session.number) == expected:
            return
        raise UnavailableError("the batch is not the next of its session")

    def take(self, session: SessionSequence, stream_id: StreamId, journal: Journal) -> None:
        """The batch, which `check` has passed, is going to be proposed; if it is not after all,
        `journal` undoes it."""
        journal.put_last(self._next, session.session_id, (stream_id, session.number + 1))
        if len(self._next) > self._sessions_max:
            del self._next[next(iter(self._next))]

    def clear(self) -> None:
        self._next.clear()

    def __len__(self) -> int:
        return len(self._next)
