"""Changes of a group's members: what its replicas ask each other for, and the catalog's part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.configuration import encode_configuration
from svc_cluster.base.errors import BasinNotFoundError, InvalidError, UnavailableError
from svc_cluster.base.ids import GroupId, LogIndex, NodeId, Term
from svc_cluster.catalog.catalog_commands import CatalogCommand
from svc_cluster.catalog.group_change import (
    AllowSeal,
    CancelChange,
    Configured,
    GroupRow,
    beginning,
)
from svc_cluster.catalog.member_changes import why_not_begun
from svc_cluster.codec import rpc
from svc_cluster.model import versions
from svc_cluster.raft.readiness import ReplicaWord
from svc_cluster.replica.catalog import CatalogReplica
from svc_cluster.replica.host import Host
from svc_cluster.replica.repeatable import Fill, Operation, say_done
from svc_cluster.replica.seamed import seam_of

REASON: Final = "by hand"

ANSWER_BYTES_MAX: Final = 2_500_000
"""Payload of one answer: with the longest entry it fits a message of the link."""


class ChangeOperations:
    """Those of one node."""

    def __init__(
        self,
        find: Callable[[pb.Request], CatalogReplica],
        deadline: Callable[[pb.Request], float],
        host: Host,
    ) -> None:
        self._catalog = find
        self._deadline = deadline
        self._host = host
        self.operations: dict[str, Operation] = {
            "fetch_committed": self._fetch,
            "report_change": self._report,
            "change_members": self._change,
        }

    async def _fetch(self, request: pb.Request) -> Fill:
        asked, group_id = request.fetch_committed, GroupId(request.group_id)
        replica = self._host.replica(group_id)
        if replica is None:
            raise rpc.GroupUnknownError
        group, node = replica.group, NodeId(asked.node_id)
        seam = seam_of(group.engine)
        known = None if seam is None else seam.configuration
        if seam is None or known is None or group.is_given_up:
            raise UnavailableError("the replica is not whole")
        if seam.next_at(group.applied_index) is not None:
            raise UnavailableError("the next configuration is beginning")
        if node not in group.engine.members:
            now = self._host.services.clock.monotonic()
            word = ReplicaWord(LogIndex(asked.log_index), now, asked.recovers)
            self._host.changes.heard(group_id, node, word)
        feed = seam.feed(LogIndex(asked.log_index), group.applied_index)
        engine = group.engine
        if feed is None and engine.can_propose and node not in engine.members:
            self._host.sender.wanted(group_id, node)

        def fill(response: pb.Response) -> None:
            out = response.committed
            out.configuration = encode_configuration(known)
            out.leader = engine.leader or 0
            out.needs_snapshot = feed is None
            if feed is None:
                return
            out.previous_index, out.previous_term = feed.previous_index, feed.previous_term
            size = 0
            for entry in feed.entries:
                size += len(entry.payload)
                if out.entries and size > ANSWER_BYTES_MAX:
                    break
                out.entries.add(term=entry.term, payload=entry.payload)

        return fill

    async def _report(self, request: pb.Request) -> Fill:
        catalog, said = self._catalog(request), request.report_change
        group_id, change_id, term = GroupId(said.group_id), said.change_id, Term(said.term)
        command: CatalogCommand
        match said.step:
            case pb.CHANGE_STEP_READY:
                command = AllowSeal(group_id, change_id, term)
            case pb.CHANGE_STEP_CONFIGURED:
                command = Configured(group_id, said.configuration, change_id)
            case pb.CHANGE_STEP_GIVEN_UP:
                command = CancelChange(group_id, change_id, term)
            case _:
                raise InvalidError("no step of a change")

        def sequence(_: object) -> CatalogCommand | None:
            row = catalog.group_row(group_id)
            change = None if row is None else row.change
            if change is None or change.change_id != change_id:
                return None  # said before
            is_allowed = said.step == pb.CHANGE_STEP_READY and change.sealing_term == term
            return None if is_allowed else command

        await catalog.change(sequence, self._deadline(request))
        return say_done

    async def _change(self, request: pb.Request) -> Fill:
        """Begin a change, or wish the open one given up. Asked again for what is under way, or is
        so already, it changes nothing."""
        catalog, asked = self._catalog(request), request.change_members
        await catalog.linearize()
        wanted = tuple(NodeId(node) for node in asked.replicas)

        def sequence(_: object) -> CatalogCommand | None:
            record: GroupRow | None = catalog.state.basins.get(asked.basin)
            if asked.catalog:
                record = catalog.own_group
            if record is None:
                raise BasinNotFoundError("no basin of this name")
            change = record.change
            if not wanted:
                return None if change is None else CancelChange(record.group_id, change.change_id)
            if change is not None and set(change.replicas) == set(wanted):
                return None
            if change is None and set(record.replicas) == set(wanted):
                return None
            active = catalog.version.active
            if active < versions.SEALED_CONFIGURATIONS:
                raise InvalidError(
                    f"the cluster is at version {active}: members change from version "
                    f"{versions.SEALED_CONFIGURATIONS} on, finalize the upgrade first"
                )
            command = beginning(record, wanted, asked.reason or REASON)
            reason = why_not_begun(record, catalog.state.nodes, command)
            if reason is not None:
                raise InvalidError(reason)
            return command

        await catalog.change(sequence, self._deadline(request))
        return say_done
