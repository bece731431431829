"""What a node's log says of leadership: which basins it leads, and which have no quorum.

Nothing is decided here about a group. A line names one basin; where a thousand change at once, one
line stands for those that have none of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from svc_cluster.base.ids import CATALOG_GROUP, GroupId, NodeId, Term
from svc_cluster.base.log import Logger
from svc_cluster.raft.group import RaftGroup, Role

CATALOG_NAME: Final = "(catalog)"
"""Stands for a basin's name in lines about the catalog; no basin can be called so."""

LINES_MAX: Final = 20
"""Changes of leadership of one node that have a line of their own in WINDOW_SECONDS."""
WINDOW_SECONDS: Final = 10.0
NAMED_MAX: Final = 10
"""Basins that one line names."""

QUORUM_SECONDS: Final = 5.0
"""A group whose leader is not known for this long, several elections, has no quorum here."""
CAUSES_MAX: Final = 16
"""Causes told at one time; groups of further ones count for `OTHERS`."""

Cause = tuple[NodeId, ...]
"""The members that are not connected, in order; none: enough are, and yet nobody leads."""
OTHERS: Final[Cause] = (NodeId(-1),)


class GroupNames:
    """The basins' names by their groups, as far as this node has replicas of them."""

    def __init__(self) -> None:
        self._names: dict[GroupId, str] = {CATALOG_GROUP: CATALOG_NAME}

    def __getitem__(self, group_id: GroupId) -> str:
        """Empty: not known here."""
        return self._names.get(group_id, "")

    def learn(self, group_id: GroupId, name: str) -> None:
        """A replica of the basin's group is made, or opened."""
        self._names[group_id] = name

    def forget(self, group_id: GroupId) -> None:
        """The replica is gone."""
        self._names.pop(group_id, None)

    def some(self, groups: Iterable[GroupId]) -> list[str]:
        """At most NAMED_MAX of their names, those of the oldest groups that are known here."""
        known = (self._names[group_id] for group_id in sorted(groups) if group_id in self._names)
        return list(islice(known, NAMED_MAX))


class LeadershipNews:
    """The lines about groups that this node begins or ceases to lead."""

    def __init__(self, log: Logger, names: GroupNames, clock: Callable[[], float]) -> None:
        """`clock` tells monotonic seconds."""
        self._log = log
        self._names = names
        self._clock = clock
        self._begun = float("-inf")
        self._lines = 0
        self._won: dict[GroupId, str] = {}
        self._lost: dict[GroupId, str] = {}
        """Those without a line of their own in this window, by what happened last, and what they
        were called then: when it is told they may be gone."""

    def changed(self, group_id: GroupId, role: Role, term: Term, leader: NodeId | None) -> None:
        """A replica here leads from now on, or does not lead any more."""
        self.look()
        if self._lines < LINES_MAX:
            self._lines += 1
            self._log.info(
                "leadership_changed",
                group=group_id,
                basin=self._names[group_id],
                role=role.value,
                term=term,
                leader=leader,
            )
            return
        here, other = self._won, self._lost
        if role is not Role.LEADER:
            here, other = other, here
        here[group_id] = self._names[group_id]
        other.pop(group_id, None)

    def look(self) -> None:
        """Called now and then: behind a window's end tell what was left out in it."""
        now = self._clock()
        if now - self._begun < WINDOW_SECONDS:
            return
        self._begun, self._lines = now, 0
        if not self._won and not self._lost:
            return
        self._log.info(
            "leaderships_changed",
            gained=len(self._won),
            basins_gained=_oldest(self._won),
            lost=len(self._lost),
            basins_lost=_oldest(self._lost),
        )
        self._won.clear()
        self._lost.clear()


def _oldest(names: Mapping[GroupId, str]) -> list[str]:
    return [names[group_id] for group_id in sorted(names)[:NAMED_MAX]]


def cause_of(engine: RaftGroup, is_up: Callable[[NodeId], bool]) -> Cause | None:
    """Why the group may be without a quorum, as far as it can be told here. None: a leader is
    known."""
    if engine.leader is not None:
        return None
    members = engine.members
    absent = tuple(sorted(peer for peer in members if peer != engine.node_id and not is_up(peer)))
    return absent if 2 * (len(members) - len(absent)) <= len(members) else ()


@dataclass(slots=True)
class _Told:
    """A cause that a warning was written about."""

    since: float
    groups: list[GroupId] = field(default_factory=list)


class QuorumNews:
    """The warnings about groups without a quorum: one for each cause, and a line when it ends."""

    def __init__(self, log: Logger, names: GroupNames) -> None:
        self._log = log
        self._names = names
        self._seen: dict[GroupId, tuple[Cause, float]] = {}
        """What each group without a leader seems to lack, and since when."""
        self._without: dict[GroupId, Cause] = {}
        """Those that lacked it for QUORUM_SECONDS."""
        self._told: dict[Cause, _Told] = {}

    @property
    def groups(self) -> int:
        """How many groups have no quorum."""
        return len(self._without)

    def looked(self, now: float, found: Mapping[GroupId, Cause]) -> None:
        """All groups of the node were looked at; `found` has those without a known leader. `now` is
        monotonic seconds."""
        seen: dict[GroupId, tuple[Cause, float]] = {}
        without: dict[GroupId, Cause] = {}
        for group_id, cause in found.items():
            before, since = self._seen.get(group_id, (cause, now))
            seen[group_id] = (cause, since if before == cause else now)
            if now - seen[group_id][1] >= QUORUM_SECONDS:
                without[group_id] = cause
            elif group_id in self._without:
                # a peer that comes back ends nothing before somebody leads
                without[group_id] = self._without[group_id]
        self._seen, self._without = seen, without
        self._tell(now)

    def _tell(self, now: float) -> None:
        by_cause: dict[Cause, list[GroupId]] = {}
        for group_id, cause in self._without.items():
            by_cause.setdefault(self._told_as(cause, by_cause), []).append(group_id)
        for cause in [one for one in self._told if one not in by_cause]:
            told = self._told.pop(cause)
            back = [group_id for group_id in told.groups if group_id not in self._without]
            if not back:
                continue  # nobody leads them: another cause is told below, or was before
            self._log.info(
                "quorum_regained",
                groups=len(back),
                basins=self._names.some(back),
                seconds=round(now - told.since, 1),
                **_facts(cause),
            )
        for cause, groups in by_cause.items():
            if cause in self._told:
                self._told[cause].groups = groups
                continue
            self._told[cause] = _Told(now, groups)
            self._log.warning(
                "quorum_lost",
                groups=len(groups),
                basins=self._names.some(groups),
                **_facts(cause),
            )

    def _told_as(self, cause: Cause, found: Mapping[Cause, object]) -> Cause:
        if cause in self._told or cause in found:
            return cause
        return cause if len({*self._told, *found}) < CAUSES_MAX else OTHERS


def _facts(cause: Cause) -> dict[str, object]:
    if cause == OTHERS:
        return {"reason": "other members are not connected, differing ones"}
    if cause:
        return {"absent": list(cause), "reason": "these nodes are not connected to this one"}
    return {"absent": [], "reason": "enough nodes are connected, and no leader is elected"}
