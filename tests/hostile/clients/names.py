"""What the scene has made before an attack, by name."""

from __future__ import annotations

from typing import Final

BIG_BASIN: Final = "hostile-basin"
BIG_STREAM: Final = "big"
BIG_RECORD_BYTES: Final = 900_000
LOG_STREAM: Final = "log"
LOG_RECORDS: Final = 40
LOG_RECORD_BYTES: Final = 100_000

AUTO_BASIN: Final = "auto-basin"
"""Its streams are made by whoever reads or appends."""
