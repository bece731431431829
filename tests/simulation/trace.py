"""The record of a run: one line per fact, in virtual time, and a digest over all of it.

The digest is kept even when the lines are not, so that two runs can be compared cheaply.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable


class Trace:
    """Collects `time kind fields` lines. `keep` holds the lines; `sink` is given each one."""

    __slots__ = ("_digest", "_now", "_sink", "keep", "lines")

    def __init__(
        self,
        now: Callable[[], float],
        *,
        keep: bool = False,
        sink: Callable[[str], None] | None = None,
    ) -> None:
        self.keep = keep
        self.lines: list[str] = []
        self._now = now
        self._sink = sink
        self._digest = 0

    @property
    def wants_detail(self) -> bool:
        """Whether facts about single messages are worth formatting at all."""
        return self.keep or self._sink is not None

    @property
    def digest(self) -> int:
        """32 bits over every fact so far, whether its line was kept or not."""
        return self._digest

    def fact(self, kind: str, *fields: object) -> None:
        """A rare fact: always in the digest."""
        line = f"{self._now():.6f} {kind}"
        if fields:
            line += " " + " ".join(map(str, fields))
        self._digest = zlib.crc32(line.encode(), self._digest)
        if self.keep:
            self.lines.append(line)
        if self._sink is not None:
            self._sink(line)

    def data(self) -> bytes:
        return "\n".join([*self.lines, f"digest {self._digest:08x}", ""]).encode()
