"""The active version on the catalog's leader: what it is, who holds it up, raising it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.errors import InvalidError
from svc_cluster.base.ids import NodeId
from svc_cluster.catalog.active_version import NodeVersion, RaiseActiveVersion
from svc_cluster.catalog.raising import Gateways, NodeSpeaks, why_not_raised, with_successors
from svc_cluster.model.formation import Asking
from svc_cluster.replica.catalog import CatalogReplica
from svc_cluster.replica.node_questions import GatewaysElsewhere
from svc_cluster.replica.repeatable import Fill, Operation

GATEWAYS_TOLD_MAX: Final = 1000
"""Gateways in one answer; those that speak the least first."""


AskingNow = Callable[[], Awaitable[Mapping[NodeId, Asking]]]


class VersionOperations:
    """The operations of a node that concern the active version: all are the catalog leader's."""

    def __init__(
        self,
        find: Callable[[pb.Request], CatalogReplica],
        deadline: Callable[[pb.Request], float],
        elsewhere: Callable[[], Awaitable[GatewaysElsewhere]],
        asking: AskingNow,
    ) -> None:
        """`elsewhere` asks the other nodes which gateways talk to them. `asking` tells which nodes
        came up with an empty directory."""
        self._elsewhere = elsewhere
        self._asking = asking
        self._catalog = find
        self._deadline = deadline
        self.operations: dict[str, Operation] = {
            "get_version": self._get,
            "raise_version": self._raise,
        }

    async def _get(self, request: pb.Request) -> Fill:
        catalog = self._catalog(request)
        await _confirm(catalog)
        return _filler(catalog, await self._elsewhere(), await self._asking())

    async def _raise(self, request: pb.Request) -> Fill:
        """Refused, without effect, while anybody speaks less. It may be asked for again. A new
        leader first waits until it knows of every lease, some seconds at most."""
        catalog = self._catalog(request)
        wanted = request.raise_version.version
        await _confirm(catalog)
        while (unknown_seconds := catalog.who_speaks()[1].unknown_seconds) > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(unknown_seconds + 0.001):
                    await catalog.lease_news.event.wait()
        # one that comes later is refused at its handshake, once its node has the new version
        elsewhere, asking = await self._elsewhere(), await self._asking()

        def sequence(_: object) -> RaiseActiveVersion | None:
            active = catalog.state.active_version.now
            if wanted == active:
                return None
            if wanted != active + 1:
                raise InvalidError(f"the active version is {active}: it comes to {active + 1} next")
            nodes, gateways = _all_of(catalog, elsewhere, asking)
            reason = why_not_raised(wanted, catalog.version.spoken, nodes, gateways)
            if reason is not None:
                raise InvalidError(reason)
            said = [
                NodeVersion(node.node_id, node.incarnation, node.spoken.newest)
                for node in nodes
                if node.spoken is not None
            ]
            return RaiseActiveVersion(wanted, tuple(said))

        await catalog.change(sequence, self._deadline(request))
        return _filler(catalog, elsewhere, asking)


async def _confirm(catalog: CatalogReplica) -> None:
    """Only who leads knows of leases. Raises what a client of another node is told."""
    await catalog.linearize()
    if not catalog.group.is_serving:
        raise catalog.group.not_leader()


def _all_of(
    catalog: CatalogReplica, elsewhere: GatewaysElsewhere, asking: Mapping[NodeId, Asking]
) -> tuple[list[NodeSpeaks], Gateways]:
    """What is known here, and of gateways that talk to other nodes: who speaks less counts."""
    nodes, known = catalog.who_speaks()
    newest = {
        process: min(known.newest.get(process, said), said)
        for process, said in elsewhere.newest.items()
    }
    # one that asks to take part with an empty directory serves no gateway yet
    silent = tuple(n for n in elsewhere.silent if n not in asking or not asking[n].is_now)
    nodes = with_successors(nodes, asking)
    return nodes, replace(known, newest={**known.newest, **newest}, silent=silent)


def _filler(
    catalog: CatalogReplica, elsewhere: GatewaysElsewhere, asking: Mapping[NodeId, Asking]
) -> Fill:
    nodes, gateways = _all_of(catalog, elsewhere, asking)
    active, version = catalog.state.active_version.now, catalog.version
    told = sorted(gateways.newest.items(), key=lambda row: (row[1], row[0]))[:GATEWAYS_TOLD_MAX]

    def fill(response: pb.Response) -> None:
        out = response.version
        out.active = active
        out.newest = version.spoken.newest
        if active < version.spoken.newest:
            known = replace(gateways, unknown_seconds=0.0)  # raising waits for those itself
            reason = why_not_raised(active + 1, version.spoken, nodes, known)
            out.why_not = reason or ""
        out.gateways_unknown_ms = round(gateways.unknown_seconds * 1000)
        for node in nodes:
            row = out.processes.add(role="node", node_id=node.node_id, incarnation=node.incarnation)
            if node.spoken is not None:
                row.oldest, row.newest = node.spoken.oldest, node.spoken.newest
        for gateway_id, newest in told:
            out.processes.add(role="gateway", incarnation=gateway_id, newest=newest)

    return fill
