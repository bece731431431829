"""What long runs of the simulators leave behind: their progress, and a line in the results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.json_lines import append_row, read_rows
from tests.prove.covered import digest
from tests.reliability import RunLog


def record(
    log: RunLog, kind: str, first: int, count: int, failures: list[int], facts: Mapping[str, Any]
) -> str:
    """Append the outcome of the seeds `[first, first + count)` to a log; says so."""
    fields = {"kind": kind, "seeds": [first, first + count], "failures": failures, **facts}
    log.add(fields)
    return f"recorded in {log.path}: {json.dumps(fields)}"


class Progress:
    """Which seeds a long run is done with, kept in a file so that it can be taken up again.

    A line of JSON for each seed: its number, whether it failed, and what it came to; half a line,
    of a run that was killed, is none. The first line is the digest of the files that the kind of
    run is about: progress on other files is refused with ValueError.
    """

    def __init__(self, path: Path | None, kind: str) -> None:
        self.done: dict[int, dict[str, Any]] = {}
        self._path = path
        if path is None:
            return
        here = digest(kind)
        rows = read_rows(path)
        if not rows:
            append_row(path, {"files": here})
            return
        of = rows[0].get("files")
        if of != here:
            raise ValueError(f"{path} belongs to the files {of}, these are {here}")
        self.done = {facts["seed"]: facts for facts in rows[1:]}

    def note(self, seed: int, **facts: Any) -> None:
        self.done[seed] = {"seed": seed, **facts}
        if self._path is not None:
            append_row(self._path, self.done[seed])

    def leave(self, wanted: range) -> None:
        """Forget what is not among `wanted`: a result says only what of these seeds was run."""
        self.done = {seed: self.done[seed] for seed in wanted if seed in self.done}

    def total(self, name: str) -> Any:
        return sum(facts.get(name, 0) for facts in self.done.values())

    def failures(self) -> list[int]:
        return sorted(seed for seed, facts in self.done.items() if facts["failed"])
