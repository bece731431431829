"""What may be chosen about payload files, and how they say that they cannot be opened."""

from __future__ import annotations

from dataclasses import dataclass

from svc_cluster.storage.payload.payload_frame import BLOCK_BYTES


class PayloadFormatError(Exception):
    """The directory holds payload files that this process must not open. The text says what to
    do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadSettings:
    """Sizes in bytes. Files that are there are read whatever is chosen."""

    writes: bool = False
    """Large entries go into payload files. When false, no file gets anything more, and each goes
    when nothing needs it."""
    file_bytes: int = 64 * 1024 * 1024
    """Length of a new file; files of another length are used up as they are."""
    bulk_bytes_min: int = 16 * 1024
    """Shorter entries stay in the log, and shorter records of one batch in the state store."""
    dead_share_max: float = 0.25
    """Bytes that files hold in vain, by those that are needed, above which files get holes."""
    dead_files_max: int = 2
    """So many files' worth may be held in vain beside that."""

    open_files_max: int = 128
    """Files that are held open, beside those that are written and those that are being read. A
    read of another one opens it."""

    def __post_init__(self) -> None:
        if self.file_bytes < 2 * BLOCK_BYTES or self.file_bytes % BLOCK_BYTES:
            raise ValueError("file_bytes must be a multiple of 4096 and at least 8 KiB")
        if self.bulk_bytes_min < 1:
            raise ValueError("bulk_bytes_min must be positive")
        if self.open_files_max < 1:
            raise ValueError("open_files_max must be positive")
        if self.dead_share_max < 0 or self.dead_files_max < 0:
            raise ValueError("what may be held in vain must not be negative")
