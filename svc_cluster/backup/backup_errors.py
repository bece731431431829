"""What ends a backup, a check of one, or a restore: one sentence for the person at the terminal."""

from __future__ import annotations


class BackupError(Exception):
    """The text says what is wrong and what to do; repeating it is safe unless it says otherwise."""


class ObjectStoreError(BackupError):
    """The place where backups are kept does not do what is asked."""


class DamagedError(BackupError):
    """An object is missing, or not what it was. The text names it."""


class WrongKeyError(BackupError):
    """The backups are sealed, and not with this key."""


class NewerFormatError(BackupError):
    """A newer release wrote it."""


class InterruptedSourceError(BackupError):
    """A node ended its answer early: what it gave is good, and the rest may be asked for again."""


class NoRoomError(BackupError):
    """What is done to copies cannot go on: the disk under them is full."""
