"""What messages say of words that a client has sent: bounded, printable, and in quotes.

Messages are for people, who see a request of theirs refused. They never say anything that the
request itself has not said, and never a secret: keys and tokens are not quoted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

QUOTED_CHARACTERS_MAX: Final = 64
"""Characters of a client's word that a message repeats; of a longer one the rest is left out."""


def quoted(text: str) -> str:
    """The word between backticks. What cannot be printed in it is `?`; behind the first
    QUOTED_CHARACTERS_MAX characters there are three dots."""
    shown = text[:QUOTED_CHARACTERS_MAX]
    if not shown.isprintable() or "`" in shown:
        shown = "".join([one if one.isprintable() and one != "`" else "?" for one in shown])
    return f"`{shown}...`" if len(text) > QUOTED_CHARACTERS_MAX else f"`{shown}`"


def listed(words: Iterable[str]) -> str:
    """The words that there are, each between backticks, in their order."""
    return ", ".join([f"`{word}`" for word in words])
