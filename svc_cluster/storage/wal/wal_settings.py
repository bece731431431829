"""What may be chosen about the WAL, and how it says that it cannot be opened."""

from __future__ import annotations

from dataclasses import dataclass

from svc_cluster.storage.payload.payload_settings import PayloadSettings

_SEGMENT_BYTES_MIN = 16 * 1024


class WalFormatError(Exception):
    """The directory holds a WAL that this process must not open. The text says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WalSettings:
    """Sizes in bytes. `segment_bytes` must exceed the largest entry by at least 8 KiB + 1 KiB."""

    segment_bytes: int = 16 * 1024 * 1024
    """Length of a new segment file; files of another length are used up and then replaced. Two of
    them are what a quiet log keeps; a longer one only saves a few syncs."""
    batch_bytes_max: int = 16 * 1024 * 1024
    """What one sync may carry; more waits for the next one."""
    retain_bytes: int = 256 * 1024 * 1024
    """Used segments beyond this make `needs_release()` true."""
    free_segments_max: int = 0
    """Free segments kept beside the one that is ready next while a quiet log has no use for them;
    a busy one keeps as many as it uses."""
    reserve_bytes: int = 512 * 1024 * 1024
    """Free disk space below which `has_space()` is false and the WAL grows only if it must."""
    payload: PayloadSettings = PayloadSettings()
    """About the files that the bytes of large entries go into."""

    def __post_init__(self) -> None:
        if self.segment_bytes < _SEGMENT_BYTES_MIN or self.segment_bytes % 4096:
            raise ValueError("segment_bytes must be a multiple of 4096 and at least 16 KiB")
        if self.segment_bytes >= 1 << 32:
            raise ValueError("segment_bytes must be below 4 GiB")
        if self.batch_bytes_max < 1:
            raise ValueError("batch_bytes_max must be positive")
