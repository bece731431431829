"""Files of one JSON object a line, appended to by processes that may be killed at any byte.

A line counts once its newline is there. What a killed process left of one is not read, and is cut
away before the next line is written, so that two lines never become one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Row = dict[str, Any]


class LineError(ValueError):
    """A whole line that is not an object: damage, not a run that was killed."""


def read_rows(path: Path) -> list[Row]:
    """Every whole line, in order; none where there is no file. Raises LineError."""
    if not path.exists():
        return []
    whole, _, _ = path.read_bytes().rpartition(b"\n")
    rows: list[Row] = []
    for number, line in enumerate(whole.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise LineError(f"{path}, line {number}: {error}") from error
        if not isinstance(row, dict):
            raise LineError(f"{path}, line {number} is not an object")
        rows.append(row)
    return rows


def append_row(path: Path, row: Row) -> None:
    """One more whole line, synced: behind a power cut a run is not repeated for a lost record."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as out:
        out.seek(0)
        held = out.read()
        if held and not held.endswith(b"\n"):
            out.truncate(held.rfind(b"\n") + 1)
        out.write(text_of(row))
        out.flush()
        os.fsync(out.fileno())


def replace_rows(path: Path, rows: Iterable[Row]) -> None:
    """The file holds these rows, or those of before: never some of them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    beside.write_bytes(b"".join(map(text_of, rows)))
    beside.replace(path)


def text_of(row: Row) -> bytes:
    return json.dumps(row, separators=(",", ":")).encode() + b"\n"
