"""What groups and nodes bear, and how the planner weighs it: replicas, bytes and appends. Pure.

Each of the three counts alike: all stored bytes together weigh what all replicas do, and so do all
appends. A node with one basin that holds everything has enough, however few others it has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from svc_cluster.base.ids import GroupId, NodeId

SHARE: Final = 1000
"""The weight of a replica as such, and the mean weight of its bytes and of its appends."""

STEP_GROUPS: Final = 512
"""Groups that are added up in one step."""


@dataclass(frozen=True, slots=True)
class Load:
    """It is of a group as its leader knows it, or of a node, as the sum over its replicas."""

    stored_bytes: int = 0
    appends: int = 0
    """Appends a second, the mean of some minutes, rounded."""


NO_LOAD: Final = Load()


def share(part: int, whole: int, count: int) -> int:
    """The part of `count * SHARE` that something has of a whole; 0 where there is nothing."""
    return part * count * SHARE // whole if whole else 0


def weights(replicas: Mapping[NodeId, int], loads: Mapping[NodeId, Load]) -> dict[NodeId, int]:
    """The weight of all that each node bears. Of one without a load only its replicas count."""
    count = sum(replicas.values())
    known = {node: loads.get(node, NO_LOAD) for node in replicas}
    stored = sum(load.stored_bytes for load in known.values())
    appends = sum(load.appends for load in known.values())
    return {
        node: replicas[node] * SHARE
        + share(load.stored_bytes, stored, count)
        + share(load.appends, appends, count)
        for node, load in known.items()
    }


def sum_steps(
    groups: Iterable[tuple[GroupId, Iterable[NodeId]]],
    loads: Mapping[GroupId, Load],
    found: dict[NodeId, Load],
) -> Generator[int, None, None]:
    """Put into `found` what each node bears: every member of a group bears all of it. There is a
    pause behind some groups."""
    stored: Counter[NodeId] = Counter()
    appends: Counter[NodeId] = Counter()
    for number, (group_id, members) in enumerate(groups, start=1):
        load = loads.get(group_id, NO_LOAD)
        for member in members:
            stored[member] += load.stored_bytes
            appends[member] += load.appends
        if number % STEP_GROUPS == 0:
            yield 1
    found.update({node: Load(stored[node], appends[node]) for node in stored})
