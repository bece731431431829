"""Digests of what the catalog holds."""

from __future__ import annotations

import msgspec
import pytest

from svc_cluster.base.ids import GroupId, NodeId, TimestampMs
from svc_cluster.catalog import catalog_state, location_table, token_table
from svc_cluster.catalog.catalog_commands import CreateBasin, RegisterNode
from svc_cluster.catalog.catalog_content import CatalogContent
from svc_cluster.catalog.location_table import SetDefaultLocation
from svc_cluster.catalog.token_commands import IssueToken
from svc_cluster.model.content import Chunk
from svc_cluster.model.stream_config import BasinConfig
from tests.at_once import whole
from tests.unit.catalog.support import Catalog
from tests.unit.catalog.test_tokens import token

CONTENT = CatalogContent()
KINDS = (
    catalog_state.META,
    catalog_state.NODE,
    catalog_state.BASIN,
    location_table.CHOICE,
    token_table.META,
    token_table.TOKEN,
)


def catalog() -> Catalog:
    made = Catalog()
    for number in (1, 2, 3):
        made.apply(RegisterNode(NodeId(number), f"incarnation {number}", f"10.0.0.{number}:7000"))
    nodes = tuple(NodeId(number) for number in (1, 2, 3))
    made.apply(CreateBasin("basin-one", GroupId(2), nodes, BasinConfig(), TimestampMs(7), b"hash"))
    made.apply(SetDefaultLocation("eu", "local"))
    made.apply(IssueToken(token("reader"), TimestampMs(9)))
    return made


def content(made: Catalog) -> Chunk:
    return whole(CONTENT, made.store)


def row_of(made: Catalog, kind: bytes) -> bytes:
    return next(key for key in sorted(made.store.pairs) if key[:1] == kind)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_row_is_content(kind: bytes) -> None:
    """A row that is gone, and one with other bytes, is a difference; one that no release wrote is
    a flaw beside it, which its replica sees alone."""
    wanted = content(catalog())
    assert not wanted.flaw
    gone, odd = catalog(), catalog()
    del gone.store.pairs[row_of(gone, kind)]
    odd.store.pairs[row_of(odd, kind)] = b"\xc1"
    assert content(gone).identity != wanted.identity
    assert content(odd).identity != wanted.identity
    assert "cannot be read" in content(odd).flaw


def test_what_was_written_on_the_way_is_no_content() -> None:
    """The digest of it depends on the form of the rows, which another release may write otherwise;
    and a field that came later, with its default, is the same as none."""
    made = catalog()
    wanted = content(made)
    meta = msgspec.msgpack.decode(made.store.pairs[catalog_state.META])
    meta[2] ^= 1
    made.store.pairs[catalog_state.META] = msgspec.msgpack.encode(meta)
    key = row_of(made, catalog_state.BASIN)
    basin = msgspec.msgpack.decode(made.store.pairs[key])
    assert basin[-1] == ""
    made.store.pairs[key] = msgspec.msgpack.encode(basin[:-1])
    assert content(made) == wanted


def test_the_digest_of_version_1_is_that_for_ever() -> None:
    """Another digest of this content is another version."""
    found = content(catalog())
    assert (found.rows, f"{found.digest:016x}") == (8, "9df5bf60634b7bd1")
