"""What the catalog of a node, as it is applied there, says of groups."""

from __future__ import annotations

from collections.abc import Callable

from svc_cluster.base.ids import GroupId
from svc_cluster.catalog.basin_record import BasinRecord
from svc_cluster.catalog.own_group import CatalogGroup
from svc_cluster.replica.catalog import CatalogReplica


class AppliedRows:
    """Those of one node. They may lag behind the others', as its catalog may."""

    def __init__(self, catalog: Callable[[], CatalogReplica | None]) -> None:
        self._catalog = catalog

    def record(self, group_id: GroupId) -> BasinRecord | None:
        """The basin's row; None: there is none here."""
        catalog = self._catalog()
        return None if catalog is None else catalog.state.basins_by_group.get(group_id)

    def trusted_record(self, group_id: GroupId) -> BasinRecord | None:
        """None too while the catalog here is damaged: nothing is sealed by its word."""
        return self.record(group_id) if self._is_whole() else None

    def of_group(self, group_id: GroupId) -> BasinRecord | CatalogGroup | None:
        """What the row of any group says, of the catalog's own as well."""
        catalog = self._catalog()
        return None if catalog is None else catalog.group_row(group_id)

    def trusted(self, group_id: GroupId) -> BasinRecord | CatalogGroup | None:
        """The same; None too while the catalog here is damaged."""
        return self.of_group(group_id) if self._is_whole() else None

    def name_of(self, group_id: GroupId) -> str:
        """The basin's name; empty: none is known."""
        record = self.record(group_id)
        return "" if record is None else record.name

    def _is_whole(self) -> bool:
        catalog = self._catalog()
        return catalog is not None and not catalog.group.engine.recovery
