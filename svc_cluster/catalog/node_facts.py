"""What a node says of itself when it makes itself known: how it is reached, and where it runs."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Final

SINCE: Final = 3
"""The active version from which on this is written. A node says it in any case: one that came
back at another address may be found by nobody, and so never hear of the version."""

FACT_BYTES_MAX: Final = 256
"""What each of them has at most."""


@dataclass(frozen=True, slots=True)
class AnnouncedFacts:
    """Each is empty where it is not said."""

    link_address: str = ""
    """Where every other node and gateway reaches it, whatever their own settings say."""
    admin_address: str = ""
    """Where its administration is served."""
    host: str = ""
    """The machine that it runs on, and the zone that this is in: replicas of one group are spread
    over them."""
    zone: str = ""

    def is_bounded(self) -> bool:
        """Tells whether each of them is as short as it has to be."""
        return all(len(fact.encode()) <= FACT_BYTES_MAX for fact in astuple(self))


NO_FACTS: Final = AnnouncedFacts()
