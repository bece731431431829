"""What was acknowledged is there for ever: the plainest promise, checked in the plainest way."""

from __future__ import annotations

from collections.abc import Iterable

from tests.linearizability.history import Append, Outcome, Read, SeenRecord
from tests.simulation.checkers.raft import InvariantError


class AckedChecker:
    """The acknowledged records of one stream, by place. Fed as answers come in."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._records: dict[int, str] = {}
        self.appends = 0

    def __len__(self) -> int:
        return len(self._records)

    def acknowledged(self, append: Append) -> None:
        assert append.outcome is Outcome.OK and append.start is not None
        if append.end != append.start + len(append.bodies):
            raise InvariantError(f"ack-covers-batch: {self._stream}: {append}")
        self.appends += 1
        for place, body in enumerate(append.bodies):
            known = self._records.setdefault(append.start + place, body)
            if known != body:
                raise InvariantError(
                    f"acked-once: {self._stream}: {append.start + place} was acknowledged for "
                    f"{known!r} and for {body!r}"
                )

    def seen(self, read: Read) -> None:
        """No answer shows another record where one was acknowledged."""
        self._compare(read.records)

    def final(self, records: Iterable[SeenRecord]) -> None:
        """The last read of the whole stream holds every acknowledged record in its place."""
        found = self._compare(records)
        missing = sorted(self._records.keys() - found)
        if missing:
            raise InvariantError(
                f"acked-never-lost: {self._stream}: {len(missing)} acknowledged records are "
                f"missing, the first at {missing[0]}: {self._records[missing[0]]!r}"
            )

    def _compare(self, records: Iterable[SeenRecord]) -> set[int]:
        found = set()
        for record in records:
            known = self._records.get(record.seq_num)
            if known is not None and known != record.body:
                raise InvariantError(
                    f"acked-never-lost: {self._stream}: {record.seq_num} holds {record.body!r}, "
                    f"acknowledged was {known!r}"
                )
            found.add(record.seq_num)
        return found
