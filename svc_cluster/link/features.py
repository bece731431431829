"""What a process can do beyond the version of the protocol, by the names in its greeting.

A message may have a part that belongs to a feature only where the side that reads it has named
that: another would skip it without a word.
"""

from __future__ import annotations

from typing import Final

STAGES: Final = "stages"
"""The caller takes answers to appends that say where their time went on the leader."""

TRACES: Final = "traces"
"""A node tells of sampled appends: it takes their trace context with requests, and of entries."""

REST: Final = "rest"
"""A node says that it is there, and lets groups that have nothing to do fall silent."""

PIECES: Final = "pieces"
"""A node goes on with a snapshot that was broken off: it tells what it holds, and of what, in
pieces."""

JOIN: Final = "join"
"""A node that the cluster does not know yet asks to be let in, and for nothing else before."""


def features_of_node(*, rests: bool, traces: bool, comes: bool = False) -> tuple[str, ...]:
    """What a node names of its own, as far as it takes part in it."""
    return (PIECES,) + (REST,) * rests + (TRACES,) * traces + (JOIN,) * comes
