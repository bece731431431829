"""The active version as applied: it goes up by one, with the word of every registered node."""

from __future__ import annotations

from dataclasses import replace

import pytest

from svc_cluster.base.ids import NodeId
from svc_cluster.catalog.active_version import NodeVersion, RaiseActiveVersion
from svc_cluster.catalog.catalog_commands import RegisterNode
from svc_cluster.catalog.catalog_state import CatalogApplied, CatalogRejected
from svc_cluster.catalog.raising import Gateways, NodeSpeaks, why_not_raised, with_successors
from svc_cluster.codec.catalog_entry import decode_catalog_entry, encode_catalog_entry
from svc_cluster.codec.entry_version import CATALOG_KINDS, UnknownEntryError
from svc_cluster.model.formation import Asking
from svc_cluster.model.versions import FIRST, Spoken
from tests.unit.catalog.support import Catalog

NEXT = FIRST + 1
NOBODY = Gateways({}, 0.0)


def registered(*nodes: int) -> Catalog:
    catalog = Catalog()
    for node in nodes:
        catalog.apply(RegisterNode(NodeId(node), f"incarnation-{node}", "address"))
    return catalog


def said(*rows: tuple[int, int], version: int = NEXT) -> RaiseActiveVersion:
    nodes = (NodeVersion(NodeId(node), f"incarnation-{node}", newest) for node, newest in rows)
    return RaiseActiveVersion(version, tuple(nodes))


def test_a_catalog_says_none_until_it_is_raised_and_keeps_what_it_came_to() -> None:
    """The row is absent before, so that a catalog of before has the same bytes; it is there after a
    start."""
    catalog = registered(1, 2)
    assert catalog.state.active_version.now == FIRST
    assert b"\x04" not in catalog.store.pairs
    assert catalog.apply(said((1, NEXT), (2, NEXT + 1))) == [CatalogApplied()]
    assert catalog.state.active_version.now == NEXT
    assert catalog.reopened().active_version.now == NEXT


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (said((1, NEXT), (2, FIRST)), "node 2 speaks version 2 at most"),
        (said((1, NEXT)), "node 2 has not said"),
        (
            RaiseActiveVersion(
                NEXT, (*said((1, NEXT)).nodes, NodeVersion(NodeId(2), "another", NEXT))
            ),
            "node 2 has not said",
        ),
        (said((1, NEXT), (2, NEXT), version=FIRST), "comes to 3 next"),
        (said((1, NEXT + 1), (2, NEXT + 1), version=NEXT + 1), "comes to 3 next"),
    ],
)
def test_without_the_word_of_all_or_by_another_step_it_has_no_effect(
    command: RaiseActiveVersion, reason: str
) -> None:
    """Whoever proposed it, and whatever that one believed."""
    catalog = registered(1, 2)
    (outcome,) = catalog.apply(command)
    assert isinstance(outcome, CatalogRejected)
    assert reason in outcome.reason
    assert catalog.state.active_version.now == FIRST
    assert b"\x04" not in catalog.store.pairs


def test_it_is_never_lowered_or_raised_twice_by_one_entry() -> None:
    """The second of two alike finds another version, also within one entry; nothing goes back."""
    catalog = registered(1)
    outcomes = catalog.apply(said((1, NEXT)), said((1, NEXT)))
    assert [type(outcome) for outcome in outcomes] == [CatalogApplied, CatalogRejected]
    (outcome,) = catalog.apply(said((1, NEXT), version=FIRST))
    assert isinstance(outcome, CatalogRejected)
    assert catalog.reopened().active_version.now == NEXT


def test_a_node_that_registers_in_the_same_entry_is_asked_for_too() -> None:
    """Nobody comes in behind the back of the command."""
    catalog = registered(1)
    newcomer = RegisterNode(NodeId(2), "incarnation-2", "address")
    outcomes = catalog.apply(newcomer, said((1, NEXT)))
    assert isinstance(outcomes[1], CatalogRejected)
    assert catalog.state.active_version.now == FIRST


def test_the_command_survives_the_log_and_stops_who_does_not_know_it() -> None:
    """A release from before parks there, as at every command that it does not know; one that knows
    the command and not all of its members too."""
    command = said((1, NEXT), (2, NEXT))
    entry = encode_catalog_entry([command])
    assert entry.hex() == (
        "09810a2f92032c080312130801120d696e6361726e6174696f6e2d31180312130802120d"
        "696e6361726e6174696f6e2d321803"
    )
    assert decode_catalog_entry(entry) == [command]
    with pytest.raises(UnknownEntryError):
        decode_catalog_entry(entry, CATALOG_KINDS - {"raise_active_version"})


def speaks(node: int, *spoken: int) -> NodeSpeaks:
    return NodeSpeaks(NodeId(node), f"incarnation-{node}", Spoken(*spoken) if spoken else None)


@pytest.mark.parametrize(
    ("nodes", "gateways", "says"),
    [
        ([speaks(1, 2, 3), speaks(2)], NOBODY, "node 2 is not connected"),
        ([speaks(1, 2, 3), NodeSpeaks(NodeId(2), "", None)], NOBODY, "node 2 has never registered"),
        ([speaks(1, 2, 3), speaks(2, 2, 2)], NOBODY, "node 2 runs release 0.2"),
        ([speaks(1, 2, 3), speaks(2, 4, 5)], NOBODY, "node 2 speaks version 4 at least"),
        ([speaks(1, 2, 3)], Gateways({"g": 2}, 0.0), "gateway g runs release 0.2"),
        ([speaks(1, 2, 3)], Gateways({"g": 3}, 2.0), "ask again in 2.0 s"),
        ([speaks(1, 2, 3)], Gateways({"g": 2}, 0.0, (NodeId(4),)), "gateway g runs release 0.2"),
        ([speaks(1, 2, 3)], Gateways({}, 0.0, (NodeId(4), NodeId(5))), "node 4, 5 does not say"),
    ],
)
def test_who_holds_it_up_is_named(nodes: list[NodeSpeaks], gateways: Gateways, says: str) -> None:
    """A node that is away holds it up as well: nobody knows which release will start there."""
    reason = why_not_raised(3, Spoken(2, 3), nodes, gateways)
    assert reason is not None
    assert says in reason


@pytest.mark.parametrize(
    ("asks", "spoken"),
    [
        (Asking("e" * 32, 0.0, is_now=True, newest=3), Spoken(FIRST, 3)),
        (Asking("e" * 32, 0.0, is_now=False, newest=3), None),
        (Asking("e" * 32, 0.0, is_now=True), None),
    ],
)
def test_a_lost_disk_does_not_hold_up_what_replaces_it(asks: Asking, spoken: Spoken | None) -> None:
    """The program on the empty directory that asks for the place counts, while it is there and says
    what it speaks; nobody else's, and not in place of one that runs."""
    nodes = [speaks(1, 2, 3), speaks(2), NodeSpeaks(NodeId(3), "", None)]
    asking = dict.fromkeys(map(NodeId, (1, 2, 3)), asks)
    found = with_successors(nodes, asking)
    assert found == [nodes[0], replace(nodes[1], spoken=spoken), nodes[2]]
    assert with_successors(nodes, {}) == nodes
    assert with_successors([speaks(2, 2, 2)], asking) == [speaks(2, 2, 2)]
    reason = why_not_raised(4, Spoken(2, 4), found[:2], NOBODY)
    assert reason is not None, "it counts for what it speaks"


def test_it_is_raised_where_all_speak_it() -> None:
    """By the leader's program too, which cannot come to what it does not speak itself."""
    nodes = [speaks(1, 2, 3), speaks(2, 2, 4)]
    assert why_not_raised(3, Spoken(2, 3), nodes, Gateways({"g": 3}, 0.0)) is None
    reason = why_not_raised(4, Spoken(2, 3), nodes, NOBODY)
    assert reason is not None
    assert "later release" in reason
