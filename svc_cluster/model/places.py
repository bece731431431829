"""This says who has the place of a node whose data directory was lost.

The directories with which a cluster was formed have the ordinal 0. Each that takes a place has the
next ordinal of that node, from the catalog, so that of two directories the later one is known, also
where the catalog lags.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from svc_cluster.base.ids import NodeId

PLACES_MAX: Final = 64
"""Nodes of a cluster whose place was ever given to another directory: all of them stand in every
greeting."""
ORDINAL_MAX: Final = 2**31
INCARNATION_CHARACTERS: Final = 32
"""Lower-case hexadecimal digits."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A Place is a node's, with the directory that has it. Of all that are known the one with the
    highest ordinal counts, for ever."""

    node_id: NodeId
    ordinal: int
    """1 to ORDINAL_MAX."""
    incarnation: str


Places = tuple[Place, ...]
"""Each node once, in the order of the ids. A node that is not there has its first directory."""


def are_places(places: Places) -> bool:
    """Whether it is a list as described at `Places`, within the bounds."""
    ids = [place.node_id for place in places]
    return (
        len(places) <= PLACES_MAX
        and ids == sorted(set(ids))
        and all(place.node_id > 0 and 0 < place.ordinal <= ORDINAL_MAX for place in places)
        and all(is_incarnation(place.incarnation) for place in places)
    )


def merged(*lists: Iterable[Place]) -> Places:
    """The highest ordinal of each node; of equal ones that of the first list."""
    found: dict[NodeId, Place] = {}
    for places in lists:
        for place in places:
            known = found.get(place.node_id)
            if known is None or place.ordinal > known.ordinal:
                found[place.node_id] = place
    return tuple(sorted(found.values()))


def place_of(node_id: NodeId, places: Places) -> Place | None:
    """The place that this node's directory took; None where it has its first one."""
    return next((place for place in places if place.node_id == node_id), None)


def is_incarnation(text: str) -> bool:
    """Whether it can be the incarnation of a data directory."""
    return len(text) == INCARNATION_CHARACTERS and set(text) <= set("0123456789abcdef")
