"""A copy of the tree in which a mutant stands while its guard runs.

What the guard starts imports the copy too: the copy is first in PYTHONPATH, which comes before the
installed package, and every copy is asked for that before it is used.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.mutants.catalogue import Mutant, MutantError

_RED: Final = 1
"""pytest's status where tests ran and some failed; 0 is green, everything else is no judgement."""

_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+::\S.*?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a guard said. `by` is the first test that failed; `status` is pytest's, None when it did
    not end in time."""

    status: int | None
    by: str | None
    seconds: float
    text: str

    @property
    def red(self) -> bool:
        return self.status == _RED and self.by is not None


class Copy:
    """The tree at `root` once more, in a directory of its own."""

    def __init__(self, root: Path) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="svc-mutant-")).resolve()
        for name in _names(root):
            target = self.path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target, follow_symlinks=False)
        environment = root / ".venv"
        if environment.is_dir():
            (self.path / ".venv").symlink_to(environment.resolve())
        self._check_imports()

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def environment(self) -> dict[str, str]:
        return os.environ | {"PYTHONPATH": str(self.path), "RECORD": "0"}

    def _check_imports(self) -> None:
        """A child process, wherever it stands, imports the copy."""
        ask = "import svc_cluster; print(svc_cluster.__file__)"
        done = subprocess.run(
            [sys.executable, "-c", ask],
            cwd="/",
            env=self.environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        if not done.stdout.startswith(str(self.path)):
            raise MutantError(f"child processes import {done.stdout.strip()}, not the copy")

    def run(self, guard: Sequence[str], seconds_max: float) -> Verdict:
        """Run the guard to its first failure, at most `seconds_max`; what it started is ended."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=line", "-rfE"]
        command += ["-p", "no:cacheprovider", *guard]
        started = time.monotonic()
        with tempfile.TemporaryFile("w+") as out:
            process = subprocess.Popen(
                command,
                cwd=self.path,
                env=self.environment(),
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
            status: int | None
            try:
                status = process.wait(seconds_max)
            except subprocess.TimeoutExpired:
                status = None
            finally:
                _end(process)
            out.seek(0)
            text = out.read()
        found = _FAILED.search(text)
        by = None if found is None else found[1]
        return Verdict(status, by, time.monotonic() - started, text)

    def run_mutated(self, mutant: Mutant, seconds_max: float) -> Verdict:
        """The same with the mutant in the copy. Raises MutantError where it does not apply."""
        before = {file: (self.path / file).read_text() for file in mutant.texts(self.path)}
        for file, text in mutant.texts(self.path).items():
            self._write(file, text)
        try:
            return self.run(mutant.guard, seconds_max)
        finally:
            for file, text in before.items():
                self._write(file, text)

    def _write(self, file: str, text: str) -> None:
        path = self.path / file
        path.write_text(text)
        # the same length in the same second would pass for what was compiled before
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()


def _end(process: subprocess.Popen[bytes]) -> None:
    """The guard and what it left behind in its session's group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _names(root: Path) -> list[str]:
    """What belongs to the tree: tracked, or new and not ignored."""
    done = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    return [name for name in done.stdout.split("\0") if name and (root / name).is_file()]
