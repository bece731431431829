"""Which payload files are held open though nothing more is written to them: a bounded number.

A node may keep many thousands of them, and the system allows a process only so many. The file that
is written, and those that may still have writes under way, are none of these.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from svc_cluster.storage.disk import DiskFile


class OpenFiles:
    """Files that a read has opened. The one that was opened first is released for the next one.

    All of it is for any thread. It goes by the order of opening, not of reading, so that a read of
    an open file takes no lock. A file is told of behind the read that opened it, and released only
    when it is none of these any more: a reader that finds it missing tells of it again.
    """

    def __init__(self, open_files_max: int, counts: Callable[[int, DiskFile], bool]) -> None:
        """`counts`: whether this is still that number's file, and nothing is written to it."""
        self._max = open_files_max
        self._counts = counts
        self._open: dict[int, DiskFile] = {}
        self._lock = threading.Lock()

    def opened(self, number: int, file: DiskFile) -> None:
        """The file is open. One that does not count, as it became free meanwhile, is left to who
        writes it next or removes it; there are no more of these than reads at a time."""
        if number in self._open:
            return
        with self._lock:
            if not self._counts(number, file):
                return
            self._open[number] = file
            oldest = None
            if len(self._open) > self._max:
                oldest = self._open.pop(next(iter(self._open)))
        if oldest is not None:
            oldest.release()

    def give_up(self, number: int, file: DiskFile) -> None:
        """Nobody reads the file any more, or not soon. It may have ceased to count before."""
        with self._lock:
            self._open.pop(number, None)
        file.release()
