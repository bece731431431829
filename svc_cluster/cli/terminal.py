"""What is said to the person at the terminal."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, Final, NoReturn, cast

from svc_cluster.settings_secrets import without_secrets

_DESCRIPTORS: Final = ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY))
"""Standard input and output, so that neither can be used; and error, where nobody listens."""


_PRINTS_HELP: Final = "rich."


class OutputError(OSError):
    """What is printed cannot be written where it goes."""

    def __str__(self) -> str:
        return f"the output: {self.strerror}"


@contextlib.contextmanager
def to_output() -> Iterator[None]:
    """Around what writes to standard output. Raises OutputError where it cannot be written, and
    BrokenPipeError where its reader has gone."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as cause:
        raise OutputError(cause.errno, cause.strerror) from cause


def end_without_output(fault: OSError) -> NoReturn:
    """Say that the output cannot be written, and end the process. Raises the fault where it is
    another's; what prints the text of `--help`, asked for or not, is not of this product."""
    if not isinstance(fault, OutputError):
        is_output = fault.errno == errno.EBADF or _raised_in(fault).startswith(_PRINTS_HELP)
        if fault.filename is not None or not is_output:
            raise fault
        fault = OutputError(fault.errno, fault.strerror)
    drop_output()
    end_with(str(fault), 1)


def _raised_in(fault: OSError) -> str:
    """The module whose code the fault comes from."""
    at = fault.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return "" if at is None else str(at.tb_frame.f_globals.get("__name__"))


def drop_output() -> None:
    """Have what is buffered go nowhere: the interpreter would try it again at its end, and make a
    status of that."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def open_closed_descriptors() -> None:
    """Open those of standard input, output and error that are closed. Using the first two fails.

    A file or a connection would else be the next to get the number, and what is printed would go
    there."""
    for number, flags in _DESCRIPTORS:
        try:
            os.fstat(number)
        except OSError:
            handle = os.open(os.devnull, flags)
            if handle != number:  # a number below it that something else has taken since
                os.dup2(handle, number)
                os.close(handle)
            os.set_inheritable(number, True)
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or _unusable(1)
    sys.stderr = sys.stderr or _unusable(2)


def _unusable(number: int) -> io.TextIOWrapper:
    """Without a buffer: what is left in one is tried again at the end, and becomes the status."""
    # typeshed asks for a buffer, TextIOWrapper for none
    raw = cast(BinaryIO, io.FileIO(number, "w", closefd=False))
    return io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", write_through=True)


def say(line: str) -> None:
    """A line on standard output. Where that is a file on a full disk, the line is lost and nothing
    else: whoever looks after processes must go on."""
    with contextlib.suppress(OSError):
        say_surely(line)


def say_surely(line: str) -> None:
    """The same, for what must not be lost. Raises OutputError and BrokenPipeError."""
    with to_output():
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def last_words(text: str) -> None:
    """To standard error, which may be a file on a full disk: the exit status must not depend on
    that. No sentence is meant to have a secret in it; on the day one does, it is masked."""
    with contextlib.suppress(OSError):
        sys.stderr.write(without_secrets(text))
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
