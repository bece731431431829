"""This is the demonstration's text. It is every source file of the installed Python standard
library, a line a record. A file's beginning is marked by a record with its path in a header."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from svc_cluster.lab.api_client import AppendRecord

BATCH_RECORDS_MAX: Final = 1000
BATCH_METERED_BYTES_MAX: Final = 1024 * 1024
PATH_HEADER: Final = b"path"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file: its path below the library's directory, and its bytes."""

    path: str
    content: bytes

    def records(self) -> list[AppendRecord]:
        """The boundary, then every line with its terminator."""
        boundary = AppendRecord(b"", ((PATH_HEADER, self.path.encode()),))
        return [boundary, *(AppendRecord(line) for line in self.content.splitlines(keepends=True))]


def standard_library() -> list[SourceFile]:
    """All of it, in the order of the paths, without what was installed beside it."""
    top = Path(sysconfig.get_path("stdlib"))
    files: list[SourceFile] = []
    for path in sorted(top.rglob("*.py")):
        relative = path.relative_to(top)
        if not {"site-packages", "dist-packages"} & set(relative.parts) and path.is_file():
            files.append(SourceFile(relative.as_posix(), path.read_bytes()))
    return files


def batches(records: Iterator[AppendRecord]) -> Iterator[Sequence[AppendRecord]]:
    """Cut records into batches of at most 1000 records and 1 MiB metered."""
    batch: list[AppendRecord] = []
    size = 0
    for record in records:
        metered = record.metered_bytes()
        if batch and (len(batch) == BATCH_RECORDS_MAX or size + metered > BATCH_METERED_BYTES_MAX):
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += metered
    if batch:
        yield batch
