"""The port to the cluster that is backed up."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from svc_cluster.backup.coverage import RecordRange
from svc_cluster.backup.row_frames import Row


class GroupUnreachableError(Exception):
    """No node hands out the group's content; it may have been deleted."""


@dataclass(frozen=True, slots=True)
class GroupContent:
    """All rows of a group but its batches, as of one applied index that a quorum has confirmed."""

    cluster_id: str
    group_id: int
    applied_index: int
    applied_term: int
    taken_at_ms: int
    encoding: int
    kinds: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class StreamBegins:
    """The rows of a range follow. `gone`: there are none, the stream was purged."""

    stream_id: int
    trim_point: int
    gone: bool


class Source(Protocol):
    """Gives what groups hold."""

    async def content(self, group_id: int) -> GroupContent:
        """Raises GroupUnreachableError, BackupError."""
        ...

    def records(
        self, group_id: int, applied_index: int, ranges: Sequence[RecordRange]
    ) -> AsyncIterator[StreamBegins | Row]:
        """The batches of the ranges, in their order, at most RANGES_AT_ONCE of these. Raises
        InterruptedSourceError wherever it ends early, GroupUnreachableError once no answer has
        brought a batch for as long as the source is patient, BackupError."""
        ...

    async def finished(self, finished_at_ms: int) -> None:
        """Tell the nodes that a backup of everything is finished, as far as they can be reached."""
        ...


RANGES_AT_ONCE = 64
"""A node takes no more in one request."""
