"""How the initial nodes of a cluster agree on their incarnations before the first vote; pure.

In a round each node waits until it has heard all nodes in that round, writes down whom it has heard
(a draft), and forms the cluster once it knows that all of them have the same draft on their disks.
Only then does it open the catalog and vote. A node whose draft names a data directory that is gone
enters the next round, and with that promises never to form the draft. So a later draft, which needs
every node in the later round, proves that nobody who is left has formed or will form the earlier
one; those whose disks are gone may have, and a minority of them can have decided nothing.

A formed node never leaves its list: other lists and unknown incarnations have no part for ever. But
the catalog may give the place of a node to an empty directory (`model.places`): that takes the list
over, with all that it would have promised forgotten, and the one before it is refused for ever.

Directories that a restore has made have a log, and form as empty ones do, with others of the same
restore alone: one that is made once more is another one, and an empty one would vote for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from svc_cluster.base.ids import NodeId
from svc_cluster.model import versions
from svc_cluster.model.formation import (
    UNKNOWN_HERE,
    FormationRecord,
    FormationReport,
    Members,
    Stage,
    holders,
    replaced,
)
from svc_cluster.model.places import Place, Places, merged, place_of

Registrations = Callable[[], Members]
"""Nodes and incarnations of the applied catalog; empty while that is not to be trusted."""

Given = Callable[[], Places]
"""The places that the applied catalog has given away; empty while that is not to be trusted."""


class Formation:
    """One node's part. The caller writes down what `next_record` wants, and then says so."""

    def __init__(
        self,
        node_id: NodeId,
        incarnation: str,
        nodes: Sequence[NodeId],
        record: FormationRecord,
        *,
        has_log: bool,
        registrations: Registrations,
        given: Given = tuple,
        newest: int = versions.FIRST,
        comes: bool = False,
    ) -> None:
        """`record` is what the disk holds; `has_log`: the directory has taken part in a catalog.
        `newest`: the active version that this program speaks at most. `comes`: an empty directory
        is to come to a cluster that is there, with a join token."""
        self.node_id = node_id
        self.incarnation = incarnation
        self.nodes = tuple(sorted(nodes))
        self.record = _continued(record, has_log)
        self._registrations = registrations
        self._given = given
        self.newest = newest
        self.offered: FormationRecord | None = None
        """The formation of the cluster that has let this directory in."""
        self._comes = comes
        self.learned: Places = ()
        """What others know of places; this node knows of it once it is written down."""
        self.heard: dict[NodeId, FormationReport] = {}
        """The latest word of each node."""
        self.introduced: set[NodeId] = set()  # whom others vouch for

    # -- what it is

    @property
    def is_open(self) -> bool:
        """Whether the node may open its replicas and vote."""
        is_begun = self.record.stage in (Stage.FORMED, Stage.EXISTING)
        return is_begun and not self.is_superseded

    @property
    def is_superseded(self) -> bool:
        """Whether another directory has this node's place, for ever. That may also be one with this
        incarnation, of which this is an older copy."""
        record = self.record
        place = place_of(self.node_id, record.places)
        own = (record.ordinal, self.incarnation)
        return place is not None and (place.ordinal, place.incarnation) != own

    @property
    def is_coming(self) -> bool:
        """Whether it waits to be let in by a cluster that is there."""
        return self._comes and self.record.stage is Stage.GATHERING

    @property
    def asks_around(self) -> bool:
        """Whether it is of those who agree on the beginning of the cluster."""
        return not (self.is_coming or self.record.joined)

    @property
    def is_formed(self) -> bool:
        return self.record.stage is Stage.FORMED

    def report(self) -> FormationReport:
        """What this node says of itself: nothing that is not on its disk."""
        record = self.record
        has_list = record.stage in (Stage.DRAFTED, Stage.FORMED)
        return FormationReport(
            self.node_id,
            self.incarnation,
            record.round,
            record.stage,
            record.members if has_list else (),
            record.places,
            record.restored,
            self.newest,
        )

    def why_not(self, node_id: NodeId, incarnation: str) -> str | None:
        """Why a node under this incarnation may not take part here; None: it may."""
        if not self.is_open:
            return "this node has not formed the cluster yet"
        listed = self.record.members if self.is_formed else ()  # else of before there were lists
        place = place_of(node_id, self.record.places)
        known = dict(listed).get(node_id) or dict(self._registrations()).get(node_id)
        known = known if place is None else place.incarnation
        is_told = node_id in self.introduced or self.record.has_seed(node_id)
        if known == incarnation or (known is None and (is_told or not self.is_formed)):
            return None
        if known is None:
            return UNKNOWN_HERE
        if place is not None:
            return "the place of this node was given to another data directory"
        return "the node was given another data directory than the cluster was formed with"

    def asking(self) -> dict[NodeId, FormationReport]:
        """The nodes that came up with an empty directory, and what each of them said last."""
        return {
            node: report
            for node, report in self.heard.items()
            if self.is_formed
            and report.stage is Stage.GATHERING
            and not report.restored
            and not self.admits(node, report.incarnation)
        }

    def admits(self, node_id: NodeId, incarnation: str) -> bool:
        return self.why_not(node_id, incarnation) is None

    # -- what the others say

    def hear(self, report: FormationReport) -> None:
        """A node told where it stands; the latest word of each counts."""
        if report.node_id in self.nodes and report.node_id != self.node_id:
            self.heard[report.node_id] = report
            self.learn(report.places)

    def learn(self, places: Places) -> None:
        """Another node knows of these places."""
        self.learned = merged(self.learned, places)

    def forget(self, node_id: NodeId) -> None:
        """The node takes part: what it said before that is over."""
        self.heard.pop(node_id, None)

    def silent(self) -> list[NodeId]:
        """The nodes that have not been heard."""
        return [node for node in self.nodes if node != self.node_id and node not in self.heard]

    def refusal(self) -> str | None:
        """Return why this node has no part in the cluster and will not get one by waiting. It is
        one sentence for an operator; None while that is not known."""
        if self.is_superseded:
            return superseded(self.node_id, came_later=self.record.joined)
        if not self.asks_around:
            return None  # it learns that from whoever lets it in, or not
        for report in self.heard.values():
            if report.stage is not Stage.FORMED or self._may_take(report) is not None:
                continue
            given = place_of(self.node_id, report.places)
            if self.record.ordinal > (0 if given is None else given.ordinal):
                continue  # that node does not know yet that this directory has the place
            holding = dict(holders(report.members, report.places))
            if holding.get(self.node_id) != self.incarnation:
                if self.record.restored:
                    return restored_too_late(self.node_id)
                if self.record.stage is not Stage.GATHERING:
                    return superseded(self.node_id)
                return (
                    f"the cluster was formed with another data directory of node {self.node_id}, "
                    f"as node {report.node_id} says: this node takes no part, the others go on "
                    "without it; give it that directory back, or, where that is lost for good, its "
                    f"place to this one: svc-cluster admin member replace {self.node_id}"
                )
            if self._has_lost(report.members) and not self.is_formed:
                return (
                    "the cluster was formed with this data directory, which holds nothing of that "
                    f"any more, as node {report.node_id} says: it is an older copy, or its files "
                    "are gone; this node takes no part, the others go on without it; give it the "
                    "directory back as it was last"
                )
            if self.is_formed and report.members != self.record.members:
                return f"node {report.node_id} was formed with other data directories than this one"
        if self.record.stage is Stage.EXISTING:
            own = dict(self._registrations()).get(self.node_id)
            if own not in (None, self.incarnation):
                return registered_otherwise(self.node_id)
        if self.record.stage is Stage.GATHERING and self._too_many_replaced(self._gathered()):
            return (
                "most data directories of the nodes were exchanged while the cluster was being "
                "formed, and what was decided with them is not known: give the nodes back the "
                "directories that they had"
            )
        return None

    def waits_for(self) -> str:
        """What has to happen before this node can take part, for whom `refusal` has nothing."""
        if self.is_coming:
            return "no node of the cluster has let this one in yet"
        if silent := self.silent():
            names = ", ".join(map(str, silent))
            return f"all nodes have to be there when a cluster is formed; not heard yet: {names}"
        for report in self.heard.values():
            if report.stage is Stage.EXISTING:
                return (
                    f"node {report.node_id} has data of a cluster, and does not know yet which "
                    "data directories belong to it"
                )
            if report.stage is not Stage.FORMED and report.restored != self.record.restored:
                return (
                    f"node {report.node_id} was not made by the restore of this one: all nodes "
                    "have to be restored from one backup with the same options"
                )
        return "the nodes are agreeing on the data directories that they begin with"

    # -- what to do

    def next_record(self) -> FormationRecord | None:
        """What is to be written down next; None: nothing until more is heard."""
        record = self.record
        if self.is_coming:
            return self.offered
        if record.stage is Stage.FORMED:
            places = merged(record.places, self.learned, self._given())
            return None if places == record.places else replace(record, places=places)
        if (found := self._formed_elsewhere()) is not None:
            return replace(found, round=max(found.round, record.round))
        if record.stage is Stage.EXISTING:
            return self._from_registrations()
        if any(report.stage in (Stage.FORMED, Stage.EXISTING) for report in self.heard.values()):
            return None
        latest = max((report.round for report in self.heard.values()), default=0)
        if latest > record.round:
            return replace(record, round=latest, stage=Stage.GATHERING)
        if record.stage is Stage.DRAFTED:
            return self._from_draft()
        gathered = self._gathered()
        if not gathered or self._too_many_replaced(gathered):
            return None
        return replace(record, stage=Stage.DRAFTED, members=gathered, begins_at=self._begins_at())

    def written(self, record: FormationRecord) -> None:
        """`record` is durable."""
        self.record = record

    def _formed_elsewhere(self) -> FormationRecord | None:
        """Return a list that another node has formed and that this node has on its disk as a draft.
        It may also be one that names a directory of a version that had no formation."""
        for report in self.heard.values():
            if report.stage is not Stage.FORMED:
                continue
            formed = FormationRecord(report.round, Stage.FORMED, report.members, report.places)
            if (place := self._may_take(report)) is not None:
                return replace(formed, ordinal=place.ordinal)
            formed = replace(formed, begins_at=self.record.begins_at)
            if (
                place_of(self.node_id, report.places) is None
                and self._names_us(report.members)
                and not self._has_lost(report.members)
            ):
                return formed
        return None

    def _may_take(self, report: FormationReport) -> Place | None:
        """The place that was given to this directory, which has nothing; None: none was."""
        place = place_of(self.node_id, report.places)
        is_ours = place is not None and place.incarnation == self.incarnation
        nodes = tuple(node for node, _ in report.members)
        is_empty = self.record == FormationRecord(self.record.round)
        return place if is_ours and is_empty and nodes == self.nodes else None

    def _has_lost(self, formed: Members) -> bool:
        """Whether this directory no longer holds the list that was formed with it. Nothing is
        formed before each node has the list on its disk, and that stays there through all later
        rounds: so this is an older copy, or what it held is gone, its votes and its log as well."""
        return self.record.stage is not Stage.EXISTING and self.record.members != formed

    def _names_us(self, members: Members) -> bool:
        return tuple(node for node, _ in members) == self.nodes and (
            dict(members)[self.node_id] == self.incarnation
        )

    def _from_registrations(self) -> FormationRecord | None:
        """Once all nodes are registered, the catalog's own record is the list."""
        members = tuple(pair for pair in self._registrations() if pair[0] in self.nodes)
        if not self._names_us(members) or self._given():
            return None
        return FormationRecord(self.record.round, Stage.FORMED, members)

    def _from_draft(self) -> FormationRecord | None:
        record = self.record
        is_other = any(
            (report.node_id, report.incarnation) not in record.members
            for report in self.heard.values()
        )
        # a node may be started by an older program before the cluster is formed
        if is_other or self._least_spoken() < record.begins_at:
            return replace(record, round=record.round + 1, stage=Stage.GATHERING)
        agreeing = [
            report.node_id
            for report in self.heard.values()
            if (report.round, report.stage, report.members)
            == (record.round, Stage.DRAFTED, record.members)
        ]
        if len(agreeing) < len(self.nodes) - 1:
            return None
        return FormationRecord(
            record.round, Stage.FORMED, record.members, begins_at=record.begins_at
        )

    def _begins_at(self) -> int:
        """The newest version that all initial nodes speak. What a restore has made goes on at the
        one that it had."""
        least = self._least_spoken()
        return 0 if self.record.restored or least == versions.FIRST else least

    def _least_spoken(self) -> int:
        """The newest version of the node that speaks the fewest, by the latest word of each."""
        said = [report.newest or versions.FIRST for report in self.heard.values()]
        return min([self.newest, *said])

    def _gathered(self) -> Members:
        """All nodes as they are in this round; empty while one of them is not, or is of another
        restore."""
        if self.silent() or any(
            report.round != self.record.round
            or report.restored != self.record.restored
            or report.stage not in (Stage.GATHERING, Stage.DRAFTED)
            for report in self.heard.values()
        ):
            return ()
        pairs = {node: report.incarnation for node, report in self.heard.items()}
        pairs[self.node_id] = self.incarnation
        return tuple(sorted(pairs.items()))

    def _too_many_replaced(self, gathered: Members) -> bool:
        """Whether those who are gone could have been enough to decide something by themselves."""
        earlier = self.record.members
        gone: Iterable[NodeId] = replaced(gathered, earlier) if earlier else ()
        return len(list(gone)) >= len(self.nodes) // 2 + 1


def superseded(node_id: NodeId, *, came_later: bool = False) -> str:
    return (
        f"the place of node {node_id} was given to another data directory: this one is refused for "
        "ever, and the cluster goes on without it; start the node with its newer directory, or "
        f"with an empty one to {'let it come again' if came_later else 'have it replaced'}"
    )


def restored_too_late(node_id: NodeId) -> str:
    return (
        f"the directory of node {node_id} was restored after the cluster was formed with another "
        "one: this node takes no part, the others go on without it; give it that directory back, "
        "or, where that is lost for good, an empty one, and then its place to that: svc-cluster "
        f"admin member replace {node_id}"
    )


def registered_otherwise(node_id: NodeId) -> str:
    return (
        f"node {node_id} is registered with another data directory: this node takes no part, the "
        "others go on without it; give it that directory back"
    )


def _continued(record: FormationRecord, has_log: bool) -> FormationRecord:
    """The catalog is opened only once the cluster is formed. So a directory that has a log of it
    has formed its draft, also where the newest record on the disk is damaged; and without a draft
    it is from a version that had no formation. A log that a restore has made says nothing."""
    if not has_log or record.stage is Stage.FORMED or record.restored:
        return record
    if record.stage is Stage.DRAFTED:
        return replace(record, stage=Stage.FORMED)
    return replace(record, stage=Stage.EXISTING)
