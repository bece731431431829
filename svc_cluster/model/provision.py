"""What became of a request that something be there."""

from __future__ import annotations

from enum import IntEnum


class Provision(IntEnum):
    """The numbers travel between nodes and gateways."""

    CREATED = 1
    UPDATED = 2
    NOOP = 3
    """It was there already, as it was asked for."""
