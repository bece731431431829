"""How many of a thing there may be. Decided by the leader of the log that the thing is made in, on
all that it has applied and handed out, so that however many ask at once none is made too many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """None: any number. What is being deleted counts until it is gone."""

    basins: int | None = None
    """Of the account."""
    streams: int | None = None
    """Of each basin."""
    tokens: int | None = None
    """Access tokens of the account; there is a bound of the service's own above it."""


UNBOUNDED: Final = Quotas()
