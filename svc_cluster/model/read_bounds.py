"""Where a read starts and where it stops."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class StartKind(IntEnum):
    SEQ_NUM = 0
    TIMESTAMP = 1
    TAIL_OFFSET = 2
    FIRST_RETAINED = 3


@dataclass(frozen=True, slots=True)
class ReadStart:
    """`value` by kind: a sequence number, Unix milliseconds, records before the tail, or unused."""

    kind: StartKind
    value: int = 0
    clamp: bool = False
    """A start beyond the tail becomes the tail instead of an error."""


@dataclass(frozen=True, slots=True)
class ReadBounds:
    """None: unbounded. `until_ms` is exclusive. A record is included only if it exceeds neither
    the remaining count nor the remaining metered bytes."""

    count: int | None = None
    metered_bytes: int | None = None
    until_ms: int | None = None
    portion_bytes: int | None = None
    """No bound of the read but of one answer to it: about so many stored bytes, and at least a
    batch. None: what a node gives at most (1 MiB)."""
