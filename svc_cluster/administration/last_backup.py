"""When the last backup of the cluster was finished, as whoever took it has told this node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

FILE_NAME: Final = "last-backup"
_MS_MAX: Final = 2**53
AHEAD_MS_MAX: Final = 3_600_000
"""What lies further ahead is the word of a clock that was wrong; SvcBackupStale has the same."""


class LastBackup:
    """This remembers it over restarts, in a file of the data directory. A power cut may lose the
    latest word: the next backup has another."""

    def __init__(
        self, directory: Path, show: Callable[[float], None], wall_ms: Callable[[], int]
    ) -> None:
        """`show` is told Unix seconds, at once where the time is known, and whenever it changes.
        `wall_ms` tells this node's time."""
        self._wall_ms = wall_ms
        self._path = directory / FILE_NAME
        self._show = show
        try:
            self._finished_at_ms = int(self._path.read_text())
        except (OSError, ValueError):
            self._finished_at_ms = 0  # the next backup tells it again
        self._tell()

    def taken(self, finished_at_ms: int) -> None:
        """A backup was finished at this Unix time in milliseconds.

        One that is earlier than what is known changes nothing, unless that lies in the future: an
        alert tells of it until then.
        """
        known = self._finished_at_ms
        if known > self._wall_ms() + AHEAD_MS_MAX:
            known = 0
        if not known < finished_at_ms < _MS_MAX:
            return
        self._finished_at_ms = finished_at_ms
        self._tell()
        temporary = self._path.with_suffix(".tmp")
        temporary.write_text(f"{finished_at_ms}\n")
        temporary.replace(self._path)

    def _tell(self) -> None:
        if self._finished_at_ms:
            self._show(self._finished_at_ms / 1000)
