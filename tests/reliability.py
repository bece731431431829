"""Long runs write what came of them into docs/reliability/*.jsonl, one line a run or round."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from tests.json_lines import append_row, read_rows
from tests.prove.covered import COVERED, digest, native_core_is_old

ROOT: Final = Path(__file__).resolve().parent.parent
DIRECTORY: Final = ROOT / "docs" / "reliability"
CHANGED: Final = "changed"
"""What stands for the digest of files that were not the same all through a run."""

Digest = Callable[[], str]

_RECORDED: Final = os.environ.get("RECORD") == "1"
_AT_IMPORT: Final = {kind: digest(kind) for kind in COVERED} if _RECORDED else {}
"""What a test that records itself began with."""


class RunLog:
    """One file of results, appended to. It is made before the run: a run whose files change while
    it runs is of no files in particular, and never counts."""

    def __init__(
        self, name: str, directory: Path = DIRECTORY, *, kind: str = "", of: Digest | None = None
    ) -> None:
        if native_core_is_old():
            raise RuntimeError("the native core is older than its source: `make setup`")
        self.path = directory / f"{name}.jsonl"
        self._digest = of or (lambda: digest(kind or name))
        self._at_first = self._digest()
        self._commit = commit()

    def add(self, fields: dict[str, Any]) -> None:
        """One more line; commit, date, machine and the digest of what it is about come first."""
        now = self._digest()
        stamp = {
            "commit": self._commit,
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "machine": machine(),
            "files": now if now == self._at_first else CHANGED,
        }
        append_row(self.path, stamp | fields)

    def rows(self) -> list[dict[str, Any]]:
        return read_rows(self.path)

    def last(self, field: str) -> int:
        """The highest number in a field so far; 0 for none."""
        return max((int(row.get(field, 0)) for row in self.rows()), default=0)


def record_if_asked(name: str, fields: dict[str, Any]) -> None:
    """For tests that are also run for long: a line in the log where RECORD=1 is set."""
    if not _RECORDED:
        return
    digests = iter((_AT_IMPORT[name],))
    RunLog(name, of=lambda: next(digests, digest(name))).add(fields)


@contextlib.contextmanager
def failure_recorded(name: str, fields: Callable[[], dict[str, Any]]) -> Iterator[None]:
    """What ends the block is in the log as well, beside what `fields` says of the run so far: a
    failure that leaves no line would be in no figure."""
    try:
        yield
    except BaseException as error:
        text = f"{type(error).__name__}: {error}"[:500]
        record_if_asked(name, {**fields(), "failed": text})
        raise


def machine() -> str:
    """What a run ran on, without its name: system, processors, memory."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return (
        f"{platform.system()} {'.'.join(platform.release().split('.')[:2])} {platform.machine()}, "
        f"{os.cpu_count()} cores, {round(pages / 2**30)} GiB, Python {platform.python_version()}"
    )


def commit() -> str:
    """The checkout's commit, with `+` behind it when the product differs from it."""
    try:
        head = git("rev-parse", "--short=12", "HEAD")
        return head + ("+" if git("status", "--porcelain", "--", "svc_cluster") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def git(*arguments: str) -> str:
    """A reading git command's output. Raises OSError, CalledProcessError."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()
