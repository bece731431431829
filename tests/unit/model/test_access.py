"""The algebra of name sets, and the rules by which a token is issued."""

from __future__ import annotations

import pytest

from svc_cluster.base.errors import InvalidError, PermissionDeniedError
from svc_cluster.base.ids import TimestampMs
from svc_cluster.model.access import (
    EVERYTHING,
    NameSet,
    Op,
    OpGroups,
    Range,
    ReadWrite,
    Scope,
    exact,
    is_subset,
    prefix,
    seen_from,
    under,
    visible,
)
from svc_cluster.model.access_secret import is_secret_text, secret_hash, secret_text
from svc_cluster.model.access_token import AccessToken, Expiry, TokenRequest, derive, root_token

NOW = TimestampMs(1_000)
READ_ONLY = Scope(
    EVERYTHING,
    prefix("t/"),
    prefix("k-"),
    OpGroups(stream=ReadWrite(read=True)),
    (Op.ISSUE_ACCESS_TOKEN,),
)


def parent(auto_prefix: bool = False, expires_ns: int | None = None) -> AccessToken:
    expiry = None if expires_ns is None else Expiry("then", expires_ns)
    request = TokenRequest("parent", READ_ONLY, auto_prefix, expiry)
    return derive(request, root_token(1, b""), NOW)


@pytest.mark.parametrize(
    ("inner", "outer", "expected"),
    [
        (None, None, True),
        (exact(""), None, True),
        (exact("a"), None, False),
        (exact("a"), exact(""), False),
        (prefix(""), exact(""), False),
        (exact("a"), exact("a"), True),
        (exact("ab"), exact("a"), False),
        (exact("ab"), prefix("a"), True),
        (exact("b"), prefix("a"), False),
        (prefix("ab"), prefix("a"), True),
        (prefix("a"), prefix("ab"), False),
        (prefix("a"), prefix("a"), True),
        (prefix("a"), exact("a"), False),
        (prefix(""), prefix(""), True),
        (prefix(""), prefix("a"), False),
    ],
)
def test_subsets(inner: NameSet | None, outer: NameSet | None, expected: bool) -> None:
    """Nothing is in everything; a prefix is within a shorter or equal one only."""
    assert is_subset(inner, outer) is expected


def test_nothing_and_everything() -> None:
    """`exact ""` is no name, not even the empty one; `prefix ""` is every name."""
    assert "" not in exact("")
    assert "a" not in exact("")
    assert "" in prefix("")
    assert "anything" in prefix("")


@pytest.mark.parametrize(
    "name", ["..", "../t/a", "t", "/t/a", "T/a", "%74/a", "t%2fa", "t%252Fa", ""]
)
def test_no_spelling_of_a_name_slips_under_a_prefix(name: str) -> None:
    """A name is compared as it is: no path is walked, nothing is decoded again."""
    assert name not in prefix("t/")
    assert "t/" + name in prefix("t/")


@pytest.mark.parametrize(
    ("names", "wanted", "expected"),
    [
        (None, "", None),
        (exact(""), "", None),
        (exact("ab"), "", Range("ab", "ab")),
        (exact("ab"), "a", Range("ab", "ab")),
        (exact("ab"), "b", None),
        (prefix("ab"), "", Range("ab")),
        (prefix("ab"), "a", Range("ab")),
        (prefix("ab"), "abc", Range("abc")),
        (prefix("ab"), "b", None),
        (prefix(""), "x", Range("x")),
    ],
)
def test_listings_are_cut_to_the_set(
    names: NameSet | None, wanted: str, expected: Range | None
) -> None:
    """What is listed is what is asked for and allowed, be it the narrower of two prefixes."""
    assert visible(names, wanted) == expected


def test_a_prefix_put_in_front_is_taken_off_again() -> None:
    """Whoever has a prefix sees others' sets in its own names, and nothing of what lies outside."""
    for names in (exact("a"), prefix("a"), prefix("")):
        assert seen_from("t/", under("t/", names)) == names
    assert seen_from("t/", prefix("")) == EVERYTHING
    assert seen_from("t/", prefix("t")) == EVERYTHING
    assert seen_from("t/", prefix("u/")) is None
    assert seen_from("t/", exact("u/x")) is None
    assert under("t/", exact("")) == exact("")


def test_permissions_cannot_be_empty() -> None:
    """The exact sentence, whether groups are absent or the list is empty."""
    with pytest.raises(InvalidError, match=r"^Access token permissions cannot be empty$"):
        derive(TokenRequest("k-1", Scope(EVERYTHING, EVERYTHING, EVERYTHING)), None, NOW)


@pytest.mark.parametrize("streams", [None, exact("a"), exact("")])
def test_auto_prefix_needs_a_prefix(streams: NameSet | None) -> None:
    """The exact sentence; an empty prefix is one."""
    scope = Scope(streams=streams, ops=(Op.READ,))
    text = r"^Auto prefixing is only allowed for streams with prefix matching$"
    with pytest.raises(InvalidError, match=text):
        derive(TokenRequest("k-1", scope, auto_prefix_streams=True), None, NOW)
    token = derive(TokenRequest("k-1", Scope(streams=prefix(""), ops=(Op.READ,)), True), None, NOW)
    assert token.name_prefix == ""


@pytest.mark.parametrize(
    "scope",
    [
        Scope(streams=prefix("t/"), ops=(Op.APPEND,)),
        Scope(streams=prefix("t/"), op_groups=OpGroups(stream=ReadWrite(write=True))),
        Scope(streams=prefix("t"), ops=(Op.READ,)),
        Scope(streams=prefix(""), ops=(Op.READ,)),
        Scope(streams=exact("u"), ops=(Op.READ,)),
        Scope(access_tokens=prefix("k"), ops=(Op.READ,)),
    ],
)
def test_a_child_is_within_its_parent(scope: Scope) -> None:
    """More operations, by name or by group, or a wider set: refused."""
    with pytest.raises(PermissionDeniedError):
        derive(TokenRequest("k-1", scope), parent(), NOW)


def test_the_new_id_is_within_the_callers_ids() -> None:
    """A token id outside the set is refused, as is a caller that may not issue at all."""
    with pytest.raises(PermissionDeniedError):
        derive(TokenRequest("j-1", Scope(streams=prefix("t/"), ops=(Op.READ,))), parent(), NOW)
    reader = derive(
        TokenRequest("k-r", Scope(ops=(Op.READ,), access_tokens=prefix("k-"))), parent(), NOW
    )
    with pytest.raises(PermissionDeniedError):
        derive(TokenRequest("k-1", Scope(ops=(Op.READ,))), reader, NOW)


def test_expiry_is_inherited_and_never_exceeded() -> None:
    """Left out it is the caller's; later than that or in the past it is refused."""
    caller = parent(expires_ns=2_000_000_000)
    scope = Scope(streams=prefix("t/"), ops=(Op.READ,))
    assert derive(TokenRequest("k-1", scope), caller, NOW).expires_at == caller.expires_at
    for unix_ns in (2_000_000_001, 999_000_000, 1_000_000_000):
        with pytest.raises(InvalidError):
            derive(TokenRequest("k-1", scope, expires_at=Expiry("x", unix_ns)), caller, NOW)
    same = Expiry("same", 2_000_000_000)
    assert derive(TokenRequest("k-1", scope, expires_at=same), caller, NOW).expires_at == same


def test_prefixes_compose_down_a_chain() -> None:
    """A child means its streams below the caller's prefix, and keeps that prefix on its names."""
    caller = parent(auto_prefix=True)
    assert caller.name_prefix == "t/"
    request = TokenRequest("k-1", Scope(streams=prefix("x/"), ops=(Op.READ,)))
    plain = derive(request, caller, NOW)
    assert (plain.scope.streams, plain.name_prefix) == (prefix("t/x/"), "t/")
    request = TokenRequest("k-1", Scope(streams=prefix("x/"), ops=(Op.READ,)), True)
    composed = derive(request, caller, NOW)
    assert composed.name_prefix == "t/x/"
    up = TokenRequest("k-1", Scope(streams=prefix("../"), ops=(Op.READ,)), True)
    assert derive(up, caller, NOW).name_prefix == "t/../"
    far = TokenRequest("k-1", Scope(streams=prefix("x" * 511), ops=(Op.READ,)))
    with pytest.raises(InvalidError):
        derive(far, caller, NOW)


def test_secrets_have_a_shape() -> None:
    """The text is header-safe, every changed character is noticed, and the hash is of the text."""
    text = secret_text(bytes(range(32)))
    assert is_secret_text(text)
    assert text.replace("-", "").replace("_", "").isalnum()
    for place in range(len(text)):
        other = "A" if text[place] != "A" else "B"
        assert not is_secret_text(text[:place] + other + text[place + 1 :]) or place == len(text)
    for wrong in ("", text[:-1], text + "A", "svct_" + "\u00e9" * 48, "x" + text[1:]):
        assert not is_secret_text(wrong)
    assert len(secret_hash(text)) == 32
