"""What groups and nodes bear, and how the planner weighs it: replicas, bytes and appends. Pure.

Each of the three counts alike: all stored bytes together weigh what all replicas do, and so do all
appends. A node with one basin that holds everything has enough, however few others it has. What is
little in itself weighs little: a few records in an empty cluster are no reason to go elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from svc_cluster.base.ids import GroupId, NodeId

SHARE: Final = 1000
"""The weight of a replica as such, and at most the mean weight of its bytes and its appends."""

LITTLE_BYTES: Final = 256 << 20
LITTLE_APPENDS: Final = 50
"""Where a replica has less than this many stored bytes, or appends a second, on an average, so much
weighs as much as a replica does, and what there is accordingly less."""

STEP_GROUPS: Final = 512
"""Groups that are added up in one step."""


@dataclass(frozen=True, slots=True)
class Load:
    """It is of a group as its leader knows it, or of a node, as the sum over its replicas."""

    stored_bytes: int = 0
    appends: int = 0
    """Appends a second, the mean of some minutes, rounded."""


NO_LOAD: Final = Load()


def weight_beside(load: Load, whole: Load, count: int) -> int:
    """The weight of what a group or a node bears, beside that of its replicas, where `count`
    replicas bear the `whole`."""
    stored_bytes = max(whole.stored_bytes, count * LITTLE_BYTES)
    appends = max(whole.appends, count * LITTLE_APPENDS)
    if not count:
        return 0
    by_bytes = load.stored_bytes * count * SHARE // stored_bytes
    return by_bytes + load.appends * count * SHARE // appends


def weights(replicas: Mapping[NodeId, int], loads: Mapping[NodeId, Load]) -> dict[NodeId, int]:
    """The weight of all that each node bears. Of one without a load only its replicas count."""
    count = sum(replicas.values())
    known = {node: loads.get(node, NO_LOAD) for node in replicas}
    whole = Load(
        sum(load.stored_bytes for load in known.values()),
        sum(load.appends for load in known.values()),
    )
    return {
        node: replicas[node] * SHARE + weight_beside(load, whole, count)
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
