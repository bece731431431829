"""`python -m svc_cluster`, and the `svc-cluster` command."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Final, NoReturn

# nothing of the product stands here: what is loaded is loaded where a Ctrl-C ends it quietly

DATA_GROUPS: Final = frozenset(
    {"apply", "basin", "copy", "profile", "size", "stream", "token", "usage"}
)
"""What begins these commands needs a client only: the rest is not loaded for them."""

PROCESSES: Final = frozenset({"gateway", "node"})
"""These run for as long as the machine does, and load nothing that they do not use."""

BACKUP: Final = "backup"
"""What speaks to buckets has threads that nobody can wait for."""

INTERRUPTED: Final = 130
"""The status behind a Ctrl-C, as a shell has it."""


def main() -> None:
    # whoever starts a command in the background has it pass over Ctrl-C: that stays so
    is_heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_heard:
        signal.signal(signal.SIGINT, _end_quietly)
    from svc_cluster.cli.terminal import end_without_output, open_closed_descriptors

    open_closed_descriptors()
    group = sys.argv[1] if len(sys.argv) > 1 else ""
    command = _command(group)
    try:
        if is_heard:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        command()
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except OSError as cause:
        end_without_output(cause)
    finally:
        if is_heard and group not in PROCESSES:  # what is left is the end of the interpreter
            signal.signal(signal.SIGINT, _end_quietly)
        _forget_interrupt()


def _command(group: str) -> Callable[[], object]:
    """Load what the command takes, and return what runs it."""
    from svc_cluster.storage.private import UMASK

    os.umask(UMASK)
    if group in DATA_GROUPS:
        from svc_cluster.cli.data.data_app import data_app

        return data_app()
    if group in PROCESSES:
        from svc_cluster.cli.processes.process_app import process_app

        return process_app()
    from svc_cluster.cli.main import app

    if group == BACKUP:
        from svc_cluster.cli.backup.backup_end import end_at_once

        return lambda: end_at_once(app)
    return app


def _forget_interrupt() -> None:
    """Have the process end with the status it asks for, and not by the signal that was caught.

    CPython remembers an interrupt that went through the evaluation of a text, as typer evaluates
    annotations, until it evaluates the next one (`run_eval_code_obj`). A shell takes an end by the
    signal for the end of its script too.
    """
    eval("None")


def _end_quietly(_number: int, _frame: FrameType | None) -> NoReturn:
    """An exception in the middle of an import would be told by whoever imports, with a traceback.
    Nothing was begun yet, or all is done."""
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
