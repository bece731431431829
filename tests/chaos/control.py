"""Orders to a process that runs under the ledger shim: a small file that both have in memory.

The layout is `struct control` of tests/e2e/shim/ledger.c.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Final

_FIELDS: Final = (
    "calls",
    "kill_at",
    "clock_offset_ns",
    "sync_delay_us",
    "fail_sync",
    "space",
    "trace",
    "clock_reads",
)
_LAST_OFFSET: Final = 8 * len(_FIELDS)
_BYTES: Final = _LAST_OFFSET + 448


class Control:
    """One process's orders, in force at once. `env` puts a process under them."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        if not path.exists():
            path.write_bytes(bytes(_BYTES))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _BYTES)

    def env(self) -> dict[str, str]:
        return {"LEDGER_CONTROL": str(self.path)}

    def get(self, field: str) -> int:
        value: int = struct.unpack_from("<q", self._map, 8 * _FIELDS.index(field))[0]
        return value

    def put(self, field: str, value: int) -> None:
        struct.pack_into("<q", self._map, 8 * _FIELDS.index(field), value)

    def clear(self) -> None:
        """No order at all, and counts from 0."""
        self._map[:] = bytes(_BYTES)

    def ease(self) -> None:
        """No order at all; counts go on."""
        for field in ("kill_at", "clock_offset_ns", "sync_delay_us", "fail_sync", "space", "trace"):
            self.put(field, 0)

    @property
    def last(self) -> str:
        """The call that SIGKILL replaced: its number, its kind and the file; empty for none."""
        return bytes(self._map[_LAST_OFFSET:]).split(b"\0")[0].decode(errors="replace").strip()
