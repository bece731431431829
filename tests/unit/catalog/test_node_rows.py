"""The rows of nodes: what they have said of themselves, and what the cluster does with them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from svc_cluster.base.ids import NodeId
from svc_cluster.catalog.catalog_commands import DrainNode, RegisterNode
from svc_cluster.catalog.catalog_state import CatalogApplied, CatalogRejected
from svc_cluster.catalog.node_facts import FACT_BYTES_MAX, NO_FACTS, AnnouncedFacts
from svc_cluster.catalog.node_rows import (
    NodeRecord,
    NodeState,
    decode_node,
    encode_node,
    registered,
)
from svc_cluster.codec.catalog_entry import decode_catalog_entry, encode_catalog_entry
from svc_cluster.codec.entry_since import NotActiveYetError
from tests.unit.catalog.support import Catalog

FACTS = AnnouncedFacts("n1:7000", "n1:7001", "rack-3", "zone-b")
ROW = NodeRecord(NodeId(1), "i" * 32, "10.0.0.1:7000")
COMMAND = RegisterNode(NodeId(1), "i" * 32, "10.0.0.1:7000")


@pytest.mark.parametrize(
    "record",
    [
        ROW,
        replace(ROW, ordinal=2, is_replacing=True),
        replace(ROW, facts=FACTS),
        replace(ROW, state=NodeState.REMOVED),
        replace(ROW, ordinal=1, facts=AnnouncedFacts(zone="b"), state=NodeState.DRAINING),
    ],
)
def test_a_row_is_found_again(record: NodeRecord) -> None:
    assert decode_node(encode_node(record)) == record


def test_who_has_said_nothing_has_the_row_of_before() -> None:
    """Byte for byte: other releases write it as well, and are compared with this one."""
    assert encode_node(ROW) == bytes.fromhex("9301d920") + b"i" * 32 + b"\xad10.0.0.1:7000"


def test_facts_are_taken_and_stay_while_none_are_said() -> None:
    """A program of before says none; another one may say others."""
    first = registered({}, replace(COMMAND, facts=FACTS))
    assert first == replace(ROW, facts=FACTS)
    assert isinstance(first, NodeRecord)
    assert registered({NodeId(1): first}, COMMAND) == first
    moved = replace(COMMAND, address="10.0.0.9:7000", facts=replace(FACTS, zone="a"))
    found = registered({NodeId(1): first}, moved)
    assert found == replace(first, address="10.0.0.9:7000", facts=moved.facts)


def test_facts_have_a_bound_and_a_removed_node_stays_out() -> None:
    longest = replace(COMMAND, facts=AnnouncedFacts(zone="z" * FACT_BYTES_MAX))
    assert isinstance(registered({}, longest), NodeRecord)
    longer = replace(COMMAND, facts=AnnouncedFacts(zone="z" * (FACT_BYTES_MAX + 1)))
    assert "at most 256 bytes" in str(registered({}, longer))
    gone = {NodeId(1): replace(ROW, state=NodeState.REMOVED)}
    assert registered(gone, COMMAND) == "the node was removed from the cluster"


def test_facts_are_written_from_version_3_on() -> None:
    """And found in the entry; without them the entry is the one of before."""
    said = replace(COMMAND, facts=FACTS)
    assert decode_catalog_entry(encode_catalog_entry([said], 3)) == [said]
    with pytest.raises(NotActiveYetError, match="takes version 3"):
        encode_catalog_entry([said], 2)
    assert decode_catalog_entry(encode_catalog_entry([COMMAND], 2)) == [COMMAND]
    assert COMMAND.facts == NO_FACTS


def test_a_node_is_drained_and_no_more_and_that_is_there_behind_a_start() -> None:
    """Unknown and removed ones are neither; what registers again stays drained."""
    catalog = Catalog()
    catalog.apply(COMMAND)
    assert catalog.apply(DrainNode(NodeId(1), True)) == [CatalogApplied()]
    catalog.apply(replace(COMMAND, address="elsewhere"))
    assert catalog.reopened().nodes[NodeId(1)].state is NodeState.DRAINING
    assert catalog.apply(DrainNode(NodeId(1), False)) == [CatalogApplied()]
    assert catalog.reopened().nodes[NodeId(1)] == replace(ROW, address="elsewhere")
    (unknown,) = catalog.apply(DrainNode(NodeId(9), True))
    assert unknown == CatalogRejected("no node of this id is registered")
    catalog.state.nodes[NodeId(1)] = replace(ROW, state=NodeState.REMOVED)
    (removed,) = catalog.apply(DrainNode(NodeId(1), False))
    assert removed == CatalogRejected("the node was removed from the cluster")


def test_the_drain_is_written_from_its_version_on() -> None:
    payload = encode_catalog_entry([DrainNode(NodeId(5), True)], 3)
    assert decode_catalog_entry(payload) == [DrainNode(NodeId(5), True)]
    with pytest.raises(NotActiveYetError):
        encode_catalog_entry([DrainNode(NodeId(5), True)], 2)
