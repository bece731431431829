"""A disk slower than the machine's, for processes that run under a tracer (strace).

The kernel adds the delay to each call, whatever language made it. And files that no cache holds."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

_TRACER: Final = "strace"
_SYNCS: Final = "fsync,fdatasync"
_READS: Final = "pread64,preadv,preadv2"


def slowed(sync_delay_ms: float, read_delay_ms: float = 0.0) -> list[str]:
    """The command to put in front of another, whose process stays the one that was started; empty
    without a delay. Raises FileNotFoundError where the tracer is not on the machine."""
    delays = [(_SYNCS, sync_delay_ms), (_READS, read_delay_ms)]
    wanted = [(calls, round(delay * 1000)) for calls, delay in delays if delay > 0]
    if not wanted:
        return []
    path = shutil.which(_TRACER)
    if path is None:
        raise FileNotFoundError(f"{_TRACER} is not on PATH: a slow disk is made with it")
    command = [path, "-D", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null"]
    command += ["-e", "trace=" + ",".join(calls for calls, _ in wanted)]
    for calls, micros in wanted:
        command += ["-e", f"inject={calls}:delay_exit={micros}"]
    return command


def forget_cached(directory: Path) -> None:
    """Have the kernel keep nothing of the files below a directory that nobody writes to."""
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(handle)
