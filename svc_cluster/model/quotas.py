"""How many of a thing there may be. Decided by the leader of the log that the thing is made in, on
all that it has applied and handed out, so that however many ask at once none is made too many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """None: any number. What is being deleted counts until it is gone."""

    basins: int | None = None
    """How many basins the account may have."""
    streams: int | None = None
    """How many streams each basin may have."""
    tokens: int | None = None
    """Access tokens of the account; there is a bound of the service's own above it."""
    chain_basins: int | None = None
    """Basins made with an access token that the root token issued (or nobody's), or with those that
    came from it, together."""
    chain_tokens: int | None = None
    """Access tokens of such a chain, its first among them."""
    account_streams: int | None = None
    """Streams of all basins together. Each basin reserves its own quota of them when it is made."""
    account_stored_bytes: int | None = None
    """Metered bytes that all basins store, in the same way."""
    chain_streams: int | None = None
    chain_stored_bytes: int | None = None
    """The same of the basins of a chain."""
    stored_bytes: int | None = None
    """Metered bytes that a basin stores: no more is appended from there on. What is on its way when
    it is reached, and trims, may go beyond it."""

    @property
    def account_basins(self) -> int | None:
        """Return how many basins there may be, by all quotas. Each basin reserves as many streams
        and bytes as it may have, so that the sum is never above the account's, whatever is made in
        basins at the same time."""
        return self._room(self.basins, self.account_streams, self.account_stored_bytes)

    @property
    def basins_of_chain(self) -> int | None:
        """The same of a chain."""
        return self._room(self.chain_basins, self.chain_streams, self.chain_stored_bytes)

    def _room(
        self, basins: int | None, streams: int | None, stored_bytes: int | None
    ) -> int | None:
        most = [] if basins is None else [basins]
        for whole, part in ((streams, self.streams), (stored_bytes, self.stored_bytes)):
            if whole is not None:
                assert part is not None, (
                    "the settings see to it that a basin has a quota to reserve"
                )
                most.append(whole // part)
        return min(most, default=None)


UNBOUNDED: Final = Quotas()
