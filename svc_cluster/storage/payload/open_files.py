"""Which payload files are held open though nothing more is written to them: a bounded number.

A node may keep many thousands of them, and the system allows a process only so many. The file that
is written, and those that may still have writes under way, are none of these.
"""

from __future__ import annotations

import threading

from svc_cluster.storage.disk import DiskFile


class OpenFiles:
    """Files that a read has opened, in the order of that. The oldest is given up for the newest.

    `opened` is for any thread. A file is told of behind the read that opened it, so that none stays
    open which this does not know of; a read that is under way when its file is given up ends well.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: dict[int, DiskFile] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, number: int, file: DiskFile) -> None:
        """The file is open, and nothing is written to it."""
        if number in self._open:
            return
        with self._lock:
            self._open[number] = file
            oldest = None
            if len(self._open) > self._most:
                oldest = self._open.pop(next(iter(self._open)))
        if oldest is not None:
            oldest.rest()

    def give_up(self, number: int, file: DiskFile) -> None:
        """Nobody reads the file any more, or not soon."""
        with self._lock:
            self._open.pop(number, None)
        file.rest()
