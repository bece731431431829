"""Dates of the years 1 to 9999: taken, kept, stored and given back as they were written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc_cluster._pb.cluster.v1 import access_pb2 as pb
from svc_cluster.base.errors import MalformedError
from svc_cluster.base.ids import TimestampMs
from svc_cluster.catalog.token_row import token_from_bytes, token_to_bytes
from svc_cluster.codec.access_pb import AccessFormatError, get_token, put_token
from svc_cluster.codec.token_json import parse_moment
from svc_cluster.model.access import Scope
from svc_cluster.model.access_token import (
    MOMENT_RULE,
    STORED_NS_MAX,
    STORED_NS_MIN,
    AccessToken,
    Expiry,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EDGES = [
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+23:59",
    "1677-09-21T00:12:43.145224192Z",
    "1677-09-21T00:12:43.145224191Z",
    "1969-12-31T23:59:59.999999999Z",
    "1970-01-01T00:00:00Z",
    "2262-04-11T23:47:16.854775807Z",
    "2262-04-11T23:47:16.854775808Z",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59.999999999Z",
    "9999-12-31T23:59:59-23:59",
]


def kept(expiry: Expiry) -> list[Expiry | None]:
    """What comes back from a log entry or a message, and from a row."""
    token = AccessToken(1, "t", b"h", 0, Scope(), expires_at=expiry)
    message = pb.AccessToken()
    put_token(message, token)
    return [
        get_token(pb.AccessToken.FromString(message.SerializeToString())).expires_at,
        token_from_bytes(token_to_bytes(token)).expires_at,
    ]


@pytest.mark.parametrize("text", EDGES)
def test_a_date_comes_back_as_it_was_given(text: str) -> None:
    """Its text, and the same moment to the nanosecond, also beyond what 64 bits of them reach."""
    moment = parse_moment(text)
    assert moment.text == text
    assert kept(moment) == [moment, moment]
    assert STORED_NS_MIN <= moment.stored_ns <= STORED_NS_MAX


@given(
    st.integers(-62_135_596_800, 253_402_300_799),
    st.integers(0, 999_999_999),
)
def test_every_date_is_the_moment_it_says(seconds: int, nanoseconds: int) -> None:
    """All seconds of the years 1 to 9999."""
    when = (EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None)
    text = f"{when.isoformat()}.{nanoseconds:09d}Z"
    moment = parse_moment(text)
    assert moment.unix_ns == seconds * 10**9 + nanoseconds
    assert kept(moment) == [moment, moment]


def test_never_is_never_over_and_the_beginning_long_is() -> None:
    """Far dates are compared exactly: a child of `9000` cannot reach to `9999`."""
    now_ms = TimestampMs(4_000_000_000_000)
    assert not parse_moment("9999-12-31T23:59:59Z").is_over(now_ms)
    assert parse_moment("0001-01-01T00:00:00Z").is_over(now_ms)
    early, late = (kept(parse_moment(f"{year}-01-01T00:00:00Z"))[1] for year in (9000, 9999))
    assert early is not None
    assert late is not None
    assert early.unix_ns < late.unix_ns


@pytest.mark.parametrize(
    "text",
    [
        "",
        "never",
        "0000-01-01T00:00:00Z",
        "10000-01-01T00:00:00Z",
        "2030-02-30T00:00:00Z",
        "2030-01-01T24:00:00Z",
        "2030-01-01T00:00:00",
        "2030-01-01T00:00:00+24:00",
    ],
)
def test_what_is_no_such_date_is_refused_with_the_range(text: str) -> None:
    with pytest.raises(MalformedError) as refusal:
        parse_moment(text)
    assert refusal.value.message == MOMENT_RULE
    assert "years 1 to 9999" in MOMENT_RULE


def test_a_stored_date_that_names_no_moment_is_refused() -> None:
    """Only a text that was not written by us can be; it is no exception of another kind."""
    message = pb.AccessToken()
    put_token(message, AccessToken(1, "t", b"h", 0, Scope(), expires_at=Expiry("x", 10**20)))
    with pytest.raises(AccessFormatError):
        get_token(message)
