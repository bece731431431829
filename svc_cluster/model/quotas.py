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
    chain_basins: int | None = None
    """Basins made with an access token that the root token issued (or nobody's), or with those that
    came from it, together."""
    chain_tokens: int | None = None
    """Access tokens of such a chain, its first among them."""
    stored_bytes: int | None = None
    """Metered bytes that a basin stores: no more is appended from there on. What is on its way when
    it is reached, and trims, may go beyond it."""


UNBOUNDED: Final = Quotas()
