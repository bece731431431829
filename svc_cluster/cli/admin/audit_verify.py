"""`svc-cluster admin audit verify`: whether audit logs are as they were written."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from svc_cluster.base.audit_chain import (
    START,
    ChainedLine,
    ChainHead,
    is_object,
    read_head,
    read_line,
    torn_hash,
)
from svc_cluster.cli.processes.audit_file import HEAD_SUFFIX, head_path

FINDINGS_MAX: Final = 100
"""Told one by one; of more, how many."""
LINE_BYTES_MAX: Final = 1 << 20
"""What is longer is no line."""


@dataclass(slots=True)
class Report:
    """What was found, in sentences that begin with file and line number."""

    findings: list[str] = field(default_factory=list)
    untold: int = 0
    """Findings beyond FINDINGS_MAX."""
    notes: list[str] = field(default_factory=list)
    """What a crash explains."""
    old: int = 0
    """Lines from before there was a chain."""
    first: ChainHead | None = None
    last: ChainHead | None = None
    chained: int = 0

    @property
    def summary(self) -> str:
        if self.first is None or self.last is None:
            return f"{self.old} lines, none with a chain"
        return (
            f"{self.chained} lines with a chain, {self.old} from before there was one; from "
            f"sequence {self.first.sequence} to sequence {self.last.sequence}, hash "
            f"{self.last.digest}"
        )

    def facts(self) -> dict[str, object]:
        """Return all of it for a program."""
        first, last = self.first, self.last
        return {
            "chained": self.chained,
            "unchained": self.old,
            "first_sequence": None if first is None else first.sequence,
            "last_sequence": None if last is None else last.sequence,
            "hash": None if last is None else str(last.digest),
            "notes": self.notes,
            "findings": self.findings,
            "findings_untold": self.untold,
        }

    def find(self, text: str) -> None:
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(text)
        else:
            self.untold += 1


def verify(paths: list[Path]) -> Report:
    """Look through the files in the order of their chains, whatever the order they are named in.
    What a pattern matches beside them, the places kept of chains, is no log. Raises OSError,
    ChainVersionError among them."""
    paths = [path for path in paths if path.suffix != HEAD_SUFFIX]
    # before the lines: what is written meanwhile is not missed
    kept = {path: _kept(path) for path in paths}
    walk = _LineWalk()
    for path in sorted(paths, key=_first_sequence):
        walk.file(path)
    walk.end()
    for path, head in kept.items():
        if head is not None:
            walk.compare(path, head)
    return walk.report


class _LineWalk:
    """One way through all lines."""

    def __init__(self) -> None:
        self.report = Report()
        self._fragments: list[bytes] = []
        """What is no line, since the last one that is."""
        self._fragments_at = ""
        self._changed: list[str] = []
        """Lines whose hash is not theirs, since the last one whose is."""
        self._changed_at_end = 0
        self._last_at = ""

    def file(self, path: Path) -> None:
        for number, raw, is_ended in lines_of(path):
            place = f"{path}:{number}"
            if not is_object(raw):
                if not is_ended:
                    self._unfinished(place, raw)
                    continue
                if not self._fragments:
                    self._fragments_at = place
                self._fragments.append(raw)
                continue
            try:
                line = read_line(raw)
            except OSError as cause:
                cause.filename = place
                raise
            if line is None:
                self._unchained(place)
            else:
                self._chained(place, line)
        self._no_lines()

    def _unfinished(self, place: str, raw: bytes) -> None:
        """The end of a file: where a process was killed, or the power went, in the middle, or is
        there now."""
        self.report.notes.append(
            f"{place}: {len(raw)} bytes of a line that a crash cut short, or that is being written"
        )

    def _no_lines(self) -> None:
        if self._fragments:
            self.report.find(f"{self._fragments_at}: no line of the log: changed or inserted")
        self._fragments = []

    def _unchained(self, place: str) -> None:
        self._no_lines()
        if self.report.last is None:
            self.report.old += 1
        else:
            self.report.find(f"{place}: has no chain, behind lines that have one: inserted, or cut")

    def _chained(self, place: str, line: ChainedLine) -> None:
        report = self.report
        report.chained += 1
        if line.torn is None:
            self._no_lines()
        elif self._fragments and torn_hash(b"\n".join(self._fragments)) == line.torn:
            report.notes.append(f"{self._fragments_at}: a line that a crash cut short")
            self._fragments = []
        elif self._fragments or line.is_whole:
            report.find(f"{place}: what a crash had left in front of it is missing or changed")
            self._fragments = []
        if not line.is_whole:
            self._changed.append(place)
            return
        self._place(place, line)

    def _place(self, place: str, line: ChainedLine) -> None:
        report, last = self.report, self.report.last
        sequence = line.head.sequence
        if last is None:
            report.first = line.head
            missing = sequence - 1 - len(self._changed)
            if not (line.begins_file or self._changed) or (missing > 0 and report.old):
                report.find(f"{place}: lines in front of sequence {sequence} are missing")
            self._tell_changed("changed")
        elif sequence <= last.sequence:
            self._tell_changed("changed or inserted")
            report.find(
                f"{place}: sequence {sequence} stands behind {last.sequence}: moved or repeated"
            )
            return
        elif sequence == last.sequence + 1:
            # what was put in between has no place of its own
            self._tell_changed("inserted")
            if line.previous != last.digest:
                report.find(f"{self._last_at}: replaced: {place} follows another line")
        else:
            missing = sequence - last.sequence - 1 - len(self._changed)
            self._tell_changed("changed")
            if missing > 0:
                report.find(f"{place}: {_sequences(last.sequence + 1, sequence)} in front missing")
        report.last, self._last_at = line.head, place

    def _tell_changed(self, word: str) -> None:
        for place in self._changed:
            self.report.find(f"{place}: {word}")
        self._changed = []

    def end(self) -> None:
        self._changed_at_end = len(self._changed)
        self._tell_changed("changed or inserted")

    def compare(self, path: Path, kept: ChainHead) -> None:
        """With the place that the file's writers have kept beside it."""
        last = self.report.last or START
        seen = last.sequence + self._changed_at_end
        if kept.sequence > seen:
            gone = _sequences(seen + 1, kept.sequence + 1)
            self.report.find(f"{path}: {gone} at the end missing, by {head_path(path)}")
        elif kept.sequence == last.sequence and kept.digest != last.digest:
            self.report.find(f"{self._last_at}: replaced, by {head_path(path)}")


def _sequences(first: int, end: int) -> str:
    return f"sequence {first}" if end - first == 1 else f"sequences {first} to {end - 1}"


def _opened(path: Path) -> IO[bytes]:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def lines_of(path: Path) -> Iterator[tuple[int, bytes, bool]]:
    """Number, bytes without newline, and whether there was one. What has none ends the file, though
    more may have come behind it since: its writer is in the middle of that line."""
    with _opened(path) as file:
        number = 0
        while raw := file.readline(LINE_BYTES_MAX):
            number += 1
            yield number, raw.removesuffix(b"\n"), raw.endswith(b"\n")
            if not raw.endswith(b"\n") and len(raw) < LINE_BYTES_MAX:
                return


def _first_sequence(path: Path) -> int:
    """By which a file comes before others; those without a chain come first."""
    for _, raw, _ in lines_of(path):
        with suppress(OSError):  # told where it stands
            line = read_line(raw)
            if line is not None and line.is_whole:
                return line.head.sequence
    return 0


def _kept(path: Path) -> ChainHead | None:
    try:
        return read_head(head_path(path).read_bytes())
    except FileNotFoundError:
        return None
