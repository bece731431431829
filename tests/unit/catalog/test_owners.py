"""Which chain of access tokens made a basin, and how many of each a chain has."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from svc_cluster.base.ids import GroupId, NodeId, TimestampMs
from svc_cluster.catalog import canonical_rows, catalog_state
from svc_cluster.catalog.catalog_commands import CreateBasin, DeleteBasin, RemoveBasin
from svc_cluster.catalog.catalog_state import CatalogApplied
from svc_cluster.catalog.token_commands import RevokeToken, SetRootToken
from svc_cluster.codec.catalog_entry import decode_catalog_entry, encode_catalog_entry
from svc_cluster.model.stream_config import BasinConfig
from tests.unit.catalog.support import Catalog
from tests.unit.catalog.test_tokens import issue

SAMPLE = bytes.fromhex("dc0010a9626173696e2d6f6e65029101cd03e8c0c2c0c0c0c0c0c0c2c2c400a56c6f63616c")
"""The row of a basin as it was written before there were owners."""


def create(name: str, group_id: int, owner: int = 0) -> CreateBasin:
    made = CreateBasin(
        name, GroupId(group_id), (NodeId(1),), BasinConfig(), TimestampMs(1000), b"", "local"
    )
    return replace(made, owner=owner)


def test_an_owner_survives_in_log_and_store() -> None:
    """It comes back from the entry's bytes, and from a store reopened; deleting keeps it."""
    command = create("basin-one", 2, owner=7)
    assert decode_catalog_entry(encode_catalog_entry([command])) == [command]
    catalog = Catalog()
    assert isinstance(catalog.apply(command)[0], CatalogApplied)
    catalog.apply(DeleteBasin("basin-one", TimestampMs(2000)))
    for found in (catalog.state, catalog.reopened()):
        assert found.basins["basin-one"].owner == 7
        assert found.basins["basin-one"].deleted_at_ms == 2000
        assert found.count_basins_of(7) == 1


def test_a_basin_without_owner_has_the_row_of_before() -> None:
    """So that an entry of then writes the same on every release; the kept sample can be read."""
    catalog = Catalog()
    catalog.apply(create("basin-one", 2))
    assert catalog.store.pairs[catalog_state.BASIN + b"basin-one"] == SAMPLE
    assert catalog.reopened().basins["basin-one"].owner == 0
    catalog.apply(create("basin-two", 3, owner=9))
    owned = msgspec.msgpack.decode(catalog.store.pairs[catalog_state.BASIN + b"basin-two"])
    assert (len(owned), owned[-1]) == (17, 9)
    for row in (SAMPLE, catalog.store.pairs[catalog_state.BASIN + b"basin-two"]):
        assert canonical_rows.canonical_basin(row) == row


def test_a_chain_has_as_many_basins_as_it_made_and_has() -> None:
    """Those being deleted count until they are gone; others' and nobody's do not."""
    catalog = Catalog()
    for number, owner in enumerate((7, 7, 8, 0), 2):
        catalog.apply(create(f"basin-{number}", number, owner))
    catalog.apply(DeleteBasin("basin-2", TimestampMs(2000)))
    assert [catalog.state.count_basins_of(owner) for owner in (7, 8, 9)] == [2, 1, 0]
    catalog.apply(RemoveBasin(GroupId(2)))
    assert catalog.state.count_basins_of(7) == 1


def test_a_token_is_of_the_chain_of_its_first_token() -> None:
    """The first below the root's, or that nobody issued; the root token is of none."""
    catalog = Catalog()
    catalog.apply(SetRootToken(b"h" * 32, b"c", only_if_absent=True))
    root = catalog.state.tokens.by_id("root")
    assert root is not None
    first = issue(catalog, "first", root.serial)
    child = issue(catalog, "child", first)
    grandchild = issue(catalog, "grandchild", child)
    other = issue(catalog, "other", root.serial)
    nobody_s = issue(catalog, "nobody-s")
    below = issue(catalog, "below", nobody_s)
    tokens = catalog.state.tokens
    assert tokens.chain_of(root.serial) == 0
    assert [tokens.chain_of(each) for each in (first, child, grandchild)] == [first] * 3
    assert [tokens.chain_of(each) for each in (other, nobody_s, below)] == [
        other,
        nobody_s,
        nobody_s,
    ]
    assert tokens.chain(first) == {first, child, grandchild}
    assert tokens.chain(nobody_s) == {nobody_s, below}
    catalog.apply(RevokeToken(child))
    assert catalog.state.tokens.chain(first) == {first}


def test_a_token_cannot_be_named_root_below_another() -> None:
    """What counts is that nobody issued it."""
    catalog = Catalog()
    first = issue(catalog, "first")
    false_root = issue(catalog, "root", first)
    below = issue(catalog, "below", false_root)
    assert catalog.state.tokens.chain_of(below) == first
