"""Long runs write what came of them into docs/reliability/*.jsonl, one line a run or round."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
DIRECTORY: Final = ROOT / "docs" / "reliability"


class RunLog:
    """One file of results, appended to."""

    def __init__(self, name: str, directory: Path = DIRECTORY) -> None:
        self.path = directory / f"{name}.jsonl"

    def add(self, fields: dict[str, Any]) -> None:
        """One more line: `commit` and `date` come first."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = {"commit": commit(), "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        with self.path.open("a") as out:
            out.write(json.dumps(line | fields, separators=(",", ":")) + "\n")

    def rows(self) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text().splitlines() if line.strip()]

    def last(self, field: str) -> int:
        """The highest number in a field so far; 0 for none."""
        return max((int(row.get(field, 0)) for row in self.rows()), default=0)


def record_if_asked(name: str, fields: dict[str, Any]) -> None:
    """For tests that are also run for long: a line in the log where RECORD=1 is set."""
    if os.environ.get("RECORD") == "1":
        RunLog(name).add(fields)


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
