"""The place of a node is given to another directory: one node at a time, by the next ordinal."""

from __future__ import annotations

import pytest

from svc_cluster._pb.cluster.v1 import catalog_entry_pb2 as pb
from svc_cluster.base.ids import GroupId, NodeId, TimestampMs
from svc_cluster.catalog.catalog_commands import (
    CreateBasin,
    RegisterNode,
    RemoveNode,
    ReplaceNode,
)
from svc_cluster.catalog.catalog_state import CatalogApplied, CatalogRejected
from svc_cluster.catalog.node_rows import NodeRecord
from svc_cluster.catalog.own_group import CatalogGroup
from svc_cluster.catalog.replacement import lost_basins, why_not_replaced, why_not_unasked
from svc_cluster.codec.catalog_entry import decode_catalog_entry, encode_catalog_entry
from svc_cluster.codec.entry_since import NotActiveYetError, check_since
from svc_cluster.codec.entry_version import CATALOG_KINDS, UnknownEntryError
from svc_cluster.model.formation import Asking
from svc_cluster.model.places import PLACES_MAX, Place
from svc_cluster.model.stream_config import BasinConfig
from tests.unit.catalog.support import Catalog
from tests.unit.catalog.test_active_version import NEXT, said

NEW = "b" * 32
NEWER = "c" * 32
OWN = CatalogGroup((NodeId(1), NodeId(2), NodeId(3), NodeId(4)))


def registered(*nodes: int) -> Catalog:
    catalog = Catalog()
    for node in nodes:
        catalog.apply(RegisterNode(NodeId(node), f"incarnation-{node}", "address"))
    return catalog


def replace(node: int, ordinal: int = 1, incarnation: str = NEW) -> ReplaceNode:
    return ReplaceNode(NodeId(node), ordinal, incarnation)


def register(node: int, incarnation: str, address: str = "address") -> RegisterNode:
    return RegisterNode(NodeId(node), incarnation, address)


def test_a_place_is_given_away_and_taken_when_its_directory_registers() -> None:
    """Until then it is open; the address is kept, and all of it is there after a start."""
    catalog = registered(1, 2, 3)
    before = dict(catalog.store.pairs)
    assert catalog.apply(replace(3)) == [CatalogApplied()]
    opened = NodeRecord(NodeId(3), NEW, "address", 1, is_replacing=True)
    assert catalog.state.nodes[NodeId(3)] == catalog.reopened().nodes[NodeId(3)] == opened
    assert catalog.state.places == (Place(NodeId(3), 1, NEW),)
    assert catalog.apply(register(3, NEW, "elsewhere")) == [CatalogApplied()]
    taken = NodeRecord(NodeId(3), NEW, "elsewhere", 1)
    assert catalog.state.nodes[NodeId(3)] == catalog.reopened().nodes[NodeId(3)] == taken
    changed = {key for key, value in before.items() if catalog.store.pairs[key] != value}
    assert len(changed) == 2, "the rows of the others are as they were: this node's, and the mark"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (replace(4), "no node of this id"),
        (replace(2), "node 3 is being replaced: one node at a time"),
        (replace(3, 1, NEWER), "given to another directory meanwhile"),
        (replace(3, 3, NEWER), "given to another directory meanwhile"),
        (replace(3, 2, NEW), "has the place already"),
        (register(3, "incarnation-3"), "taken by another data directory"),
    ],
)
def test_while_one_is_replaced_nothing_else_is(
    command: ReplaceNode | RegisterNode, reason: str
) -> None:
    """Another node, another ordinal, the directory that has the place, the one that had it."""
    catalog = registered(1, 2, 3)
    catalog.apply(replace(3))
    before = dict(catalog.state.nodes)
    (outcome,) = catalog.apply(command)
    assert isinstance(outcome, CatalogRejected) and reason in outcome.reason
    assert catalog.state.nodes == before


def test_a_disk_that_is_lost_again_meanwhile_is_replaced_again() -> None:
    """The same node, by the next ordinal; then it is another node's turn."""
    catalog = registered(1, 2, 3)
    catalog.apply(replace(3), replace(3, 2, NEWER))
    assert catalog.state.places == (Place(NodeId(3), 2, NEWER),)
    assert catalog.apply(replace(2)) != [CatalogApplied()]
    catalog.apply(register(3, NEWER))
    assert catalog.apply(replace(2)) == [CatalogApplied()]


def test_in_one_entry_a_second_replacement_is_refused_too() -> None:
    catalog = registered(1, 2, 3)
    first, second = catalog.apply(replace(3), replace(2))
    assert first == CatalogApplied() and isinstance(second, CatalogRejected)


def test_so_many_nodes_are_replaced_and_no_more() -> None:
    """A node that was replaced may be replaced again."""
    catalog = registered(*range(1, PLACES_MAX + 2))
    for node in range(1, PLACES_MAX + 1):
        assert catalog.apply(replace(node), register(node, NEW)) == [CatalogApplied()] * 2
    (outcome,) = catalog.apply(replace(PLACES_MAX + 1))
    assert isinstance(outcome, CatalogRejected) and "as many as may be" in outcome.reason
    assert catalog.apply(replace(7, 2, NEWER)) == [CatalogApplied()]


def test_the_command_is_written_from_its_version_on_and_read_for_ever() -> None:
    payload = encode_catalog_entry([replace(3, 5)])
    assert decode_catalog_entry(payload) == [replace(3, 5)]
    with pytest.raises(UnknownEntryError):
        decode_catalog_entry(payload, CATALOG_KINDS - {"replace_node"})
    entry = pb.CatalogEntry.FromString(payload[2:])
    check_since(entry, 3)
    with pytest.raises(NotActiveYetError):
        check_since(entry, 2)


def active(*nodes: int) -> Catalog:
    catalog = registered(*nodes)
    assert catalog.apply(said(*((node, NEXT) for node in nodes))) == [CatalogApplied()]
    return catalog


def asked(*nodes: int, is_now: bool = True) -> dict[NodeId, Asking]:
    """These came up with an empty directory."""
    return {NodeId(node): Asking(NEW, 0.0, is_now) for node in nodes}


@pytest.mark.parametrize(
    ("node", "asking", "is_up", "reason"),
    [
        (9, {9}, False, "no node 9 is registered"),
        (3, {3}, True, "is up with its data directory"),
        (3, set(), False, "has not come up with an empty data directory"),
        (3, {2, 3}, False, "node 2 came up with an empty data directory as well as node 3"),
    ],
)
def test_an_operator_hears_why_a_node_is_not_replaced(
    node: int, asking: set[int], is_up: bool, reason: str
) -> None:
    catalog = active(1, 2, 3)
    said_why = why_not_replaced(catalog.state, OWN, NodeId(node), asked(*asking), is_up=is_up)
    assert said_why is not None and reason in said_why


def test_a_second_empty_node_is_refused_by_name_until_the_first_is_whole() -> None:
    catalog = active(1, 2, 3)
    assert why_not_replaced(catalog.state, OWN, NodeId(3), asked(3), is_up=False) is None
    catalog.apply(replace(3))
    reason = why_not_replaced(catalog.state, OWN, NodeId(2), asked(2), is_up=False)
    assert reason is not None and "node 3 is being replaced" in reason
    assert "a volume is probably not mounted" in reason and "give node 2" in reason
    catalog.apply(register(3, NEW))
    assert why_not_replaced(catalog.state, OWN, NodeId(2), asked(2), is_up=False) is None


def test_who_came_up_empty_and_is_gone_gets_no_place_and_still_stands_in_the_way() -> None:
    """Its directory may be gone with it; and a volume of its own is probably not mounted."""
    catalog = active(1, 2, 3)
    gone = asked(3, is_now=False)
    reason = why_not_replaced(catalog.state, OWN, NodeId(3), gone, is_up=False)
    assert reason is not None and "is not there any more" in reason
    both = asked(2) | gone
    reason = why_not_replaced(catalog.state, OWN, NodeId(2), both, is_up=False)
    assert reason is not None and "node 3 came up with an empty data directory as well" in reason


def test_before_the_version_nothing_is_replaced() -> None:
    """Older nodes would talk to the directory that is refused."""
    reason = why_not_replaced(registered(1).state, OWN, NodeId(1), asked(1), is_up=False)
    assert reason is not None and "finalize the upgrade first" in reason


def test_basins_without_a_quorum_of_others_are_lost() -> None:
    """One replica, and two; three are enough, and what is elsewhere stays."""
    catalog = registered(1, 2, 3)
    nodes = [NodeId(n) for n in (1, 2, 3)]
    for number, replicas in enumerate(((3,), (2, 3), (1, 2, 3), (1,)), start=2):
        catalog.apply(
            CreateBasin(
                f"basin-{number}",
                GroupId(number),
                tuple(nodes[n - 1] for n in replicas),
                BasinConfig(),
                TimestampMs(1),
            )
        )
    assert lost_basins(catalog.state, NodeId(3)) == ["basin-2", "basin-3"]


@pytest.mark.parametrize(
    ("whole", "asking", "reason"),
    [
        ({1: True, 2: True}, {3}, None),
        ({1: True}, {3}, "node 2 does not answer"),
        ({1: True, 2: False}, {3}, "node 2 is not whole itself"),
        ({1: True, 2: True}, {2, 3}, "a volume is probably not mounted"),
        ({1: True, 2: True, 3: False}, {3}, None),
    ],
)
def test_unasked_a_node_is_replaced_only_while_all_others_are_whole(
    whole: dict[int, bool], asking: set[int], reason: str | None
) -> None:
    """And alone; what the lost one said of itself before does not matter."""
    nodes = [NodeId(n) for n in (1, 2, 3)]
    said_why = why_not_unasked(
        active(1, 2, 3).state,
        OWN,
        NodeId(3),
        asked(*asking),
        {NodeId(n): is_whole for n, is_whole in whole.items()},
        nodes,
        is_up=False,
    )
    assert (said_why is None) if reason is None else reason in (said_why or "")


def test_unasked_no_basin_is_given_up() -> None:
    """It is named, with what an operator can do."""
    catalog = active(1, 2, 3)
    only = (NodeId(3),)
    catalog.apply(CreateBasin("alone", GroupId(2), only, BasinConfig(), TimestampMs(1)))
    whole = {NodeId(1): True, NodeId(2): True}
    nodes = [NodeId(n) for n in (1, 2, 3)]
    reason = why_not_unasked(catalog.state, OWN, only[0], asked(3), whole, nodes, is_up=False)
    assert reason is not None
    assert "1 basins are lost, alone among them" in reason
    assert "member replace 3 --yes" in reason


def test_who_has_no_vote_is_not_replaced_where_no_row_says_so_yet() -> None:
    """Before the first change of votes; whoever leads knows who votes."""
    own = CatalogGroup((NodeId(1), NodeId(2), NodeId(3)))
    reason = why_not_replaced(active(1, 2, 3, 4).state, own, NodeId(4), asked(4), is_up=False)
    assert reason is not None and "node 4 has no vote in the catalog" in reason


def test_a_node_that_was_removed_is_being_replaced_no_more() -> None:
    """Whoever waits for that goes on: another node is replaced, and votes move."""
    catalog = registered(1, 2, 3, 4)
    catalog.apply(replace(4))
    assert catalog.apply(RemoveNode(NodeId(4))) == [CatalogApplied()]
    assert not catalog.reopened().nodes[NodeId(4)].is_replacing
    assert catalog.apply(replace(3)) == [CatalogApplied()]
