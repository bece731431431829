"""The applied state: listing and the bounded cache."""

from __future__ import annotations

import pytest

from tests.unit.stream.support import Leader

NAMES = ["a", "a/", "a/b", "ab", "b", "é", "\U0001f600"]


@pytest.fixture(scope="module")
def leader() -> Leader:
    leader = Leader()
    for name in reversed(NAMES):
        leader.create(name)
    return leader


@pytest.mark.parametrize(
    ("prefix", "start_after", "limit", "expected", "has_more"),
    [
        ("", "", 100, NAMES, False),
        ("", "", 7, NAMES, False),
        ("", "", 6, NAMES[:6], True),
        ("", "b", 1, ["é"], True),
        ("", "é", 1, ["\U0001f600"], False),
        ("a", "", 3, ["a", "a/", "a/b"], True),
        ("a", "", 4, ["a", "a/", "a/b", "ab"], False),
        ("a/", "a/", 9, ["a/b"], False),
        ("a", "z", 9, [], False),
        ("b", "a", 9, ["b"], False),
        ("x", "", 9, [], False),
        ("", "\U0010ffff", 9, [], False),
    ],
)
def test_listing_is_in_byte_order_and_knows_whether_there_is_more(
    leader: Leader, prefix: str, start_after: str, limit: int, expected: list[str], has_more: bool
) -> None:
    """Exact pages, exclusive start."""
    page, more = leader.state.list_streams(prefix, start_after, limit)
    assert [entry.name for entry in page] == expected
    assert more is has_more


def test_cache_is_bounded_and_correct() -> None:
    """Streams beyond the bound are read from the store again, with their last state."""
    leader = Leader(cached_max=3)
    for number in range(10):
        leader.create(f"s{number}")
    for turn in range(3):
        for number in range(10):
            assert leader.append(f"s{number}").start.seq_num == turn
    assert [leader.stream(f"s{number}").tail_seq_num for number in range(10)] == [3] * 10
    assert len(leader.state._streams) == len(leader.state._ids) == 3


def test_stream_in_the_cache_costs_no_read() -> None:
    """The hot path does not go to the store."""
    leader = Leader()
    leader.create("s")
    leader.append("s")
    before = leader.store.gets
    leader.append("s")
    assert leader.store.gets == before
