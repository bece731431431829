"""The folder of copies that `admin recover` works in. It is gone at the end, whatever that is.

What opens a data directory ends its process where the disk is full, at once and from any thread, as
a node has to; and nobody is asked while a file is copied. So all of it is done in a process of its
own, and this one waits, and clears up.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from svc_cluster.cli.terminal import end_with, last_words

_ENDS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_MIB: Final = 1024 * 1024
EXIT_NO_ROOM: Final = 74
"""The exit status after a failed write; that of storage."""


def in_scratch(beside: Path, directories: Sequence[Path], work: Callable[[Path], None]) -> None:
    """Run `work` in another process with a new folder in `beside`. This process ends with the
    other's status; that one returns."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)
    try:
        scratch = Path(tempfile.mkdtemp(prefix=".recover-", dir=beside))
    except OSError as cause:
        end_with(f"{beside} cannot be written to ({cause.strerror}): name another --work-dir", 1)
    child = os.fork()
    if child:
        _wait(child, scratch, directories)
    # Ctrl-C reaches both: this process ends when that one says so
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDS)
    work(scratch)


def _wait(child: int, scratch: Path, directories: Sequence[Path]) -> NoReturn:
    ended: list[int] = []

    def end(number: int, _: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGTERM)
        ended.append(number)

    for number in _ENDS:
        signal.signal(number, end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDS)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)  # another Ctrl-C ends no clearing up
    is_gone = _removed(scratch)
    if status == EXIT_NO_ROOM:
        _tell_room(scratch.parent, directories)
    elif status < 0 and is_gone:
        last_words(f"svc-cluster: ended by a signal; the copies in {scratch.parent} were removed\n")
    raise SystemExit(status if status >= 0 else 128 + (ended[0] if ended else -status))


def _removed(scratch: Path) -> bool:
    try:
        shutil.rmtree(scratch)
    except OSError as cause:
        last_words(f"svc-cluster: {scratch} cannot be removed ({cause.strerror}): remove it\n")
        return False
    return True


def _tell_room(place: Path, directories: Sequence[Path]) -> None:
    from svc_cluster.backup.survivor_copy import taken_bytes

    facts = os.statvfs(place)
    wanted, free = taken_bytes(directories), facts.f_bavail * facts.f_frsize
    last_words(
        f"svc-cluster: the copies in {place} were removed; they take {wanted / _MIB:.1f} MiB, and "
        f"room for a log beside each, and {free / _MIB:.1f} MiB are free there: name another "
        "--work-dir, or make room\n"
    )
