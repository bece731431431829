"""Nodes come to the cluster and leave it: decided on the catalog's leader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import ErrorCode, InvalidError, UnavailableError
from svc_cluster.base.ids import NodeId, TimestampMs
from svc_cluster.catalog.catalog_commands import AdmitNode, OpenTicket, RemoveNode
from svc_cluster.catalog.join_tickets import UNKNOWN_TOKEN, admitted, left, why_not_opened
from svc_cluster.catalog.node_removal import held_by
from svc_cluster.catalog.node_rows import lasting_nodes, places_of
from svc_cluster.catalog.own_group import why_it_votes
from svc_cluster.codec.formation_report import encode_report
from svc_cluster.codec.join_pb import get_node
from svc_cluster.model import versions
from svc_cluster.model.formation import SEEDS_MAX, Stage, holders
from svc_cluster.model.join_token import (
    SECRET_BYTES,
    TTL_SECONDS_MAX,
    TTL_SECONDS_MIN,
    hash_of,
)
from svc_cluster.model.places import is_incarnation, merged
from svc_cluster.replica.catalog import CatalogReplica
from svc_cluster.replica.host import Host
from svc_cluster.replica.repeatable import Fill, Operation, say_done

ADDRESS_BYTES_MAX: Final = 256


class JoinOperations:
    """The operations of a node by which others come and go. `find` raises for a node that has no
    catalog; `deadline` is monotonic seconds."""

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
            "add_member": self._add,
            "join_cluster": self._join,
            "remove_member": self._remove,
        }

    async def _add(self, request: pb.Request) -> Fill:
        """Open a ticket. Asked again with its hash while it is open it says the same. Raises
        InvalidError with a sentence for an operator."""
        catalog, asked = self._catalog(request), request.add_member
        node_id = NodeId(asked.node_id)
        if not TTL_SECONDS_MIN <= asked.ttl_seconds <= TTL_SECONDS_MAX:
            raise InvalidError(
                f"a join token is good for {TTL_SECONDS_MIN} to {TTL_SECONDS_MAX} seconds"
            )
        await catalog.linearize()

        def sequence(now_ms: TimestampMs) -> OpenTicket | None:
            state = catalog.state
            known = state.tickets.open.get(node_id)
            is_open = known is not None and known.expires_at_ms > now_ms
            if known is not None and is_open and known.secret_hash == asked.secret_hash:
                return None
            expires_at_ms = TimestampMs(now_ms + asked.ttl_seconds * 1000)
            command = OpenTicket(node_id, asked.secret_hash, expires_at_ms, now_ms)
            reason = (
                self._why_not_yet(catalog)
                or self._why_fixed(catalog, node_id, "is one of those that the cluster began with")
                or why_not_opened(state.tickets.open, state.nodes, command)
            )
            if reason is not None:
                raise InvalidError(reason)
            return command

        await catalog.change(sequence, self._deadline(request))
        made = catalog.state.tickets.open.get(node_id)

        def fill(response: pb.Response) -> None:
            response.member_ticket.expires_at_ms = 0 if made is None else made.expires_at_ms

        return fill

    async def _join(self, request: pb.Request) -> Fill:
        """Let a node in that shows its token, or tell again that it is. Raises InvalidError where
        it is never let in with this one."""
        catalog, asked = self._catalog(request), request.join_cluster
        if not (asked.forwarded or catalog.group.is_serving):
            return await self._pass_on(asked)
        node = get_node(asked.node)
        if len(asked.secret) != SECRET_BYTES:
            raise InvalidError(UNKNOWN_TOKEN)
        if not is_incarnation(node.incarnation) or len(node.address) > ADDRESS_BYTES_MAX:
            raise InvalidError("the node does not say who and where it is")
        formation = self._host.formation_report()
        if formation is None or formation.stage is not Stage.FORMED:
            raise UnavailableError("the nodes do not know yet which of them began the cluster")
        secret_hash = hash_of(asked.secret)

        def sequence(now_ms: TimestampMs) -> AdmitNode | None:
            state = catalog.state
            command = AdmitNode(node, secret_hash, now_ms)
            reason = self._why_fixed(catalog, node.node_id, "began the cluster, and is not added")
            found = reason or admitted(state.tickets.open, state.nodes, command)
            if isinstance(found, str):
                raise InvalidError(found)
            return None if found.node == state.nodes.get(node.node_id) else command

        await catalog.change(sequence, self._deadline(request))
        rows = catalog.state.nodes
        # the place that was given just now is written down here a little later
        places = merged(places_of(rows), formation.places)
        # a report is of a node that it names, and this one may have come later itself
        first, incarnation = holders(formation.members, places)[0]
        told = encode_report(
            replace(formation, node_id=first, incarnation=incarnation, places=places)
        )
        # who votes first: they surely have the catalog
        order = dict.fromkeys((*catalog.own_group.replicas, *sorted(lasting_nodes(rows))))
        others = [rows[other] for other in order if other in rows and other != node.node_id]
        seeds = others[:SEEDS_MAX]

        def fill(response: pb.Response) -> None:
            response.joined_cluster.formation.ParseFromString(told)
            for row in seeds:
                address = row.facts.link_address or row.address
                response.joined_cluster.seeds.add(node_id=row.node_id, address=address)

        return fill

    async def _pass_on(self, asked: pb.JoinClusterRequest) -> Fill:
        """Ask the catalog's leader: who comes may not know where that is."""

        def fill(request: pb.Request) -> None:
            request.join_cluster.CopyFrom(asked)
            request.join_cluster.forwarded = True

        response = await self._host.ask_catalog(fill)
        if response is None:
            raise UnavailableError("the leader of the catalog did not answer")
        if response.WhichOneof("result") != "joined_cluster":
            refusal = response.refusal
            if refusal.code == ErrorCode.INVALID.value:
                raise InvalidError(refusal.message)
            raise UnavailableError(refusal.message)
        joined = response.joined_cluster
        return lambda out: out.joined_cluster.CopyFrom(joined)

    async def _remove(self, request: pb.Request) -> Fill:
        """Remove a node for ever, or withdraw its ticket. Raises InvalidError with a sentence for
        an operator."""
        catalog, node_id = self._catalog(request), NodeId(request.remove_member.node_id)
        await catalog.linearize()

        def sequence(_: object) -> RemoveNode | None:
            state = catalog.state
            known = state.nodes.get(node_id)
            if known is not None and known.is_removed:
                return None
            command = RemoveNode(node_id)
            replicas, gone = held_by(node_id, state.basins.values())
            if self._host.is_peer_up(node_id):
                replicas += len(gone)  # it seals them itself, within moments
            reason = self._why_not_yet(catalog) or why_it_votes(catalog.own_group, node_id)
            found = reason or left(state.tickets.open, state.nodes, command, replicas)
            if isinstance(found, str):
                raise InvalidError(found)
            return command

        await catalog.change(sequence, self._deadline(request))
        return say_done

    @staticmethod
    def _why_not_yet(catalog: CatalogReplica) -> str | None:
        active = catalog.version.active
        if active >= versions.JOINING:
            return None
        return (
            f"the cluster is at version {active}: nodes come and go from version "
            f"{versions.JOINING} on, finalize the upgrade first"
        )

    @staticmethod
    def _why_fixed(catalog: CatalogReplica, node_id: NodeId, why: str) -> str | None:
        return f"node {node_id} {why}" if node_id in catalog.initial else None
