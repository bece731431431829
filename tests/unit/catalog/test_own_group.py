"""The catalog's own group: its row is made by its first change, and keeps who votes."""

from __future__ import annotations

import pytest

from svc_cluster.base.ids import (
    CATALOG_GROUP,
    GroupId,
    LogIndex,
    NodeId,
    ReplicaId,
    Term,
    TimestampMs,
)
from svc_cluster.catalog.catalog_commands import (
    CatalogCommand,
    CreateBasin,
    DeleteBasin,
    DrainNode,
    RegisterNode,
    RemoveBasin,
    RemoveNode,
    ReplaceNode,
)
from svc_cluster.catalog.catalog_state import CatalogApplied, CatalogRejected
from svc_cluster.catalog.group_change import (
    FIRST_PLACEMENT,
    AllowSeal,
    BeginChange,
    CancelChange,
    ChangeCommand,
    Configured,
    GroupChange,
    beginning,
)
from svc_cluster.catalog.own_group import (
    OWN_GROUP,
    CatalogGroup,
    own_group_from_bytes,
    own_group_to_bytes,
    why_no_place,
)
from svc_cluster.catalog.placement_model import PlacementGroup
from svc_cluster.catalog.placement_view import fewer_votes, leaving_catalog, placement_groups
from svc_cluster.codec.catalog_entry import decode_catalog_entry, encode_catalog_entry
from svc_cluster.model.stream_config import BasinConfig
from tests.unit.catalog.support import Catalog
from tests.unit.catalog.test_replacement import NEW, registered

FIRST = FIRST_PLACEMENT
THREE = (NodeId(1), NodeId(2), NodeId(3))


def nodes(*ids: int) -> tuple[NodeId, ...]:
    return tuple(map(NodeId, ids))


def begin(*to: int, configuration: int = 0, present: tuple[NodeId, ...] = THREE) -> BeginChange:
    return BeginChange(CATALOG_GROUP, configuration, nodes(*to), "by hand", present)


def taken(catalog: Catalog, command: ChangeCommand) -> CatalogGroup:
    """The row behind a command that has an effect; it is the same after a start."""
    assert catalog.apply(command) == [CatalogApplied()]
    row = catalog.state.own_group.row
    assert row is not None and row == catalog.reopened().own_group.row
    assert catalog.reopened().placements.next == catalog.state.placements.next
    return row


def refused(catalog: Catalog, command: ChangeCommand | RemoveNode | ReplaceNode) -> str:
    """Why a command has none: nothing but the mark of the log is changed."""
    before, row = dict(catalog.store.pairs), catalog.state.own_group.row
    (outcome,) = catalog.apply(command)
    assert isinstance(outcome, CatalogRejected)
    changed = {key for key, value in catalog.store.pairs.items() if before.get(key) != value}
    assert changed == {b"\x00"} and catalog.state.own_group.row == row
    return outcome.reason


def moved(catalog: Catalog, *to: int) -> CatalogGroup:
    """These vote in the catalog from now on."""
    row = catalog.state.own_group.row
    configuration = 0 if row is None else row.configuration
    change = taken(catalog, begin(*to, configuration=configuration)).change
    assert change is not None
    term = Term((configuration << 40) + 1)
    taken(catalog, AllowSeal(CATALOG_GROUP, change.change_id, term))
    return taken(catalog, Configured(CATALOG_GROUP, configuration + 1, change.change_id))


def test_the_first_change_says_who_votes_and_makes_the_row() -> None:
    """Later ones go by the row, whatever they say themselves. Of basins nothing changes."""
    catalog = registered(1, 2, 3, 4)
    assert OWN_GROUP not in catalog.store.pairs
    row = taken(catalog, begin(4, 1, 2))
    ids = (ReplicaId(FIRST + 1), ReplicaId(1), ReplicaId(2))
    change = GroupChange(FIRST, nodes(4, 1, 2), ids, "by hand")
    assert row == CatalogGroup(THREE, 0, (), change)
    allowed = taken(catalog, AllowSeal(CATALOG_GROUP, FIRST, Term(7)))
    assert allowed.change is not None and allowed.change.sealing_term == 7
    after = taken(catalog, Configured(CATALOG_GROUP, 1, FIRST))
    assert after == CatalogGroup(nodes(4, 1, 2), 1, ids)
    back = taken(catalog, begin(1, 2, 3, configuration=1, present=nodes(9))).change
    assert back is not None
    assert back.replica_ids == (ReplicaId(1), ReplicaId(2), ReplicaId(FIRST + 3))
    assert catalog.state.basins == {}


@pytest.mark.parametrize(
    ("raw", "row"),
    [
        ("9491010090c0", CatalogGroup(nodes(1))),
        (
            "949301020401930102cf00000001000000009607930104059301cf000000010000000009a762792068616e"
            "6403c3",
            CatalogGroup(
                nodes(1, 2, 4),
                1,
                (ReplicaId(1), ReplicaId(2), ReplicaId(FIRST)),
                GroupChange(
                    7,
                    nodes(1, 4, 5),
                    (ReplicaId(1), ReplicaId(FIRST), ReplicaId(9)),
                    "by hand",
                    Term(3),
                    is_cancelled=True,
                ),
            ),
        ),
    ],
)
def test_the_row_as_active_version_3_writes_it(raw: str, row: CatalogGroup) -> None:
    """A kept sample: what lies on disks is read, and written, as it was."""
    assert own_group_from_bytes(bytes.fromhex(raw)) == row
    assert own_group_to_bytes(row).hex() == raw


def test_numbers_of_placements_are_given_to_the_catalog_and_to_basins_from_one_counter() -> None:
    catalog = registered(1, 2, 3, 4)
    catalog.apply(CreateBasin("basin-one", GroupId(2), THREE, BasinConfig(), TimestampMs(1)))
    basin = BeginChange(GroupId(2), 0, nodes(1, 2, 4), "balance")
    catalog.apply(begin(1, 2, 4), basin)
    own, record = catalog.state.own_group.row, catalog.state.basins["basin-one"]
    assert own is not None and own.change is not None and record.change is not None
    assert (own.change.change_id, own.change.replica_ids[-1]) == (FIRST, FIRST + 1)
    assert (record.change.change_id, record.change.replica_ids[-1]) == (FIRST + 2, FIRST + 3)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (begin(1, 2), "the catalog has 1, 3 or 5 votes, and not 2"),
        (begin(1, 2, 9), "no node 9 is registered"),
        (begin(1, 4, 5), "1 of the members stay, 2 are needed"),
        (begin(3, 2, 1), "members already"),
        (begin(1, 2, 4, configuration=1), "in configuration 0"),
        (begin(1, 2, 4, present=()), "no such group"),
        (CancelChange(CATALOG_GROUP, FIRST), "no such group"),
        (AllowSeal(CATALOG_GROUP, FIRST, Term(1)), "no such group"),
        (Configured(CATALOG_GROUP, 1, FIRST), "no such group"),
    ],
)
def test_a_change_of_votes_is_refused(command: ChangeCommand, reason: str) -> None:
    assert reason in refused(registered(1, 2, 3, 4, 5), command)


def test_a_catalog_of_four_votes_stays_one_of_four_or_has_three() -> None:
    """A cluster that began with four nodes: a vote goes from one to another."""
    four = nodes(1, 2, 3, 4)
    catalog = registered(1, 2, 3, 4, 5)
    assert taken(catalog, begin(1, 2, 3, 5, present=four)).change is not None
    taken(catalog, CancelChange(CATALOG_GROUP, FIRST))
    assert taken(catalog, begin(1, 2, 3, present=four)).change is not None


def test_who_votes_or_is_to_does_not_leave_the_cluster() -> None:
    """Who voted once does."""
    catalog = registered(1, 2, 3, 4)
    taken(catalog, begin(1, 2, 4))
    for node in (3, 4):
        reason = refused(catalog, RemoveNode(NodeId(node)))
        assert reason.startswith(f"node {node} votes in the catalog")
    taken(catalog, CancelChange(CATALOG_GROUP, FIRST))
    moved(catalog, 1, 2, 4)
    assert "votes in the catalog" in refused(catalog, RemoveNode(NodeId(4)))
    assert catalog.apply(RemoveNode(NodeId(3))) == [CatalogApplied()]
    assert catalog.state.nodes[NodeId(3)].is_removed


def test_the_place_of_a_node_without_a_vote_is_given_to_no_other_directory() -> None:
    """Nor of one that is to lose its vote; and while one is replaced nobody else's vote moves."""
    catalog = registered(1, 2, 3, 4)
    assert why_no_place(None, NodeId(3)) is None
    taken(catalog, begin(1, 2, 4))
    assert "has no vote" in refused(catalog, ReplaceNode(NodeId(3), 1, NEW))
    taken(catalog, CancelChange(CATALOG_GROUP, FIRST))
    moved(catalog, 1, 2, 4)
    assert "has no vote" in refused(catalog, ReplaceNode(NodeId(3), 1, NEW))
    assert catalog.apply(ReplaceNode(NodeId(1), 1, NEW)) == [CatalogApplied()]
    assert refused(catalog, begin(1, 2, 3, configuration=1)) == "node 1 is being replaced"
    assert taken(catalog, begin(3, 2, 4, configuration=1)).change is not None, "it loses its vote"
    own = catalog.state.own_group.row
    assert own is not None and own.change is not None
    taken(catalog, CancelChange(CATALOG_GROUP, own.change.change_id))
    catalog.apply(RegisterNode(NodeId(1), NEW, "address"))
    assert taken(catalog, begin(1, 2, 3, configuration=1)).change is not None


def test_a_vote_leaves_a_drained_node_before_anything_else() -> None:
    """Where nobody drains the catalog is no load and stays, and a single vote always does."""
    catalog = registered(1, 2, 3, 4)
    own = CatalogGroup(THREE)
    assert leaving_catalog(own, catalog.state.nodes) is None
    catalog.apply(DrainNode(NodeId(4), True))
    assert leaving_catalog(own, catalog.state.nodes) is None, "it has no vote"
    catalog.apply(DrainNode(NodeId(4), False), DrainNode(NodeId(2), True))
    assert leaving_catalog(own, catalog.state.nodes, {NodeId(3)}) == PlacementGroup(
        CATALOG_GROUP, THREE, recovering=frozenset({NodeId(3)})
    )
    assert next(placement_groups(catalog.state, own, {}, {})).group_id == CATALOG_GROUP
    assert leaving_catalog(CatalogGroup(nodes(2)), catalog.state.nodes) is None


def test_votes_become_fewer_where_one_leaves_that_nobody_else_could_have() -> None:
    """Never below three, and not where another node could have it, or nobody leaves."""
    catalog = registered(1, 2, 3, 4, 5)
    rows, five, four = catalog.state.nodes, CatalogGroup(nodes(1, 2, 3, 4, 5)), nodes(4, 2, 3, 1)
    assert fewer_votes(five, rows) is None
    catalog.apply(DrainNode(NodeId(2), True))
    assert fewer_votes(five, rows) == nodes(1, 3, 4)
    assert fewer_votes(CatalogGroup(four), rows) is None, "the fifth takes it"
    assert fewer_votes(CatalogGroup(four), rows, {NodeId(5)}) == nodes(4, 3, 1), "it is away"
    assert fewer_votes(five, rows, {NodeId(1), NodeId(4)}) == nodes(3, 5, 1)
    catalog.apply(DrainNode(NodeId(5), True))
    assert fewer_votes(five, rows) == nodes(1, 3, 4)
    assert fewer_votes(CatalogGroup(four), rows) == nodes(4, 3, 1)
    assert fewer_votes(CatalogGroup(nodes(1, 2, 5)), rows) is None
    for node in (1, 3):
        catalog.apply(DrainNode(NodeId(node), True))
    assert fewer_votes(five, rows) is None, "fewer than three could vote"


def test_the_command_says_who_votes_for_the_catalog_alone() -> None:
    """And the log has that, from the version on that knows changes of members."""
    own = beginning(CatalogGroup(THREE, 4), nodes(1, 2, 4), "why")
    assert own == BeginChange(CATALOG_GROUP, 4, nodes(1, 2, 4), "why", THREE)
    assert decode_catalog_entry(encode_catalog_entry([own])) == [own]
    catalog = registered(1, 2, 3, 4)
    catalog.apply(CreateBasin("basin-one", GroupId(2), THREE, BasinConfig(), TimestampMs(1)))
    record = catalog.state.basins["basin-one"]
    assert beginning(record, nodes(1, 2, 4), "why").present == ()


def test_a_plan_tells_of_which_groups_rows_change() -> None:
    """Of a row that is gone nobody knows any more of which group it was; what concerns no basin
    changes none."""
    catalog = registered(1, 2, 3, 4)

    def changed(*commands: CatalogCommand) -> list[GroupId] | None:
        index = LogIndex(catalog.state.applied_index + 1)
        plan = catalog.state.plan(index, Term(1), list(commands))
        catalog.store.write(plan.write_set)
        catalog.state.commit(plan)
        return plan.changed_groups

    one, two = (
        CreateBasin(name, GroupId(group_id), THREE, BasinConfig(), TimestampMs(1))
        for name, group_id in (("basin-one", 2), ("basin-two", 3))
    )
    assert changed(one, two) == [2, 3]
    assert changed(DrainNode(NodeId(4), True), DrainNode(NodeId(4), False), begin(1, 2, 4)) == []
    assert changed(BeginChange(GroupId(3), 0, nodes(1, 2, 4), "a move")) == [3]
    assert changed(DeleteBasin("basin-one", TimestampMs(2))) == [2]
    assert changed(RemoveBasin(GroupId(2)), BeginChange(GroupId(3), 0, THREE, "refused")) is None
