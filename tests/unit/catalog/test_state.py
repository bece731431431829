"""The catalog's rules: what each command does, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from svc_cluster.base.errors import UnavailableError
from svc_cluster.base.ids import GroupId, NodeId, TimestampMs
from svc_cluster.catalog.catalog_commands import CreateBasin, DeleteBasin, RegisterNode, RemoveBasin
from svc_cluster.catalog.catalog_state import CatalogApplied, CatalogRejected
from svc_cluster.catalog.placement import place_basin
from svc_cluster.catalog.placement_model import NodeStanding, PlacementNode
from svc_cluster.codec.catalog_entry import decode_catalog_entry, encode_catalog_entry
from svc_cluster.model.record import TimestampingMode
from svc_cluster.model.stream_config import BasinConfig, PartialStreamConfig, Retention
from tests.unit.catalog.support import Catalog

NODES = (NodeId(1), NodeId(2), NodeId(3))


def create(name: str, group_id: int, config: BasinConfig | None = None) -> CreateBasin:
    return CreateBasin(name, GroupId(group_id), NODES, config or BasinConfig(), TimestampMs(1000))


def test_a_basin_takes_the_next_group_id_and_it_is_never_given_again() -> None:
    """A removed basin's group id does not come back, even under the same name."""
    catalog = Catalog()
    assert isinstance(catalog.apply(create("basin-one", 2))[0], CatalogApplied)
    catalog.apply(DeleteBasin("basin-one", TimestampMs(2000)))
    catalog.apply(RemoveBasin(GroupId(2)))
    assert catalog.state.basins == {}
    assert isinstance(catalog.apply(create("basin-one", 2))[0], CatalogRejected)
    assert isinstance(catalog.apply(create("basin-one", 3))[0], CatalogApplied)
    assert catalog.state.next_group_id == 4


def test_a_basin_is_removed_only_after_it_was_deleted() -> None:
    """The record of a living basin cannot be taken away."""
    catalog = Catalog()
    catalog.apply(create("basin-one", 2))
    assert isinstance(catalog.apply(RemoveBasin(GroupId(2)))[0], CatalogRejected)
    assert "basin-one" in catalog.state.basins


def test_commands_of_one_entry_see_each_other() -> None:
    """Creating the same name twice in one entry takes effect once."""
    catalog = Catalog()
    outcomes = catalog.apply(create("basin-one", 2), create("basin-one", 3))
    assert [type(outcome) for outcome in outcomes] == [CatalogApplied, CatalogRejected]


def test_a_second_deletion_keeps_the_time_of_the_first() -> None:
    """Deleting is idempotent."""
    catalog = Catalog()
    catalog.apply(create("basin-one", 2))
    catalog.apply(DeleteBasin("basin-one", TimestampMs(2000)))
    catalog.apply(DeleteBasin("basin-one", TimestampMs(3000)))
    assert catalog.state.basins["basin-one"].deleted_at_ms == 2000


def test_an_emptied_data_directory_cannot_take_its_old_node_id() -> None:
    """The first incarnation stays registered."""
    catalog = Catalog()
    first = RegisterNode(NodeId(1), "aa", "127.0.0.1:1")
    assert isinstance(catalog.apply(first)[0], CatalogApplied)
    assert isinstance(
        catalog.apply(RegisterNode(NodeId(1), "bb", "127.0.0.1:1"))[0], CatalogRejected
    )
    assert isinstance(
        catalog.apply(RegisterNode(NodeId(1), "aa", "127.0.0.1:9"))[0], CatalogApplied
    )
    assert catalog.state.nodes[NodeId(1)].address == "127.0.0.1:9"


def test_everything_is_found_again_after_a_restart() -> None:
    """State built from the store equals the state that wrote it, configuration included."""
    catalog = Catalog()
    config = BasinConfig(
        default_stream_config=PartialStreamConfig(
            storage_class="express",
            retention=Retention(None),
            timestamping_mode=TimestampingMode.ARRIVAL,
            timestamping_uncapped=False,
        ),
        stream_cipher="aegis-256",
        create_stream_on_read=True,
    )
    catalog.apply(RegisterNode(NodeId(2), "cc", "127.0.0.1:2"))
    catalog.apply(create("basin-one", 2, config))
    catalog.apply(create("basin-two", 3, BasinConfig(PartialStreamConfig())))
    catalog.apply(DeleteBasin("basin-two", TimestampMs(5)))
    again = catalog.reopened()
    assert again.basins == catalog.state.basins
    assert again.nodes == catalog.state.nodes
    assert again.next_group_id == catalog.state.next_group_id
    assert (again.applied_index, again.digest) == (4, catalog.state.digest)


def test_replicas_that_applied_the_same_entries_have_the_same_digest() -> None:
    """And one that applied something else has another."""
    one, two, three = Catalog(), Catalog(), Catalog()
    for catalog in (one, two):
        catalog.apply(create("basin-one", 2))
    three.apply(create("basin-two", 2))
    assert one.state.digest == two.state.digest != three.state.digest


def test_listing_is_in_byte_order_with_an_exact_has_more() -> None:
    """Prefix, exclusive start and page size."""
    catalog = Catalog()
    names = ["basin-a1", "basin-a2", "basin-b1", "basin-b2", "other-aa"]
    for number, name in enumerate(reversed(names)):
        catalog.apply(create(name, 2 + number))

    def page(prefix: str, start_after: str, limit: int) -> tuple[list[str], bool]:
        records, has_more = catalog.state.list_basins(prefix, start_after, limit)
        return [record.name for record in records], has_more

    assert page("", "", 10) == (names, False)
    assert page("", "", 5) == (names, False)
    assert page("", "", 4) == (names[:4], True)
    assert page("basin-", "basin-a2", 1) == (["basin-b1"], True)
    assert page("basin-", "basin-b1", 1) == (["basin-b2"], False)
    assert page("basin-b", "basin-a", 10) == (["basin-b1", "basin-b2"], False)
    assert page("basin-a1", "", 10) == (["basin-a1"], False)
    assert page("basin-a", "zzz", 10) == ([], False)


def placed(nodes: Sequence[NodeId]) -> list[PlacementNode]:
    return [PlacementNode(node) for node in nodes]


def test_three_basins_prefer_three_different_leaders() -> None:
    """The planner spreads leadership as well as replicas."""
    catalog = Catalog()
    leaders = []
    for number in range(6):
        replicas = place_basin(catalog.state, placed(NODES), 3)
        assert sorted(replicas) == list(NODES)
        leaders.append(replicas[0])
        catalog.apply(
            CreateBasin(
                f"basin-{number:03}", GroupId(2 + number), replicas, BasinConfig(), TimestampMs(1)
            )
        )
    assert sorted(leaders) == [1, 1, 2, 2, 3, 3]


def test_replicas_go_to_the_least_loaded_nodes() -> None:
    """With five nodes and three replicas, two basins leave nobody idle."""
    nodes = tuple(NodeId(n) for n in range(1, 6))
    catalog = Catalog()
    used: set[int] = set()
    for number in range(2):
        replicas = place_basin(catalog.state, placed(nodes), 3)
        used.update(replicas)
        catalog.apply(
            CreateBasin(
                f"basin-{number:03}", GroupId(2 + number), replicas, BasinConfig(), TimestampMs(1)
            )
        )
    assert used == set(nodes)


def test_a_new_basin_is_spread_over_hosts_and_zones_before_loads_are_looked_at() -> None:
    """Nothing comes to a node that drains, in no zone but those it belongs to; where too few take
    replicas there is none."""
    spots = [("h1", "a"), ("h1", "b"), ("h2", "a"), ("h3", "a"), ("h4", "b")]
    nodes = [PlacementNode(NodeId(n), *spot) for n, spot in enumerate(spots, start=1)]
    state = Catalog().state
    assert sorted(place_basin(state, nodes, 3)) == [1, 3, 5], "nodes 2 and 4 are no better"
    assert sorted(place_basin(state, nodes, 5)) == [1, 2, 3, 4, 5], "no other choice is left"
    assert sorted(place_basin(state, nodes, 3, frozenset({"a"}))) == [1, 3, 4]
    draining = [replace(nodes[0], standing=NodeStanding.DRAINING), *nodes[1:]]
    assert sorted(place_basin(state, draining, 3)) == [2, 3, 4], "a host each, and both zones"
    with pytest.raises(UnavailableError, match="4 nodes take new basins, and one has 5 replicas"):
        place_basin(state, draining, 5)


def test_what_created_a_basin_is_kept_until_it_is_removed() -> None:
    """Through its deletion, a restart, and the bytes of the log."""
    catalog = Catalog()
    command = replace(create("basin-one", 2), creation_hash=b"h" * 32)
    assert decode_catalog_entry(encode_catalog_entry([command])) == [command]
    catalog.apply(command, create("basin-two", 3))
    catalog.apply(DeleteBasin("basin-one", TimestampMs(2000)))
    for state in (catalog.state, catalog.reopened()):
        assert state.basins["basin-one"].creation_hash == b"h" * 32
        assert state.basins["basin-two"].creation_hash == b""
