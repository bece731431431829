"""What is said to the person at the terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Sequence
from typing import NoReturn


def say(line: str) -> None:
    """A line on standard output. Where that is a file on a full disk, the line is lost and nothing
    else: whoever looks after processes must go on."""
    with contextlib.suppress(OSError):
        say_surely(line)


def say_surely(line: str) -> None:
    """The same, for what must not be lost. Raises OSError."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def last_words(text: str) -> None:
    """To standard error, which may be a file on a full disk: the exit status must not depend on
    that."""
    with contextlib.suppress(OSError):
        sys.stderr.write(text)
        sys.stderr.flush()


def end_with(message: str, status: int) -> NoReturn:
    """Say one sentence and end the process."""
    last_words(f"svc-cluster: {message}\n")
    raise SystemExit(status)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Columns as wide as what is in them."""
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return [
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
