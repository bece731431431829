"""This is the audit log as a file. It has a JSON object a line, appended by any number of processes
of a machine. Each line is chained to the one before (base/audit_chain.py).

The last place of the chain is kept beside the file, under its name with `.chain`, so that the chain
goes on when the file is moved away, and so that a line that is gone from the file's end is missed.
Whoever writes has the lock of that file.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from svc_cluster.base.audit_chain import (
    HEAD_BYTES,
    START,
    ChainedLine,
    ChainHead,
    chain_line,
    head_bytes,
    is_object,
    read_head,
    read_line,
)
from svc_cluster.base.audit_trail import AuditSink, Event, LogSink
from svc_cluster.base.log import get_logger, redacted
from svc_cluster.settings_errors import DirectoryError, SettingsError
from svc_cluster.storage.disk_trouble import remedy

TAIL_BYTES_MAX: Final = 64 * 1024
"""How far from its end a file is looked through for its last line; the longest has some KiB."""
LOCK_TRIES: Final = 200
LOCK_PAUSE_SECONDS: Final = 0.0005
"""Another process has the lock for some microseconds, unless it was stopped in the middle."""

HEAD_SUFFIX: Final = ".chain"

log = get_logger("audit")


def head_path(path: Path) -> Path:
    """Where the last place of a file's chain is kept."""
    return path.with_name(path.name + HEAD_SUFFIX)


class AuditFile:
    """Each line is one write at the file's end. It is with the system then, which brings it to the
    disk in its own time. What is no regular file, such as a terminal, has a chain of its own for
    each process, and none is kept."""

    def __init__(self, path: Path) -> None:
        """Raises OSError, ChainVersionError among them."""
        self._path = path
        self._pause = threading.Event()
        self._handle = self._open()
        self._is_regular = stat.S_ISREG(os.fstat(self._handle).st_mode)
        self._known = START
        """The last place that this process has seen."""
        self._end = -1
        """The file's size when that was its last line."""
        self._is_head_broken = False
        self._head: int | None = None
        try:
            if self._is_regular:
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
                self._head = os.open(head_path(path), flags, 0o600)
                with self._locked():
                    self._known = self._last().head
        except OSError:
            self.close()
            raise

    def _open(self) -> int:
        flags = os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISREG(self._path.stat().st_mode):
                return os.open(self._path, flags | os.O_WRONLY, 0o600)
        return os.open(self._path, flags | os.O_RDWR, 0o600)

    def write(self, event: Event) -> None:
        text = redacted(json.dumps(dict(event)))
        if not self._is_regular:
            data, self._known = chain_line(text, self._known)
            if os.write(self._handle, data) != len(data):
                raise OSError(0, "the line was written in part")
            return
        with self._locked():
            self._follow()
            end = self._last()
            line, head = chain_line(text, end.head, end.fragment, begins_file=end.is_first)
            self._append(b"\n" + line if end.is_open else line)
            self._known = head
            self._keep(head)

    def _append(self, data: bytes) -> None:
        size = os.fstat(self._handle).st_size
        written = os.write(self._handle, data)
        if written == len(data):
            self._end = size + written
            return
        self._end = -1
        # where nothing may be taken away from the file, the next line says what stands before it
        with contextlib.suppress(OSError):
            os.ftruncate(self._handle, size)
        raise OSError(0, "the line was written in part")

    def _last(self) -> _End:
        """Where the next line goes. The furthest place counts that is known from anywhere: lines
        that somebody has taken away are missed then."""
        size = os.fstat(self._handle).st_size
        if size == self._end:
            return _End(self._known)
        begin = max(0, size - TAIL_BYTES_MAX)
        tail = os.pread(self._handle, size - begin, begin)
        found, fragment = _last_line(tail)
        assert self._head is not None, "a regular file has a head beside it"
        kept = read_head(os.pread(self._head, HEAD_BYTES, 0))
        places = [self._known, kept or START]
        if found is not None and found.is_whole:
            places.append(found.head)
        return _End(
            max(places, key=lambda place: place.sequence),
            fragment,
            is_open=bool(tail) and not tail.endswith(b"\n"),
            is_first=found is None,
        )

    def _keep(self, head: ChainHead) -> None:
        """The line is written: that its place cannot be kept does not undo it."""
        assert self._head is not None, "a regular file has a head beside it"
        try:
            os.pwrite(self._head, head_bytes(head), 0)
            self._is_head_broken = False
        except OSError as cause:
            if not self._is_head_broken:
                log.error("audit_chain_not_kept", reason=cause.strerror)
            self._is_head_broken = True

    def _follow(self) -> None:
        """Go on in a new file where another process has begun one, under the name that this one was
        moved away from. Lines of one chain are not spread over two files. Where that cannot be
        opened, stay."""
        with contextlib.suppress(OSError):
            there, here = self._path.stat(), os.fstat(self._handle)
            if (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino):
                self.reopen()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Raises OSError when another process has the lock for LOCK_TRIES pauses."""
        assert self._head is not None, "a regular file has a head beside it"
        for tries_left in reversed(range(LOCK_TRIES)):
            try:
                fcntl.flock(self._head, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not tries_left:
                    raise
                self._pause.wait(LOCK_PAUSE_SECONDS)
        try:
            yield
        finally:
            fcntl.flock(self._head, fcntl.LOCK_UN)

    def reopen(self) -> None:
        """For whoever has moved the file away."""
        fresh = self._open()
        self._handle, old = fresh, self._handle
        self._end = -1
        os.close(old)

    def close(self) -> None:
        os.close(self._handle)
        if self._head is not None:
            os.close(self._head)


@dataclass(frozen=True, slots=True)
class _End:
    """The end of a file."""

    head: ChainHead
    """The place that the next line follows."""
    fragment: bytes = b""
    """What a crash has left behind the last line."""
    is_open: bool = False
    """It is in the middle of a line."""
    is_first: bool = False
    """The next line is the first that has a chain."""


def _last_line(tail: bytes) -> tuple[ChainedLine | None, bytes]:
    """Return the last line in what a file ends with, if it has a chain. Return also what stands
    behind it and is no line, without the newline at its end."""
    lines = tail.split(b"\n")
    for place in reversed(range(len(lines))):
        if is_object(lines[place]):
            fragment = b"\n".join(lines[place + 1 :]).removesuffix(b"\n")
            return read_line(lines[place]), fragment
    return None, tail.removesuffix(b"\n") if len(tail) < TAIL_BYTES_MAX else b""


def audit_sink(path: str | None) -> AuditSink:
    """Where the settings send events. Raises SettingsError for a file that cannot be written."""
    if path is None:
        return LogSink()
    try:
        return AuditFile(Path(path))
    except OSError as cause:
        raise _unwritable(path, cause) from cause


def check_audit_place(path: str | None, made_at_start: Path | None) -> None:
    """Raises SettingsError where `audit_sink` would, as far as that can be told without making the
    file. `made_at_start`: a directory that may be missing until then."""
    if path is None:
        return
    folder = Path(path).parent
    if folder == made_at_start and not folder.exists():
        return
    if not folder.is_dir():
        raise _unwritable(path, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))
    if not os.access(path if Path(path).exists() else folder, os.W_OK):
        raise _unwritable(path, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))


def _unwritable(path: str, cause: OSError) -> SettingsError:
    if (what_to_do := remedy(cause, Path(path).parent)) is not None:
        return DirectoryError(
            f"audit_log {path} cannot be written ({cause.strerror}): {what_to_do}"
        )
    return SettingsError(
        f"audit_log {path} cannot be written ({cause.strerror}): name a file in a directory "
        "that exists and may be written to"
    )
