"""What the applied catalog of a node says of the nodes, while that is whole."""

from __future__ import annotations

from svc_cluster.catalog.catalog_state import CatalogState
from svc_cluster.catalog.node_rows import incarnations
from svc_cluster.model.formation import Members
from svc_cluster.model.places import Places
from svc_cluster.replica.host import Host


class KnownMembers:
    """A view of one node's catalog; it may lag behind the others'."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def registrations(self) -> Members:
        """Return each node that is registered with its incarnation, in the order of the ids; those
        that were removed are not."""
        state = self._state()
        if state is None:
            return ()
        return tuple(sorted(incarnations(state.nodes.values()).items()))

    def places(self) -> Places:
        """Return the places that were given away."""
        state = self._state()
        return () if state is None else state.places

    def _state(self) -> CatalogState | None:
        catalog = self._host.catalog
        return None if catalog is None or catalog.group.engine.recovery else catalog.state
