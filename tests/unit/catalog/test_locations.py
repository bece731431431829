"""The default location as applied, and the locations of basins."""

from __future__ import annotations

from svc_cluster.base.ids import GroupId, NodeId, TimestampMs
from svc_cluster.catalog.catalog_commands import CatalogCommand, CreateBasin
from svc_cluster.catalog.catalog_state import CatalogApplied, CatalogState
from svc_cluster.catalog.location_table import SetDefaultLocation
from svc_cluster.codec.catalog_entry import decode_catalog_entry, encode_catalog_entry
from svc_cluster.model.location import Location, is_location_name
from svc_cluster.model.stream_config import BasinConfig
from tests.unit.catalog.support import Catalog, DictStore

OFFERED = (Location("a"), Location("b"), Location("c"))


def create(name: str, group_id: int, location: str = "") -> CreateBasin:
    return CreateBasin(
        name,
        GroupId(group_id),
        (NodeId(1),),
        BasinConfig(),
        TimestampMs(5),
        location=location,
    )


def default(state: CatalogState) -> str:
    return state.locations.default(OFFERED).name


def location_of(state: CatalogState, name: str) -> str:
    return state.locations.of_basin(state.basins[name].location, OFFERED)


def test_commands_survive_the_log() -> None:
    """The location of a new basin and the choice of a default are in their entries."""
    commands: list[CatalogCommand] = [
        SetDefaultLocation("b", "a"),
        create("basin-one", 2, "b"),
        create("basin-two", 3),
    ]
    assert decode_catalog_entry(encode_catalog_entry(commands)) == commands


OLD_ENTRY = "09810a1912170a096f6c642d626173696e10021a010120052a00320168"
OLD_ROW = "9fa96f6c642d626173696e02910105c0c2c0c0c0c0c0c0c2c2c40168"
"""The creation of `old-basin` in the log and its record in the store, as they were written before
there were locations."""


def test_what_was_written_before_is_understood() -> None:
    """An old entry and an old row name no location, and the basin shows the default."""
    (command,) = decode_catalog_entry(bytes.fromhex(OLD_ENTRY))
    assert isinstance(command, CreateBasin)
    assert (command.name, command.creation_hash, command.location) == ("old-basin", b"h", "")
    store = DictStore()
    store.pairs[b"\x02old-basin"] = bytes.fromhex(OLD_ROW)
    state = CatalogState(store)
    assert state.basins["old-basin"].creation_hash == b"h"
    assert location_of(state, "old-basin") == "a"


def test_the_first_is_the_default_until_another_is_chosen() -> None:
    """And the last choice counts, also behind a restart and within one entry."""
    catalog = Catalog()
    assert default(catalog.state) == "a"
    assert catalog.apply(SetDefaultLocation("b", "a")) == [CatalogApplied()]
    assert default(catalog.state) == default(catalog.reopened()) == "b"
    catalog.apply(SetDefaultLocation("a", "b"), SetDefaultLocation("c", "a"))
    assert default(catalog.state) == default(catalog.reopened()) == "c"


def test_a_choice_that_is_not_offered_any_more_is_none() -> None:
    """Until it is offered again."""
    catalog = Catalog()
    catalog.apply(SetDefaultLocation("b", "a"))
    assert catalog.state.locations.default(OFFERED[:1]).name == "a"
    assert default(catalog.state) == "b"


def test_a_basin_keeps_its_location() -> None:
    """That of its creation, whatever is chosen later; and a basin from before there were locations
    that which was the default when one was chosen for the first time."""
    catalog = Catalog()
    catalog.apply(create("old-basin", 2))
    catalog.apply(create("new-basin", 3, "c"))
    assert location_of(catalog.state, "old-basin") == "a"
    catalog.apply(SetDefaultLocation("b", "a"))
    catalog.apply(SetDefaultLocation("c", "b"))
    for state in (catalog.state, catalog.reopened()):
        assert location_of(state, "old-basin") == "a"
        assert location_of(state, "new-basin") == "c"


def test_replicas_agree() -> None:
    """A choice is in the digest, and made by the entry alone."""
    one, other = Catalog(), Catalog()
    for catalog in (one, other):
        catalog.apply(SetDefaultLocation("b", "a"))
    assert one.state.digest == other.state.digest
    other.apply(SetDefaultLocation("c", "b"))
    one.apply(SetDefaultLocation("a", "b"))
    assert one.state.digest != other.state.digest


def test_names_have_rules() -> None:
    """1 to 64 of letters, digits, dots, colons and hyphens, in ASCII."""
    for name in ("a", "A-1", "aws:eu-central-1", "x.y", "9" * 64):
        assert is_location_name(name)
    for name in ("", "a b", "a/b", "é", "x" * 65, "a\n", "a_b"):
        assert not is_location_name(name)
