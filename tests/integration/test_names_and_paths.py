"""No name that a client gives ever becomes a path."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.names_and_paths import ELSEWHERE, MARK

OWN = re.compile(
    r"secret|audit\.log(\.chain)?|node-1(/[-.\w]+)?|node-1/wal/[-.\w]+|node-1/state/[-.\w]+(/[-.\w]+)?"
    r"|node-1/state\.aside/[-.\w]+"
)
"""What a server may have in its directory."""
WRITES = re.compile(
    r"O_(WRONLY|RDWR|CREAT)|^\d+ +(mkdir|rename|unlink|rmdir|link|symlink|truncate|chmod|mknod)"
)
PATH = re.compile(r'"((?:[^"\\]|\\.)*)"')


def run_server(directory: Path, *prefix: str) -> None:
    command = [*prefix, sys.executable, "-m", "tests.integration.names_and_paths", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "started" in done.stdout


@pytest.mark.timeout(300)
def test_names_never_become_paths(tmp_path: Path) -> None:
    """Streams, tokens, basins and locations named like paths: no system call with a path has any of
    the names in it, nothing outside the server's directory is opened for writing, and what is in
    there afterwards has names of the server's own making."""
    directory, trace = tmp_path / "server", tmp_path / "trace"
    directory.mkdir()
    traced = _tracer(trace)
    run_server(directory, *traced)
    made = [path.relative_to(directory).as_posix() for path in directory.rglob("*")]
    assert len(made) > 5
    assert [name for name in made if not OWN.fullmatch(name) or MARK in name] == []
    assert not Path(ELSEWHERE).exists()
    if not traced:
        pytest.skip("system calls cannot be watched here; the directory is as it should be")
    calls = trace.read_text(errors="replace").splitlines()
    assert len(calls) > 100
    assert [line for line in calls if MARK in line] == []
    written = [line for line in calls if WRITES.search(line)]
    paths = {path for line in written for path in PATH.findall(line)}
    assert any(path.startswith(str(directory)) for path in paths)
    outside = {path for path in paths if path.startswith("/") and not _is_allowed(path, directory)}
    assert outside == set()


def _tracer(trace: Path) -> list[str]:
    """A command in front of which file names in system calls are written to `trace`; none where
    that is not possible."""
    strace = shutil.which("strace")
    if strace is None:
        return []
    command = [
        strace,
        "-f",
        "--seccomp-bpf",
        "-qq",
        "-s",
        "4096",
        "-e",
        "trace=%file",
        "-o",
        str(trace),
    ]
    probe = subprocess.run([*command, "true"], capture_output=True, check=False)
    return command if probe.returncode == 0 else []


def _is_allowed(path: str, directory: Path) -> bool:
    return path.startswith((str(directory), "/dev/", "/proc/self/"))
