"""What a node's catalog says of groups, and what of it is trusted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from svc_cluster.base.ids import CATALOG_GROUP, GroupId, NodeId
from svc_cluster.catalog.own_group import CatalogGroup
from svc_cluster.replica.applied_rows import AppliedRows

OWN = CatalogGroup((NodeId(1),))
BASIN: Any = SimpleNamespace(name="basin-one")


def rows(recovery: int) -> AppliedRows:
    known = {GroupId(2): BASIN}
    catalog: Any = SimpleNamespace(
        group=SimpleNamespace(engine=SimpleNamespace(recovery=recovery)),
        state=SimpleNamespace(basins_by_group=known),
        group_row=lambda group_id: OWN if group_id == CATALOG_GROUP else known.get(group_id),
    )
    return AppliedRows(lambda: catalog)


def test_a_damaged_catalog_is_read_and_not_trusted() -> None:
    """Nothing is sealed, and nobody's members are changed, by its word."""
    for recovery, own, basin in ((0, OWN, BASIN), (3, None, None)):
        found = rows(recovery)
        assert (found.trusted(CATALOG_GROUP), found.trusted(GroupId(2))) == (own, basin)
        assert found.trusted_record(GroupId(2)) == basin
        assert (found.of_group(CATALOG_GROUP), found.of_group(GroupId(2))) == (OWN, BASIN)
        assert (found.name_of(GroupId(2)), found.name_of(GroupId(3))) == ("basin-one", "")
        assert found.trusted(GroupId(3)) is None


def test_without_a_catalog_nothing_is_known() -> None:
    found = AppliedRows(lambda: None)
    assert found.of_group(CATALOG_GROUP) is None and found.trusted(CATALOG_GROUP) is None
    assert found.record(GroupId(2)) is None and found.trusted_record(GroupId(2)) is None
    assert found.name_of(GroupId(2)) == ""
