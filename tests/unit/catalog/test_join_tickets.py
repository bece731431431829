"""Who may come to a cluster, once, and who may leave it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from svc_cluster.base.ids import GroupId, NodeId, TimestampMs
from svc_cluster.catalog.active_version import NodeVersion, RaiseActiveVersion
from svc_cluster.catalog.catalog_commands import (
    AdmitNode,
    CreateBasin,
    DeleteBasin,
    DrainNode,
    OpenTicket,
    RegisterNode,
    RemoveBasin,
    RemoveNode,
)
from svc_cluster.catalog.catalog_state import CatalogApplied, CatalogRejected
from svc_cluster.catalog.join_tickets import (
    TICKETS_MAX,
    UNKNOWN_TOKEN,
    Ticket,
    admitted,
    why_not_opened,
)
from svc_cluster.catalog.node_facts import FACT_BYTES_MAX, AnnouncedFacts
from svc_cluster.catalog.node_rows import (
    NO_MORE_PLACES,
    REMOVED,
    NodeRecord,
    NodeState,
    places_of,
)
from svc_cluster.codec.catalog_entry import decode_catalog_entry, encode_catalog_entry
from svc_cluster.codec.entry_since import NotActiveYetError
from svc_cluster.codec.entry_version import CATALOG_KINDS, UnknownEntryError
from svc_cluster.model.join_token import JoinToken, hash_of, parse_join_token
from svc_cluster.model.places import ORDINAL_MAX, PLACES_MAX, Place
from svc_cluster.model.stream_config import BasinConfig
from tests.unit.catalog.support import Catalog

SECRET = b"s" * 32
FOUR = NodeId(4)
NODE = RegisterNode(FOUR, "a" * 32, "10.0.0.4:7000", AnnouncedFacts(zone="west"))
OTHER = replace(NODE, incarnation="b" * 32)
OPEN = OpenTicket(FOUR, hash_of(SECRET), TimestampMs(1_000), TimestampMs(0))


def shown(node: RegisterNode = NODE, secret: bytes = SECRET, now_ms: int = 10) -> AdmitNode:
    return AdmitNode(node, hash_of(secret), TimestampMs(now_ms))


def made() -> Catalog:
    """A cluster of three, to which a fourth may come."""
    catalog = Catalog()
    for node in (1, 2, 3):
        catalog.apply(RegisterNode(NodeId(node), f"{node}" * 32, "address"))
    assert catalog.apply(OPEN) == [CatalogApplied()]
    return catalog


def reason(outcomes: list[CatalogApplied | CatalogRejected]) -> str:
    (outcome,) = outcomes
    assert isinstance(outcome, CatalogRejected), outcome
    return outcome.reason


def test_a_token_lets_one_directory_in_and_is_spent() -> None:
    catalog = made()
    assert catalog.apply(shown()) == [CatalogApplied()]
    row = catalog.state.nodes[FOUR]
    assert (row.incarnation, row.address, row.facts.zone) == ("a" * 32, "10.0.0.4:7000", "west")
    assert catalog.state.tickets.open == {}
    assert catalog.reopened().tickets.open == {}
    assert "a member with another data directory" in reason(catalog.apply(shown(OTHER)))
    assert catalog.state.nodes[FOUR] == row


def test_the_same_directory_may_show_it_again() -> None:
    """Its answer may have been lost, and by then the time may be over. Where a node is nobody says
    here: no secret was looked at, and its own registration tells it."""
    catalog = made()
    catalog.apply(shown())
    before = catalog.state.nodes[FOUR]
    moved = replace(NODE, address="10.0.0.9:7000")
    assert catalog.apply(shown(moved, now_ms=10**6)) == [CatalogApplied()]
    assert catalog.state.nodes[FOUR] == before
    assert catalog.apply(shown(moved, secret=b"x" * 32)) == [CatalogApplied()]
    assert catalog.state.nodes[FOUR] == before


def test_two_at_once_are_two_of_which_one_comes() -> None:
    """In one entry of the log, too."""
    catalog = made()
    first, second = catalog.apply(shown(), shown(OTHER))
    assert (first, type(second)) == (CatalogApplied(), CatalogRejected)
    assert catalog.state.nodes[FOUR].incarnation == "a" * 32


@pytest.mark.parametrize(
    "command",
    [
        shown(secret=b"w" * 32),
        shown(now_ms=1_000),
        shown(replace(NODE, node_id=NodeId(5))),
    ],
    ids=["wrong", "expired", "another's"],
)
def test_whoever_shows_no_good_token_stays_out(command: AdmitNode) -> None:
    catalog = made()
    assert reason(catalog.apply(command)) == UNKNOWN_TOKEN
    assert sorted(catalog.state.nodes) == [1, 2, 3]
    assert FOUR in catalog.state.tickets.open, "the ticket is as it was"


def test_a_token_is_good_to_its_last_millisecond() -> None:
    assert made().apply(shown(now_ms=999)) == [CatalogApplied()]


def test_what_a_newcomer_says_has_a_bound() -> None:
    catalog = made()
    long = replace(NODE, facts=AnnouncedFacts(zone="z" * (FACT_BYTES_MAX + 1)))
    assert "at most 256 bytes" in reason(catalog.apply(shown(long)))
    assert FOUR in catalog.state.tickets.open


def test_a_ticket_is_open_once_and_outlives_a_restart() -> None:
    catalog = made()
    assert "is open" in reason(catalog.apply(replace(OPEN, secret_hash=b"h" * 32)))
    assert catalog.reopened().tickets.open == catalog.state.tickets.open
    later = replace(OPEN, secret_hash=b"h" * 32, now_ms=TimestampMs(1_000))
    assert catalog.apply(replace(later, expires_at_ms=TimestampMs(2_000))) == [CatalogApplied()]


def test_tickets_are_bounded_and_those_of_the_past_go() -> None:
    catalog = made()
    for node in range(5, 4 + TICKETS_MAX):
        assert catalog.apply(replace(OPEN, node_id=NodeId(node))) == [CatalogApplied()]
    assert f"{TICKETS_MAX} join tokens" in reason(catalog.apply(replace(OPEN, node_id=NodeId(99))))
    later = replace(
        OPEN, node_id=NodeId(99), now_ms=TimestampMs(1_000), expires_at_ms=TimestampMs(2_000)
    )
    assert catalog.apply(later) == [CatalogApplied()]
    assert sorted(catalog.state.tickets.open) == sorted(catalog.reopened().tickets.open) == [99]


def test_members_and_nonsense_get_no_ticket() -> None:
    catalog = made()
    assert "belongs to the cluster already" in reason(
        catalog.apply(replace(OPEN, node_id=NodeId(2)))
    )
    assert "cannot be" in reason(catalog.apply(replace(OPEN, node_id=NodeId(0))))
    assert "cannot be" in reason(
        catalog.apply(replace(OPEN, node_id=NodeId(7), secret_hash=b"short"))
    )


def test_an_empty_node_leaves_for_ever() -> None:
    catalog = made()
    catalog.apply(shown())
    assert catalog.apply(RemoveNode(FOUR)) == [CatalogApplied()]
    assert catalog.apply(RemoveNode(FOUR)) == [CatalogApplied()], "it may be repeated"
    assert catalog.reopened().nodes[FOUR].state is NodeState.REMOVED
    for command in (NODE, shown(), DrainNode(FOUR, False)):
        assert reason(catalog.apply(command)) == "the node was removed from the cluster"
    basin = CreateBasin("late", GroupId(2), (FOUR,), BasinConfig(), TimestampMs(1))
    assert reason(catalog.apply(basin)) == "the node was removed from the cluster"


def test_another_directory_comes_under_the_id_of_a_node_that_was_removed() -> None:
    """With a new token, and with an ordinal that tells it from the one before, which stays out."""
    catalog = made()
    catalog.apply(shown())
    catalog.apply(RemoveNode(FOUR))
    assert reason(catalog.apply(shown(OTHER))) == UNKNOWN_TOKEN, "the first one is spent"
    assert catalog.apply(OPEN) == [CatalogApplied()]
    for token_of_before in (shown(), shown(NODE, b"x" * 32)):
        assert reason(catalog.apply(token_of_before)) == REMOVED
    assert reason(catalog.apply(shown(OTHER, b"x" * 32))) == UNKNOWN_TOKEN
    assert catalog.apply(shown(OTHER)) == [CatalogApplied()]
    row = catalog.reopened().nodes[FOUR]
    assert (row.incarnation, row.ordinal, row.state) == ("b" * 32, 1, NodeState.ACTIVE)
    assert not row.is_replacing, "nothing of it is to be made whole"
    assert places_of(catalog.state.nodes) == (Place(FOUR, 1, "b" * 32),)
    assert catalog.apply(shown(OTHER)) == [CatalogApplied()], "it may be repeated"
    assert catalog.state.nodes[FOUR] == row
    assert "another data directory" in reason(catalog.apply(NODE))
    assert "a member with another data directory" in reason(catalog.apply(shown()))
    assert "belongs to the cluster already" in reason(catalog.apply(OPEN))


def test_two_directories_under_an_id_that_was_removed_are_one_node() -> None:
    """In one entry, too: the later of them is refused."""
    catalog = made()
    catalog.apply(shown())
    catalog.apply(RemoveNode(FOUR))
    catalog.apply(OPEN)
    third = replace(NODE, incarnation="c" * 32)
    first, second = catalog.apply(shown(OTHER), shown(third))
    assert first == CatalogApplied()
    assert isinstance(second, CatalogRejected)
    assert catalog.state.nodes[FOUR].incarnation == "b" * 32


def test_ids_come_again_as_often_as_places_may_be_given() -> None:
    """Every greeting names all of them, so that there is a bound."""
    nodes = {
        NodeId(n): NodeRecord(NodeId(n), "e" * 32, "a", ordinal=1)
        for n in range(10, 10 + PLACES_MAX)
    }
    gone = NodeRecord(FOUR, "a" * 32, "a", state=NodeState.REMOVED)
    again = replace(gone, ordinal=2)
    assert why_not_opened({}, {**nodes, FOUR: gone}, OPEN) == NO_MORE_PLACES
    nodes.popitem()
    assert why_not_opened({}, {**nodes, FOUR: gone}, OPEN) is None
    assert why_not_opened({}, {**nodes, FOUR: again}, OPEN) is None
    last = replace(gone, ordinal=ORDINAL_MAX)
    assert "as often as may be" in (why_not_opened({}, {FOUR: last}, OPEN) or "")
    tickets = {FOUR: Ticket(FOUR, hash_of(SECRET), TimestampMs(1_000))}
    found = admitted(tickets, {FOUR: last}, shown(OTHER))
    assert isinstance(found, str)
    assert "as often as may be" in found


@pytest.mark.parametrize("is_same_entry", [False, True])
def test_a_node_that_holds_something_stays(is_same_entry: bool) -> None:
    catalog = made()
    catalog.apply(shown())
    basin = CreateBasin("held", GroupId(2), (NodeId(1), FOUR), BasinConfig(), TimestampMs(1))
    if is_same_entry:
        outcome = catalog.apply(basin, RemoveNode(FOUR))[1:]
    else:
        catalog.apply(basin)
        outcome = catalog.apply(RemoveNode(FOUR))
    assert "holds replicas of 1 basin: drain it first" in reason(outcome)
    assert catalog.state.nodes[FOUR].state is NodeState.ACTIVE


@pytest.mark.parametrize("is_same_entry", [False, True])
def test_a_deleted_basin_that_was_nowhere_else_goes_with_its_node(is_same_entry: bool) -> None:
    """Only that node could have sealed it. Its name is free then; one that has a replica elsewhere,
    or that is not deleted, keeps the node."""
    catalog = made()
    catalog.apply(shown())
    at = TimestampMs(1)
    alone = CreateBasin("alone", GroupId(2), (FOUR,), BasinConfig(), at)
    shared = CreateBasin("shared", GroupId(3), (NodeId(1), FOUR), BasinConfig(), at)
    catalog.apply(alone, shared, DeleteBasin("shared", at))
    assert "holds replicas of 2 basins" in reason(catalog.apply(RemoveNode(FOUR)))
    catalog.apply(DeleteBasin("alone", at))
    assert "holds replicas of 1 basin:" in reason(catalog.apply(RemoveNode(FOUR)))
    assert set(catalog.reopened().basins) == {"alone", "shared"}, "nothing goes with a refusal"
    if is_same_entry:
        assert isinstance(
            catalog.apply(RemoveBasin(GroupId(3)), RemoveNode(FOUR))[1], CatalogApplied
        )
    else:
        catalog.apply(RemoveBasin(GroupId(3)))
        assert catalog.apply(RemoveNode(FOUR)) == [CatalogApplied()]
    assert catalog.reopened().basins == {}
    assert GroupId(2) not in catalog.state.basins_by_group
    assert catalog.state.nodes[FOUR].is_removed
    again = replace(alone, group_id=GroupId(4), replicas=(NodeId(1),))
    (outcome,) = catalog.apply(again)
    assert isinstance(outcome, CatalogApplied)


def test_a_ticket_is_withdrawn() -> None:
    catalog = made()
    assert catalog.apply(RemoveNode(FOUR)) == [CatalogApplied()]
    assert catalog.state.tickets.open == {}
    assert FOUR not in catalog.state.nodes
    assert "no node 4 is registered" in reason(catalog.apply(RemoveNode(FOUR)))
    assert reason(catalog.apply(shown())) == UNKNOWN_TOKEN


def test_who_was_removed_holds_no_version_up() -> None:
    catalog = made()
    catalog.apply(shown())
    spoken = tuple(NodeVersion(NodeId(node), f"{node}" * 32, 3) for node in (1, 2, 3))
    assert "node 4 has not said" in reason(catalog.apply(RaiseActiveVersion(3, spoken)))
    catalog.apply(RemoveNode(FOUR))
    assert catalog.apply(RaiseActiveVersion(3, spoken)) == [CatalogApplied()]


@pytest.mark.parametrize("command", [OPEN, shown(), RemoveNode(FOUR)])
def test_commands_are_written_from_version_3_on(
    command: OpenTicket | AdmitNode | RemoveNode,
) -> None:
    payload = encode_catalog_entry([command], 3)
    assert decode_catalog_entry(payload) == [command]
    with pytest.raises(NotActiveYetError):
        encode_catalog_entry([command], 2)
    kinds = CATALOG_KINDS - {"open_ticket", "admit_node", "remove_node"}
    with pytest.raises(UnknownEntryError):
        decode_catalog_entry(payload, kinds)


def test_a_token_is_read_as_it_was_written() -> None:
    token = JoinToken(4, SECRET)
    assert parse_join_token(f" {token.text}\n") == token
    assert SECRET.hex() not in repr(token)


@pytest.mark.parametrize(
    "text",
    ["", "svc-join-0-" + "a" * 64, "svc-join-4-" + "a" * 63, "svc-join-4-" + "A" * 64,
     "svc-join-4294967296-" + "a" * 64, "svc-join-4-" + "a" * 64 + " b"],
)  # fmt: skip
def test_anything_else_is_no_token(text: str) -> None:
    assert parse_join_token(text) is None
