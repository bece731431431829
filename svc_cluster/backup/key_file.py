"""The file with the key that backups are sealed with."""

from __future__ import annotations

import base64
import binascii
import os
from pathlib import Path
from typing import Final

from svc_cluster.backup.backup_errors import WrongKeyError
from svc_cluster.backup.object_sealing import KEY_BYTES, Sealed

_WORD: Final = "svc-backup-key-1"
_FILE_BYTES_MAX: Final = 4096


def read_key(path: Path) -> Sealed:
    """Raises WrongKeyError for a file that holds no key of ours or cannot be read."""
    try:
        with path.open() as file:
            text = file.read(_FILE_BYTES_MAX)
    except (OSError, UnicodeDecodeError) as cause:
        raise WrongKeyError(
            f"the key file {path} cannot be read ({getattr(cause, 'strerror', cause)}): name the "
            "file that the first backup made with --key-file"
        ) from cause
    for line in text.splitlines():
        words = line.split()
        if len(words) == 3 and words[0] == _WORD:
            try:
                key = base64.b64decode(words[2], validate=True)
            except binascii.Error:
                break
            if len(key) == KEY_BYTES and Sealed(key).key_id == words[1]:
                return Sealed(key)
    raise WrongKeyError(f"the file {path} holds no whole key of backups: name another --key-file")


def make_key(path: Path) -> Sealed:
    """Make a key and its file, which only this user may read; never over another one. Raises
    WrongKeyError."""
    key = os.urandom(KEY_BYTES)
    sealed = Sealed(key)
    text = (
        "# Without this file the backups that are sealed with it cannot be restored by anybody.\n"
        "# Keep copies of it in other places than the backups and the cluster.\n"
        f"{_WORD} {sealed.key_id} {base64.b64encode(key).decode()}\n"
    )
    temporary = path.with_name(f"{path.name}.tmp-{os.urandom(8).hex()}")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "w") as out:
                out.write(text)
                out.flush()
                os.fsync(out.fileno())
            os.link(temporary, path)  # whole or not there, and never over another one
        finally:
            temporary.unlink()
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as cause:
        raise WrongKeyError(
            f"the key file {path} cannot be made ({cause.strerror}): name another --key-file"
        ) from cause
    return sealed
