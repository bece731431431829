"""The cluster's active version (model/versions.py), as applied. Pure.

It goes up by one, under a command that carries what each registered node has said of itself: the
catalog takes it only where that is all of them, whoever proposed it and however much later. What
gateways say is not in the catalog; whoever proposes has asked those that hold a lease.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from svc_cluster.base.ids import NodeId
from svc_cluster.base.key_reader import KeyReader
from svc_cluster.base.write_set import WriteSet
from svc_cluster.model import versions

ACTIVE: Final = b"\x04"
"""The row is absent until the version is raised for the first time."""


@dataclass(frozen=True, slots=True)
class NodeVersion:
    """`newest`: the newest active version that this data directory's program speaks."""

    node_id: NodeId
    incarnation: str
    newest: int


@dataclass(frozen=True, slots=True)
class RaiseActiveVersion:
    """The cluster may use what came with `version`, which is the next one."""

    version: int
    nodes: tuple[NodeVersion, ...]


@dataclass(slots=True)
class VersionPlan:
    """What an entry makes of the version; None: nothing."""

    version: int | None = None


class ActiveVersion:
    """The version from which on nothing is written that is newer."""

    def __init__(self, reader: KeyReader) -> None:
        raw = reader.get(ACTIVE)
        self.now: int = versions.FIRST if raw is None else msgspec.msgpack.decode(raw, type=int)

    @property
    def keeps_hours(self) -> bool:
        """Tells whether the hours of use are kept that is too old for its minutes (ADR 0051)."""
        return self.now >= versions.USAGE_HOURS

    def decide(
        self,
        plan: VersionPlan,
        write_set: WriteSet,
        registered: Mapping[NodeId, str],
        command: RaiseActiveVersion,
    ) -> str | None:
        """Why the command has no effect; None: it has, and that is in the plan and the write set.
        `registered`: incarnations by node, the entry's too."""
        now = self.now if plan.version is None else plan.version
        if command.version != now + 1:
            return f"the active version is {now}: it comes to {now + 1} next"
        said = {(each.node_id, each.incarnation): each.newest for each in command.nodes}
        for node_id, incarnation in sorted(registered.items()):
            newest = said.get((node_id, incarnation))
            if newest is None:
                return f"node {node_id} has not said which versions it speaks"
            if newest < command.version:
                return f"node {node_id} speaks version {newest} at most"
        write_set.put(ACTIVE, msgspec.msgpack.encode(command.version))
        plan.version = command.version
        return None

    def commit(self, plan: VersionPlan) -> None:
        """Take over what has been written to the store."""
        if plan.version is not None:
            self.now = plan.version
