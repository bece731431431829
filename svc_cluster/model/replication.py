"""How many replicas a basin's group may be made with."""

from __future__ import annotations

from typing import Final

REPLICATION_FACTORS: Final = (1, 3, 5)
"""One replica more than one of these bears no more losses. 1 bears none."""
