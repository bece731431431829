"""The audit log as a file: a JSON object a line, appended by any number of processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

from svc_cluster.base.audit import AuditSink, AuditTrail, Event, LogSink
from svc_cluster.base.log import redacted
from svc_cluster.settings import DirectoryError, SettingsError
from svc_cluster.storage.disk_trouble import remedy


class AuditFile:
    """Each line is one write at the file's end, so that lines of several processes do not mix. It
    is with the system then, which brings it to the disk in its own time."""

    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        self._path = path
        self._handle = self._open()
        self._is_torn = False
        """The last line ended in the middle."""

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, event: Event) -> None:
        line = redacted(json.dumps(dict(event)))
        data = (line + "\n").encode()
        if self._is_torn:
            data = b"\n" + data
        written = os.write(self._handle, data)
        self._is_torn = self._is_torn if written == 0 else written != len(data)
        if written != len(data):
            raise OSError(0, "the line was written in part")

    def reopen(self) -> None:
        """For whoever has moved the file away."""
        fresh = self._open()
        self._handle, old = fresh, self._handle
        self._is_torn = False
        os.close(old)

    def close(self) -> None:
        os.close(self._handle)


def audit_sink(path: str | None) -> AuditSink:
    """Where the settings send events. Raises SettingsError for a file that cannot be written."""
    if path is None:
        return LogSink()
    try:
        return AuditFile(Path(path))
    except OSError as cause:
        if (what_to_do := remedy(cause, Path(path).parent)) is not None:
            raise DirectoryError(
                f"audit_log {path} cannot be written ({cause.strerror}): {what_to_do}"
            ) from cause
        raise SettingsError(
            f"audit_log {path} cannot be written ({cause.strerror}): name a file in a directory "
            "that exists and may be written to"
        ) from cause


def reopen_on_hangup(audit: AuditTrail) -> None:
    """From now on SIGHUP, which would end the process, makes it go on in a new file."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, audit.reopen)
