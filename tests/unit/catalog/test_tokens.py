"""The catalog's access tokens: issuing, revoking with all descendants, the root token, and what
gateways are told of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from svc_cluster.base.ids import TimestampMs
from svc_cluster.catalog.catalog_commands import CatalogCommand
from svc_cluster.catalog.catalog_state import CatalogApplied, CatalogRejected
from svc_cluster.catalog.token_commands import IssueToken, RevokeToken, SetRootToken
from svc_cluster.catalog.token_row import token_from_bytes, token_to_bytes
from svc_cluster.codec.catalog_entry import decode_catalog_entry, encode_catalog_entry
from svc_cluster.model.access import NameSet, Op, OpGroups, ReadWrite, Scope, exact, prefix
from svc_cluster.model.access_token import NO_PARENT, AccessToken, Expiry
from tests.unit.catalog.support import Catalog

NOW = TimestampMs(1_000)
SCOPE = Scope(
    exact("basin-one"),
    prefix("t/"),
    None,
    OpGroups(account=ReadWrite(read=True), stream=ReadWrite(write=True)),
    (Op.FENCE, Op.ISSUE_ACCESS_TOKEN),
)


def token(token_id: str, parent: int = NO_PARENT, expires_ns: int | None = None) -> AccessToken:
    expiry = None if expires_ns is None else Expiry("then", expires_ns)
    return AccessToken(
        0, token_id, token_id.encode() * 4, parent, SCOPE, True, "t/", expires_at=expiry
    )


def issue(
    catalog: Catalog, token_id: str, parent: int = NO_PARENT, expires_ns: int | None = None
) -> int:
    assert catalog.apply(IssueToken(token(token_id, parent, expires_ns), NOW)) == [CatalogApplied()]
    found = catalog.state.tokens.by_id(token_id)
    assert found is not None
    return found.serial


def ids(catalog: Catalog) -> list[str]:
    found, _ = catalog.state.tokens.page("", "", 1000, NOW)
    return [each.token_id for each in found]


def test_a_token_survives_in_store_and_log() -> None:
    """Every member comes back from the row, from the log's bytes, and from a store reopened."""
    for each in (
        token("a", 7, 123_456_789_987_654_321),
        token("b"),
        replace(token("c"), scope=Scope(NameSet("", False), NameSet("", True), exact("é/😀"))),
    ):
        assert token_from_bytes(token_to_bytes(each)) == each
        command = IssueToken(each, NOW)
        assert decode_catalog_entry(encode_catalog_entry([command])) == [command]
    others: list[CatalogCommand] = [
        RevokeToken(9),
        SetRootToken(b"h" * 32, b"c", only_if_absent=True),
    ]
    assert decode_catalog_entry(encode_catalog_entry(others)) == others
    catalog = Catalog()
    issue(catalog, "a")
    again = catalog.reopened().tokens
    assert again.by_serial == catalog.state.tokens.by_serial
    assert again.version == catalog.state.tokens.version == 1


def test_an_id_is_taken_once_and_free_after_revocation() -> None:
    """A second token of an id is refused; once the first is revoked, the id can be used, and the
    new token has another serial."""
    catalog = Catalog()
    first = issue(catalog, "a")
    assert isinstance(catalog.apply(IssueToken(token("a"), NOW))[0], CatalogRejected)
    assert catalog.apply(RevokeToken(first)) == [CatalogApplied()]
    assert isinstance(catalog.apply(RevokeToken(first))[0], CatalogRejected)
    assert issue(catalog, "a") > first


def test_revocation_takes_all_descendants_and_nobody_else() -> None:
    """Children, their children and theirs go with a token; siblings, and what another made, stay.
    The same is found in the store."""
    catalog = Catalog()
    top = issue(catalog, "top")
    child = issue(catalog, "child", top)
    grandchild = issue(catalog, "grandchild", child)
    issue(catalog, "great-grandchild", grandchild)
    issue(catalog, "sibling", top)
    issue(catalog, "other")
    assert catalog.apply(RevokeToken(child)) == [CatalogApplied()]
    assert ids(catalog) == ["other", "sibling", "top"]
    assert isinstance(catalog.apply(IssueToken(token("late", child), NOW))[0], CatalogRejected)
    assert catalog.apply(RevokeToken(top)) == [CatalogApplied()]
    assert ids(catalog) == ["other"]
    assert set(catalog.reopened().tokens.by_serial) == set(catalog.state.tokens.by_serial)


def test_commands_of_one_entry_see_each_other() -> None:
    """A token that is issued and revoked, with a child, in the same entry leaves nothing."""
    catalog = Catalog()
    outcomes = catalog.apply(
        IssueToken(token("a"), NOW),
        IssueToken(token("a"), NOW),
        IssueToken(token("b", parent=1), NOW),
        RevokeToken(1),
    )
    assert [type(outcome) for outcome in outcomes] == [
        CatalogApplied,
        CatalogRejected,
        CatalogApplied,
        CatalogApplied,
    ]
    assert ids(catalog) == []
    assert catalog.reopened().tokens.by_serial == {}


def test_what_has_expired_makes_room() -> None:
    """An expired token is not listed, its id can be taken, and its children go with it."""
    catalog = Catalog()
    old = issue(catalog, "old", expires_ns=2_000_000_000)
    issue(catalog, "young", old, expires_ns=2_000_000_000)
    later = TimestampMs(2_000)
    found, _ = catalog.state.tokens.page("", "", 10, later)
    assert found == []
    assert isinstance(catalog.apply(IssueToken(token("x", old), later))[0], CatalogRejected)
    assert catalog.apply(IssueToken(token("old"), later)) == [CatalogApplied()]
    assert ids(catalog) == ["old"]
    assert set(catalog.reopened().tokens.by_serial) == set(catalog.state.tokens.by_serial)


def test_pages_are_in_byte_order_beyond_a_thousand() -> None:
    """2,500 tokens come in pages, none twice, none left out, `start_after` exclusive."""
    catalog = Catalog()
    names = sorted((f"k-{n}" for n in range(2_500)), key=str.encode)
    catalog.apply(*(IssueToken(token(name), NOW) for name in names))
    catalog.apply(IssueToken(token("é"), NOW), IssueToken(token("a"), NOW))
    seen: list[str] = []
    more = True
    while more:
        found, more = catalog.state.tokens.page("k-", seen[-1] if seen else "", 1_000, NOW)
        seen += [each.token_id for each in found]
    assert seen == names
    assert ids(catalog)[0] == "a"
    assert catalog.state.tokens.page("", "k-z", 10, NOW)[0][0].token_id == "é"


def test_the_root_token_is_made_once_and_replaced_at_will() -> None:
    """The first one stays against another for an empty cluster; a replacement changes its hash and
    keeps its serial, so that what came from it lives on; the same change is made once; and it
    cannot be revoked."""
    catalog = Catalog()
    first = SetRootToken(b"1" * 32, b"one", only_if_absent=True)
    assert catalog.apply(first) == [CatalogApplied()]
    root = catalog.state.tokens.by_id("root")
    assert root is not None and root.grant.allows(Op)
    assert isinstance(catalog.apply(replace(first, change_id=b"two"))[0], CatalogRejected)
    child = issue(catalog, "child", root.serial)
    second = SetRootToken(b"2" * 32, b"three", only_if_absent=False)
    assert catalog.apply(second) == [CatalogApplied()]
    assert catalog.apply(SetRootToken(b"3" * 32, b"four", only_if_absent=False)) == [
        CatalogApplied()
    ]
    assert isinstance(catalog.apply(second)[0], CatalogRejected), (
        "it would bring an old secret back"
    )
    now = catalog.state.tokens.by_id("root")
    assert now is not None and (now.serial, now.secret_hash) == (root.serial, b"3" * 32)
    assert child in catalog.state.tokens.by_serial
    assert isinstance(catalog.apply(RevokeToken(root.serial))[0], CatalogRejected)


@pytest.mark.parametrize("behind", [0, 1, 5])
def test_a_gateway_that_takes_the_changes_has_the_table(behind: int) -> None:
    """Applied on top of what a gateway had, the changes behind its version give today's table."""
    catalog = Catalog()
    for n in range(behind):
        issue(catalog, f"early-{n}")
    had = dict(catalog.state.tokens.by_serial)
    version = catalog.state.tokens.version
    serial = issue(catalog, "a")
    issue(catalog, "b", serial)
    catalog.apply(RevokeToken(serial))
    issue(catalog, "c")
    changes = catalog.state.tokens.changes_after(version)
    assert changes is not None
    for change in changes:
        if change.token is None:
            had.pop(change.serial, None)
        else:
            had[change.serial] = change.token
    assert had == catalog.state.tokens.by_serial


def test_a_gateway_from_before_the_restart_reads_all() -> None:
    """After a restart earlier changes are not known: who is not up to date is told to read all;
    so is one with a version from the future."""
    catalog = Catalog()
    issue(catalog, "a")
    issue(catalog, "b")
    table = catalog.reopened().tokens
    assert table.changes_after(1) is None
    assert list(table.changes_after(2) or ["none"]) == []
    assert table.changes_after(3) is None
    assert [each.token_id for each in table.tokens_after(0, 1)] == ["a"]
    assert [each.token_id for each in table.tokens_after(1, 5)] == ["b"]
