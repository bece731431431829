"""The environment has what the locks say, whichever verb comes first and whatever a pull brings."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]

TOOL: Final = """#!/bin/bash
# Stands for Python, for what an environment has, and for an index of packages: it notes each pin.
set -eu
if [ "$1 ${2:-}" = "-m venv" ]; then
    mkdir -p "$3/bin" "$3/installed"
    for name in python pip svc-cluster; do
        cp "$0" "$3/bin/$name.new"
        mv "$3/bin/$name.new" "$3/bin/$name"
    done
    exit 0
fi
while [ $# -gt 0 ]; do
    if [ "$1" = -r ]; then
        while IFS="=" read -r name _ version; do
            echo "$version" >"$(dirname "$0")/../installed/$name"
        done <"$2"
        echo "$2" >>installs
    fi
    shift
done
"""
LOCKS: Final = {
    "build": {"pip": "25", "wheel": "1"},
    "run": {"wire": "1"},
    "dev": {"pip": "26", "wire": "1", "checker": "1"},
    "clients": {"client": "1"},
    "audit": {"advisories": "1"},
}


class Clone:
    """A folder with the real Makefile, and with locks and tools of its own."""

    def __init__(self, place: Path) -> None:
        self.place = place
        (place / ".ci").mkdir()
        (place / "requirements").mkdir()
        for name in ("Makefile", "pyproject.toml", ".ci/check-python"):
            shutil.copy(ROOT / name, place / name)
        self.locks: dict[str, dict[str, str]] = {}
        for name, pins in LOCKS.items():
            self.pull(name, **pins)
        self.tool = place / "python"
        self.tool.write_text(TOOL)
        self.tool.chmod(0o755)

    def pull(self, lock: str, **pins: str) -> None:
        """Change a lock, behind all that was made before."""
        self.locks[lock] = self.locks.get(lock, {}) | pins
        text = "".join(f"{name}=={version}\n" for name, version in self.locks[lock].items())
        (self.place / "requirements" / f"{lock}.lock").write_text(text)

    def make(self, *verb: str) -> list[str]:
        """Return the locks that were installed for it, in their order."""
        log = self.place / "installs"
        log.write_text("")
        command = ["make", "--no-print-directory", *verb, f"PYTHON={self.tool}"]
        environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        done = subprocess.run(
            command, cwd=self.place, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return log.read_text().split()

    def has(self, lock: str) -> bool:
        """Whether everything is there as that lock says."""
        folder = self.place / ".venv" / ("clients" if lock == "clients" else "") / "installed"
        return all(
            (folder / name).is_file() and (folder / name).read_text().strip() == version
            for name, version in self.locks[lock].items()
        )


def right(clone: Clone, verb: str) -> None:
    """Whether this verb has what it needs, and asks for nothing the second time."""
    clone.make(verb)
    if verb == "run":
        assert clone.has("run")
    else:
        assert clone.has("dev") and clone.has("clients")
    assert clone.make(verb) == []


ORDERS: Final = [("run", "test"), ("test", "run")]
orders = pytest.mark.parametrize("verbs", ORDERS)


@orders
def test_a_fresh_clone_has_what_each_verb_needs(tmp_path: Path, verbs: tuple[str, str]) -> None:
    """In any order; and for a quick start nothing of the developers."""
    clone = Clone(tmp_path)
    right(clone, verbs[0])
    assert clone.has("dev") == (verbs[0] == "test")
    right(clone, verbs[1])


@orders
@pytest.mark.parametrize(
    "pulled",
    [
        {"run": {"wire": "2", "more": "1"}, "dev": {"wire": "2", "more": "1"}},
        {"run": {"more": "1"}},
        {"build": {"wheel": "2"}},
        {"dev": {"checker": "2"}},
        {"clients": {"client": "2"}},
    ],
    ids=lambda pulled: "-".join(pulled),
)
@pytest.mark.parametrize("first", ["run", "test"])
def test_a_pull_with_other_locks_is_followed_by_each_verb(
    tmp_path: Path, first: str, pulled: dict[str, dict[str, str]], verbs: tuple[str, str]
) -> None:
    """Whatever was made before it, and in any order behind it: no new code on old packages."""
    clone = Clone(tmp_path)
    clone.make(first)
    for lock, pins in pulled.items():
        clone.pull(lock, **pins)
    for verb in verbs:
        right(clone, verb)


def test_advisories_that_not_all_may_use_are_installed_on_request_alone(tmp_path: Path) -> None:
    """The audit does without them unless it is told that they are wanted."""
    clone = Clone(tmp_path)
    clone.make("setup")
    assert clone.make("audit") == []
    assert clone.make("audit", "KEPT=yes") == ["requirements/audit.lock"]
