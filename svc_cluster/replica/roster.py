"""The nodes of the cluster as one of them knows them: those of its settings, and those that the
catalog has. Links follow what the catalog says: to nodes that came, and to where one is by now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from svc_cluster.base.ids import NodeId
from svc_cluster.link.handshake import Identity
from svc_cluster.link.session import NodeSession
from svc_cluster.replica.catalog import CatalogReplica


class Links(Protocol):
    """The links to other nodes, which may come and go."""

    def meet(self, peer: NodeId, address: str, other: str = "") -> NodeSession:
        """Have links to the node, there, from now on; where it does not answer as itself, at
        `other` in turn. Repeatable; the conversation with its service is returned."""
        ...

    def leave(self, peer: NodeId) -> None:
        """End them, if there are any."""
        ...


class Roster:
    """The one of a node. It may lag behind the others', as its catalog may."""

    def __init__(
        self,
        own: NodeId,
        addresses: Mapping[NodeId, str],
        catalog: Callable[[], CatalogReplica | None],
        links: Links | None,
        sessions: dict[NodeId, NodeSession],
        on_met: Callable[[NodeId], None],
    ) -> None:
        """`addresses`: of the settings, this node's among them. Without `links` these stay as they
        are. `on_met` is told of each other node that is new."""
        self._own = own
        self._addresses = addresses
        self._catalog = catalog
        self._links = links
        self._sessions = sessions
        self._on_met = on_met
        self._seen: tuple[CatalogReplica, int] | None = None
        self._met = set(addresses)
        self.removed: Mapping[NodeId, str] = {}
        """The nodes that were removed from the cluster, with the data directory that each had: that
        is refused for ever, and another one may come under the id."""
        self.nodes: tuple[NodeId, ...] = tuple(sorted(addresses))
        """All others, in order: of the settings or of the catalog."""

    def __contains__(self, node: NodeId) -> bool:
        return node in self._met and node not in self.removed

    def has_removed(self, identity: Identity) -> bool:
        """Whether this directory was removed. Another one under its id is a newcomer."""
        return self.removed.get(identity.node_id) == identity.incarnation

    def address(self, node: NodeId) -> str:
        """Where a node is reached, as far as this one knows; empty: it does not."""
        return self._places(node)[0]

    def _places(self, node: NodeId) -> tuple[str, str]:
        """Where a node says that it is, and where it is by settings alone. What it says may be
        wrong, and cannot be put right through a catalog that nobody leads for want of that link."""
        catalog = self._catalog()
        row = None if catalog is None else catalog.state.nodes.get(node)
        if row is None:
            settled = self._addresses.get(node, "")
            return settled, settled
        settled = self._addresses.get(node, row.address)
        return row.facts.link_address or settled, settled

    def introduce(self, seeds: Mapping[NodeId, str]) -> None:
        """This node was told of these when it came, or behind a greeting; what settings and catalog
        say goes first. A node that was removed stays so, whoever has not heard of that."""
        seeds = {node: address for node, address in seeds.items() if node not in self.removed}
        self._addresses = {**seeds, **self._addresses}
        self.nodes = tuple(sorted({*self.nodes, *seeds}))
        for node in seeds:
            self._meet(node)

    def look(self) -> None:
        """The catalog may have changed."""
        catalog = self._catalog()
        if catalog is None or catalog.group.engine.recovery:
            return
        seen = catalog, catalog.state.node_changes
        if seen == self._seen:
            return
        self._seen = seen
        rows = catalog.state.nodes
        self.removed = {n: row.incarnation for n, row in rows.items() if row.is_removed}
        self.nodes = tuple(sorted({*self._addresses, *rows} - self.removed.keys()))
        for node in self.nodes:
            if node != self._own and node in rows:
                self._meet(node)
        if self._links is not None:
            for node in self.removed:
                self._links.leave(node)
                self._sessions.pop(node, None)

    def _meet(self, node: NodeId) -> None:
        is_new = node not in self._met
        self._met.add(node)
        if self._links is not None and (is_new or self.address(node)):
            session = self._links.meet(node, *self._places(node))
            if node not in self._sessions:
                self._sessions[node] = session
        if is_new:
            self._on_met(node)
