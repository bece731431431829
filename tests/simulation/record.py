"""What long runs of the simulators leave behind: their progress, and a line in the results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.reliability import RunLog, commit


def record(kind: str, first: int, count: int, failures: list[int], facts: Mapping[str, Any]) -> str:
    """Append the outcome of the seeds `[first, first + count)` to
    docs/reliability/simulation.jsonl; says so."""
    fields = {"kind": kind, "seeds": [first, first + count], "failures": failures, **facts}
    log = RunLog("simulation")
    log.add(fields)
    return f"recorded in {log.path}: {json.dumps(fields)}"


class Progress:
    """Which seeds a long run is done with, kept in a file so that it can be taken up again.

    A line of JSON for each seed: its number, whether it failed, and what it came to. The first line
    is the commit: a file of another one is refused with ValueError.
    """

    def __init__(self, path: Path | None) -> None:
        self.done: dict[int, dict[str, Any]] = {}
        self._path = path
        if path is None:
            return
        here = commit()
        if not path.exists():
            path.write_text(json.dumps({"commit": here}) + "\n")
            return
        lines = path.read_text().splitlines()
        of = json.loads(lines[0])["commit"]
        if of != here:
            raise ValueError(f"{path} belongs to commit {of}, this is {here}")
        for line in lines[1:]:
            facts = json.loads(line)
            self.done[facts["seed"]] = facts

    def note(self, seed: int, **facts: Any) -> None:
        self.done[seed] = {"seed": seed, **facts}
        if self._path is not None:
            with self._path.open("a") as out:
                out.write(json.dumps(self.done[seed], separators=(",", ":")) + "\n")

    def total(self, name: str) -> Any:
        return sum(facts.get(name, 0) for facts in self.done.values())

    def failures(self) -> list[int]:
        return sorted(seed for seed, facts in self.done.items() if facts["failed"])
