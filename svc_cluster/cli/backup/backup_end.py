"""The end of `svc-cluster backup`.

What speaks to buckets brings threads of its own, and nobody can wait for them. One of them that
has just told the event loop of an answer takes the interpreter's lock once more; where the
interpreter is being taken apart by then, the process is aborted (status 134) behind a command that
has come to its end. So the interpreter is not taken apart: everything is on the disk by then.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from typing import Final, NoReturn

EXIT_UNTOLD: Final = 120
"""What was said is not where it should be: as the interpreter itself ends then."""


def end_at_once(command: Callable[[], object]) -> NoReturn:
    """Run the command, and end the process with its status as soon as what it said is out. A fault
    of the program itself goes on to the interpreter."""
    status = 0
    try:
        command()
    except SystemExit as end:
        if isinstance(end.code, str):
            raise
        status = end.code or 0
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        status = status or EXIT_UNTOLD
    os._exit(status)
