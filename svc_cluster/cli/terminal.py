"""What is said to the person at the terminal."""

from __future__ import annotations

import contextlib
import sys


def say(line: str) -> None:
    """A line on standard output. Where that is a file on a full disk, the line is lost and nothing
    else: whoever looks after processes must go on."""
    with contextlib.suppress(OSError):
        say_surely(line)


def say_surely(line: str) -> None:
    """The same, for what must not be lost. Raises OSError."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
