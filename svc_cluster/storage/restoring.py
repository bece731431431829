"""The mark of a data directory that is being made from a backup: nothing in it is whole yet."""

from __future__ import annotations

from pathlib import Path
from typing import Final

RESTORING: Final = "restoring"
"""A file in the data directory."""


def is_half_restored(directory: Path) -> bool:
    """Whether a restore into this data directory has begun and not ended."""
    return (directory / RESTORING).exists()
