"""Who started a container, written so that another process can tell whether that one still lives.

A process is told by host name, pid namespace, the kernel's boot, its id and when it started: ids
alone are used again.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SEPARATOR: Final = "|"
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_START_FIELD: Final = 19
"""The field of /proc/PID/stat behind the command's name: when the process started, in ticks since
boot."""


@dataclass(frozen=True, slots=True)
class Owner:
    """One process on one host. `start` is empty where the system has no /proc."""

    host: str
    namespace: str
    boot: str
    pid: int
    start: str

    @classmethod
    def this_process(cls) -> Owner:
        pid = os.getpid()
        return cls(socket.gethostname(), _namespace(), _boot(), pid, _start(pid))

    def text(self) -> str:
        """One line, for a label."""
        return _SEPARATOR.join((self.host, self.namespace, self.boot, str(self.pid), self.start))

    @classmethod
    def parse(cls, text: str) -> Owner | None:
        """None for a text that `text` does not write."""
        parts = text.split(_SEPARATOR)
        if len(parts) != 5 or not parts[3].isdecimal():
            return None
        return cls(parts[0], parts[1], parts[2], int(parts[3]), parts[4])

    def is_gone(self, seen_by: Owner) -> bool:
        """Whether that process has certainly ended, as far as `seen_by`, a live one, can know.
        Nothing is known of other hosts and other pid namespaces."""
        if self.host != seen_by.host:
            return False
        if self.boot != seen_by.boot:
            return True
        if self.namespace != seen_by.namespace:
            return False
        if not self.start:
            return not _lives(self.pid)
        return _start(self.pid) != self.start


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _boot() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def _start(pid: int) -> str:
    """Empty for a process that is not there, or has ended and only waits to be reaped."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in ("Z", "X") else fields[_START_FIELD]


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
