"""Bounds of what is held in memory or done in one go, by the part that obeys them."""

from __future__ import annotations

from typing import Final

# -- conversations between processes

MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024
"""A message that is longer is not received: it ends the conversation that it came on."""

# -- streams of a basin

BATCH_RECORDS_MAX: Final = 1000
"""Records of one batch."""

BATCH_METERED_BYTES_MAX: Final = 1_048_576
"""Metered bytes of one batch."""

FREEZE_REASON_BYTES_MAX: Final = 256
"""The reason for which a basin is frozen has so many at most; each refused append is told it."""

STREAM_STATES_CACHED_MAX: Final = 4096
"""Stream states one replica keeps decoded; the others are read from the store when needed."""

READ_BYTES_MAX: Final = 1024 * 1024
"""A read step ends with the batch that reaches this many record bytes."""

READ_BATCHES_MAX: Final = 4096
"""A read step ends after so many batches, however small they are."""

READ_SKIPPED_BYTES_MAX: Final = 4 * 1024 * 1024
"""A read step ends after skipping this many bytes of expired batches."""

RETENTION_STEP_BYTES_MAX: Final = 4 * 1024 * 1024
"""A retention step ends after looking at this many bytes of expired batches."""

RETENTION_STEP_BATCHES_MAX: Final = 1024
"""A retention step ends after looking at this many expired batches."""
