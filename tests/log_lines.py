"""What is read of a file that another process still writes: its whole lines.

A line is one write of its process, and a reader may still see the beginning of it alone: a file
grows piece by piece while the system copies what is written into it. What stands behind the last
newline is not there yet.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def whole_text(path: Path) -> str:
    """The file up to its last newline, that included; nothing of a file that is not there yet."""
    data = path.read_bytes() if path.exists() else b""
    return data[: data.rfind(b"\n") + 1].decode(errors="replace")


def whole_lines(path: Path) -> list[str]:
    """The lines that have their end, without it."""
    return whole_text(path).split("\n")[:-1]


def json_lines(path: Path) -> list[dict[str, Any]]:
    """The lines that have their end, each an object. Raises ValueError for one that is none: it is
    whole, and so it is wrong."""
    return [json.loads(line) for line in whole_lines(path)]
