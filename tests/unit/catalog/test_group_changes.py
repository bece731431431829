"""A change of a group's members: one at a time, sealed with leave alone, and recorded once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from svc_cluster._pb.cluster.v1 import catalog_entry_pb2 as pb
from svc_cluster.base.configuration import GroupMember
from svc_cluster.base.ids import GroupId, NodeId, ReplicaId, Term, TimestampMs
from svc_cluster.catalog.basin_record import BasinRecord, basin_from_bytes, basin_to_bytes
from svc_cluster.catalog.catalog_commands import CreateBasin, DeleteBasin, RemoveBasin
from svc_cluster.catalog.catalog_state import BASIN, CatalogApplied, CatalogRejected
from svc_cluster.catalog.group_change import (
    FIRST_PLACEMENT,
    AllowSeal,
    BeginChange,
    CancelChange,
    ChangeCommand,
    Configured,
    GroupChange,
)
from svc_cluster.codec.catalog_entry import decode_catalog_entry, encode_catalog_entry
from svc_cluster.codec.entry_since import NotActiveYetError, check_since
from svc_cluster.codec.entry_version import CATALOG_KINDS, UnknownEntryError
from svc_cluster.model.stream_config import BasinConfig
from tests.unit.catalog.support import Catalog
from tests.unit.catalog.test_replacement import registered

GROUP = GroupId(2)
FIRST = FIRST_PLACEMENT


def nodes(*ids: int) -> tuple[NodeId, ...]:
    return tuple(map(NodeId, ids))


def with_basin(*replicas: int) -> Catalog:
    catalog = registered(*range(1, 7))
    command = CreateBasin("basin-one", GROUP, nodes(*replicas), BasinConfig(), TimestampMs(1))
    assert isinstance(catalog.apply(command)[0], CatalogApplied)
    return catalog


def begin(*replicas: int, configuration: int = 0, reason: str = "by hand") -> BeginChange:
    return BeginChange(GROUP, configuration, nodes(*replicas), reason)


def taken(catalog: Catalog, command: ChangeCommand) -> BasinRecord:
    """The row behind a command that has an effect; it is the same after a start."""
    (outcome,) = catalog.apply(command)
    assert isinstance(outcome, CatalogApplied)
    record = catalog.state.basins["basin-one"]
    assert outcome.record == record == catalog.reopened().basins["basin-one"]
    assert catalog.reopened().placements.next == catalog.state.placements.next
    return record


def refused(catalog: Catalog, command: ChangeCommand) -> str:
    """Why a command has none: nothing but the mark of the log is changed."""
    before, row = dict(catalog.store.pairs), catalog.state.basins.get("basin-one")
    (outcome,) = catalog.apply(command)
    assert isinstance(outcome, CatalogRejected)
    changed = {key for key, value in catalog.store.pairs.items() if before.get(key) != value}
    assert changed == {b"\x00"} and catalog.state.basins.get("basin-one") == row
    return outcome.reason


def in_term(configuration: int, number: int = 1) -> Term:
    return Term((configuration << 40) + number)


def test_a_change_goes_from_its_order_to_the_next_configuration() -> None:
    """A replica that stays keeps its number, and one on a node that had one before gets another."""
    catalog = with_basin(3, 1, 2)
    first = catalog.state.basins["basin-one"]
    assert first.members == tuple(GroupMember(NodeId(n), ReplicaId(n)) for n in (1, 2, 3))
    change = GroupChange(
        FIRST, nodes(4, 3, 1), (ReplicaId(FIRST + 1), ReplicaId(3), ReplicaId(1)), "by hand"
    )
    assert taken(catalog, begin(4, 3, 1)) == replace(first, change=change)
    allowed = taken(catalog, AllowSeal(GROUP, FIRST, in_term(0, 7)))
    assert allowed.change == replace(change, sealing_term=Term(7))
    moved = taken(catalog, Configured(GROUP, 1, FIRST))
    assert moved == replace(
        first, configuration=1, replicas=change.replicas, replica_ids=change.replica_ids
    )
    assert moved.members == (
        GroupMember(NodeId(1), ReplicaId(1)),
        GroupMember(NodeId(3), ReplicaId(3)),
        GroupMember(NodeId(4), ReplicaId(FIRST + 1)),
    )
    back = taken(catalog, begin(1, 2, 3, configuration=1)).change
    assert back is not None and back.change_id == FIRST + 2
    assert back.replica_ids == (ReplicaId(1), ReplicaId(FIRST + 3), ReplicaId(3))


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (begin(1, 2, 4, configuration=1), "the group is in configuration 0"),
        (begin(1, 2, 9), "no node 9 is registered"),
        (begin(), "cannot be the members"),
        (begin(1, 2, 2), "cannot be the members"),
        (begin(3, 2, 1), "members already"),
        (begin(1, 4, 5), "1 of the members stay, 2 are needed"),
        (begin(1, 2, 4, 5, 6), "2 of the members stay, 3 are needed"),
        (begin(1, 2, 4, reason="r" * 201), "the reason has more than 200 bytes"),
        (replace(begin(1, 2, 4), group_id=GroupId(9)), "no such group"),
        (CancelChange(GROUP, FIRST), "no such change is open"),
        (AllowSeal(GROUP, FIRST, Term(1)), "no such change is open"),
        (Configured(GROUP, 1, FIRST), "no such change is open"),
    ],
)
def test_a_group_of_three_refuses(command: ChangeCommand, reason: str) -> None:
    """Without effect, and the same numbers are given out later."""
    catalog = with_basin(1, 2, 3)
    assert reason in refused(catalog, command)
    assert catalog.state.placements.next == FIRST


@pytest.mark.parametrize(("before", "after"), [((1,), (1, 2, 3)), ((1, 2, 3), (2,))])
def test_a_group_grows_from_one_to_three_and_shrinks_to_one(
    before: tuple[int, ...], after: tuple[int, ...]
) -> None:
    catalog = with_basin(*before)
    assert taken(catalog, begin(*after)).change is not None


def test_one_change_of_a_group_is_open_and_none_of_one_that_is_deleted() -> None:
    """Another change than the open one is none."""
    catalog = with_basin(1, 2, 3)
    taken(catalog, begin(1, 2, 4))
    assert "under way" in refused(catalog, begin(1, 2, 5))
    other = FIRST + 1
    for command in (CancelChange(GROUP, other), AllowSeal(GROUP, other, Term(1))):
        assert "no such change" in refused(catalog, command)
    catalog.apply(DeleteBasin("basin-one", TimestampMs(2)))
    assert "being deleted" in refused(catalog, begin(1, 2, 5))
    assert "being deleted" in refused(catalog, AllowSeal(GROUP, FIRST, Term(1)))
    catalog.apply(RemoveBasin(GROUP))
    assert "no such group" in refused(catalog, begin(1, 2, 5))


def test_who_seals_needs_leave_for_its_term() -> None:
    """A later leader gets it instead, and an earlier one never again; asked again, it is there."""
    catalog = with_basin(1, 2, 3)
    taken(catalog, begin(1, 2, 4))
    assert "nobody had leave" in refused(catalog, Configured(GROUP, 1, FIRST))
    assert "in configuration 0" in refused(catalog, AllowSeal(GROUP, FIRST, in_term(1)))
    taken(catalog, AllowSeal(GROUP, FIRST, Term(5)))
    taken(catalog, AllowSeal(GROUP, FIRST, Term(5)))
    taken(catalog, AllowSeal(GROUP, FIRST, Term(6)))
    assert "a later leader" in refused(catalog, AllowSeal(GROUP, FIRST, Term(5)))
    assert "in configuration 0" in refused(catalog, Configured(GROUP, 2, FIRST))
    taken(catalog, Configured(GROUP, 1, FIRST))
    assert "no such change" in refused(catalog, Configured(GROUP, 1, FIRST))


def test_a_change_that_nobody_may_seal_is_given_up_at_once() -> None:
    catalog = with_basin(1, 2, 3)
    first = catalog.state.basins["basin-one"]
    taken(catalog, begin(1, 2, 4))
    assert taken(catalog, CancelChange(GROUP, FIRST)) == first
    assert "no such change" in refused(catalog, AllowSeal(GROUP, FIRST, Term(1)))


def test_once_somebody_may_seal_its_leader_or_a_later_one_gives_the_change_up() -> None:
    """Nobody gets leave behind the wish. A seal that was made before is recorded all the same."""
    catalog = with_basin(1, 2, 3)
    first = taken(catalog, begin(1, 2, 4))
    taken(catalog, AllowSeal(GROUP, FIRST, Term(5)))
    assert "nobody wishes" in refused(catalog, CancelChange(GROUP, FIRST, Term(5)))
    wished = taken(catalog, CancelChange(GROUP, FIRST))
    assert wished.change is not None and first.change is not None
    assert wished.change == replace(first.change, sealing_term=Term(5), is_cancelled=True)
    assert "given up" in refused(catalog, AllowSeal(GROUP, FIRST, Term(6)))
    assert "a later leader" in refused(catalog, CancelChange(GROUP, FIRST, Term(4)))
    assert taken(catalog, CancelChange(GROUP, FIRST, Term(5))) == replace(first, change=None)

    taken(catalog, begin(1, 2, 4))
    taken(catalog, AllowSeal(GROUP, FIRST + 2, Term(5)))
    taken(catalog, CancelChange(GROUP, FIRST + 2))
    assert taken(catalog, Configured(GROUP, 1, FIRST + 2)).configuration == 1


def test_two_changes_in_one_entry_have_numbers_of_their_own() -> None:
    catalog = with_basin(1, 2, 3)
    second = CreateBasin("basin-two", GroupId(3), nodes(1, 2, 3), BasinConfig(), TimestampMs(1))
    catalog.apply(second)
    catalog.apply(begin(1, 2, 4), BeginChange(GroupId(3), 0, nodes(2, 3, 4), "balance"))
    one, two = (catalog.state.basins[name].change for name in ("basin-one", "basin-two"))
    assert one is not None and two is not None
    assert (one.change_id, one.replica_ids[-1]) == (FIRST, FIRST + 1)
    assert (two.change_id, two.replica_ids[-1]) == (FIRST + 2, FIRST + 3)


def test_a_row_without_a_change_is_the_one_of_before() -> None:
    """Byte for byte, so that all releases of a version write the same."""
    catalog = with_basin(1, 2, 3)
    row = catalog.store.pairs[BASIN + b"basin-one"]
    taken(catalog, begin(1, 2, 4))
    changed = catalog.store.pairs[BASIN + b"basin-one"]
    assert basin_to_bytes(basin_from_bytes(changed)) == changed != row
    taken(catalog, CancelChange(GROUP, FIRST))
    assert catalog.store.pairs[BASIN + b"basin-one"] == row


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (begin(4, 1, 2, configuration=3), "begin_change"),
        (CancelChange(GROUP, FIRST, in_term(3)), "cancel_change"),
        (AllowSeal(GROUP, FIRST, in_term(3)), "allow_seal"),
        (Configured(GROUP, 4, FIRST), "configured"),
    ],
)
def test_the_commands_are_written_from_their_version_on(command: ChangeCommand, kind: str) -> None:
    payload = encode_catalog_entry([command])
    assert decode_catalog_entry(payload) == [command]
    with pytest.raises(UnknownEntryError):
        decode_catalog_entry(payload, CATALOG_KINDS - {kind})
    entry = pb.CatalogEntry.FromString(payload[2:])
    check_since(entry, 3)
    with pytest.raises(NotActiveYetError):
        check_since(entry, 2)


def test_a_stale_word_changes_nothing() -> None:
    """What was said of a change that was given up does not count for the next one."""
    catalog = with_basin(1, 2, 3)
    taken(catalog, begin(1, 2, 4))
    taken(catalog, CancelChange(GROUP, FIRST))
    taken(catalog, begin(1, 2, 5))
    taken(catalog, AllowSeal(GROUP, FIRST + 2, Term(5)))
    for command in (
        AllowSeal(GROUP, FIRST, Term(6)),
        CancelChange(GROUP, FIRST, Term(6)),
        Configured(GROUP, 1, FIRST),
    ):
        assert "no such change" in refused(catalog, command)
