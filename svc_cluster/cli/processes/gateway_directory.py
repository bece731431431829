"""The directory in which a gateway's processes meet: theirs alone, and gone with the last of them.

Each process has a lock on it while it lives. By that a later group knows what nobody will remove
any more, and cleaners of old files (systemd-tmpfiles) leave it alone. Others do not: where it is
gone, it is made again.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import tempfile
from pathlib import Path
from typing import Final

from svc_cluster.base.log import get_logger
from svc_cluster.settings_errors import DirectoryError

PREFIX: Final = "svc-gateway-"
SOCKET_PATH_BYTES_MAX: Final = 107
"""The system takes no longer names of sockets."""
TRIES_MAX: Final = 3
"""A directory that was just made may be taken for a left one, before it is locked."""
_NAME: Final = re.compile(PREFIX + "[a-z0-9_]{8}")
_FILE: Final = re.compile(r"[0-9]+\.(sock|page-1|tmp)")

log = get_logger("gateway.directory")


def socket_path(directory: Path, number: int) -> Path:
    """Where a process answers the others."""
    return directory / f"{number}.sock"


def page_path(directory: Path, number: int) -> Path:
    """Where the last page of a process lies, in the form that 1 stands for."""
    return directory / f"{number}.page-1"


class GroupDirectory:
    """The directory as one process of the group holds it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    def hold(self) -> None:
        """Make it where it is not, and lock it. May be called again. Raises OSError, also where
        another user has made it."""
        if self._lock is not None and _is_at(self._lock, self.path):
            return
        self._let_go()
        with contextlib.suppress(FileExistsError):
            self.path.mkdir(0o700)
        self._lock = _locked(self.path, fcntl.LOCK_SH)

    def leave(self) -> None:
        """This process needs it no more. The last one removes it."""
        self._let_go()
        _remove_left(self.path)

    def _let_go(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def new_directory(processes: int) -> GroupDirectory:
    """Return one that nobody else may look into, held. Those of groups that were killed are
    removed. Raises DirectoryError."""
    try:
        for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
            if _NAME.fullmatch(left.name):
                _remove_left(left)
        made = _made()
    except OSError as cause:
        raise DirectoryError(
            f"no directory can be made for the processes to meet in ({cause.strerror}): make "
            "TMPDIR name one that this user may write to"
        ) from cause
    if len(os.fsencode(socket_path(made.path, processes))) > SOCKET_PATH_BYTES_MAX:
        made.leave()
        raise DirectoryError(
            f"the directory {made.path} has too long a name for sockets: make TMPDIR name a "
            "shorter one"
        )
    return made


def _made() -> GroupDirectory:
    """Raises OSError."""
    tries = 0
    while True:
        made = GroupDirectory(Path(tempfile.mkdtemp(prefix=PREFIX)))
        tries += 1
        try:
            made.hold()
        except OSError:
            if tries == TRIES_MAX:
                raise
        else:
            return made


def _remove_left(path: Path) -> None:
    """Remove what no process of its group needs any more, unless something else lies in it."""
    try:
        handle = _locked(path, fcntl.LOCK_EX)
    except OSError:
        return  # somebody needs it, or it is nobody's of this user
    try:
        names = os.listdir(handle)
        if all(map(_FILE.fullmatch, names)):
            for name in names:
                os.unlink(name, dir_fd=handle)
            path.rmdir()
    except OSError as cause:
        log.warning("group_directory_left", directory=str(path), reason=str(cause))
    finally:
        os.close(handle)


def _locked(path: Path, how: int) -> int:
    """Return a handle of it that holds the lock. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(handle).st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "it is another user's", str(path))
        fcntl.flock(handle, how | fcntl.LOCK_NB)
        if not _is_at(handle, path):
            raise FileNotFoundError(errno.ENOENT, "it was removed", str(path))
    except BaseException:
        os.close(handle)
        raise
    return handle


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except OSError:
        return False
