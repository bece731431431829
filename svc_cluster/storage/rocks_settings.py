"""What may be chosen about the state store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from svc_cluster.storage.read_pool import ReadPoolSettings

WRITE_BUFFER_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RocksSettings:
    """Sizes in bytes, and numbers of things. Raises ValueError for a number of tables below 1."""

    write_buffer_bytes: int = WRITE_BUFFER_BYTES
    write_buffers: int = 4
    block_cache_bytes: int = 128 * 1024 * 1024
    background_jobs: int = 2
    level_zero_stop_files: int = 36
    """Files of level 0 at which writes are refused until compaction has caught up."""
    open_files_max: int = 256
    """Tables that are held open. Each also takes memory for its index, some hundred KiB."""
    compacts: bool = True
    """Where the store is read once and has damage, a compaction that met it would end all writes,
    also of what is whole."""
    reads: ReadPoolSettings = ReadPoolSettings()

    def __post_init__(self) -> None:
        if self.open_files_max < 1:  # the library takes -1 for no bound at all
            raise ValueError("open_files_max must be positive")
