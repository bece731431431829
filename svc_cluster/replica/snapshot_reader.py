"""A group's pairs as its snapshot has them, each looked at before it leaves."""

from __future__ import annotations

from collections.abc import Iterator

from svc_cluster.base.ids import GroupId
from svc_cluster.replica.prefixed import PrefixedReader
from svc_cluster.replica.scrub_reader import content_of


class SnapshotDamagedError(Exception):
    """What was to be sent is damaged, as this replica sees by itself: nobody is to get it."""


def looked_at(group_id: GroupId, view: PrefixedReader) -> Iterator[tuple[bytes, bytes]]:
    """All pairs of the group, each behind the look at it. Raises SnapshotDamagedError."""
    tap = _Tap(view)
    for visit in content_of(group_id).visits(tap, b""):
        if visit.flaw:
            raise SnapshotDamagedError(f"a snapshot was not sent: {visit.flaw}")
        if tap.pair is not None:
            yield tap.pair
            tap.pair = None


class _Tap:
    """A reader that keeps the pair that its only scan has come to."""

    def __init__(self, view: PrefixedReader) -> None:
        self._view = view
        self.pair: tuple[bytes, bytes] | None = None

    def get(self, key: bytes) -> bytes | None:
        return self._view.get(key)

    def scan(
        self, start: bytes, end: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        for pair in self._view.scan(start, end, reverse=reverse):
            self.pair = pair
            yield pair
