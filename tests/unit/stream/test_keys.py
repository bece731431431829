"""Keys: layout, order and ranges."""

from __future__ import annotations

import pytest

from svc_cluster.base.ids import StreamId
from svc_cluster.stream import keys


def test_layout_of_every_key_is_fixed() -> None:
    """The bytes on disk do not change with the code."""
    assert keys.APPLIED_KEY == b"\x00"
    assert keys.BASIN_KEY == b"\x01"
    assert keys.name_key("a/b") == b"\x02a/b"
    assert keys.stream_key(StreamId(5)) == b"\x03" + bytes(7) + b"\x05"
    assert keys.batch_key(StreamId(5), 258) == b"\x04" + bytes(7) + b"\x05" + bytes(6) + b"\x01\x02"


def test_keys_can_be_taken_apart_again() -> None:
    """Names and batch positions come back as they went in."""
    assert keys.name_of(keys.name_key("ключ")) == "ключ"
    assert keys.batch_key_parts(keys.batch_key(StreamId(7), 9)) == (7, 9)


def test_range_of_a_streams_batches_holds_all_of_them_and_no_other() -> None:
    """The half-open range ends before the next stream's first batch."""
    start, end = keys.batches_range(StreamId(3))
    assert start <= keys.batch_key(StreamId(3), 0)
    assert keys.batch_key(StreamId(3), 2**64 - 1) < end <= keys.batch_key(StreamId(4), 0)
    assert keys.batch_key(StreamId(2), 2**64 - 1) < start


@pytest.mark.parametrize(
    ("prefix", "start_after", "name", "inside"),
    [
        ("", "", "a", True),
        ("", "", "\U0010ffff\U0010ffff", True),
        ("a", "", "a", True),
        ("a", "", "ab", True),
        ("a", "", "b", False),
        ("a", "ab", "ab", False),
        ("a", "ab", "ab\x00", True),
        ("a", "b", "ab", False),
        ("b", "a", "b", True),
        ("é", "", "éa", True),
        ("é", "", "ê", False),
    ],
)
def test_range_of_names_holds_what_matches(
    prefix: str, start_after: str, name: str, inside: bool
) -> None:
    """Prefix inclusive, start_after exclusive, in byte order."""
    start, end = keys.name_range(prefix, start_after)
    assert (start <= keys.name_key(name) < end) is inside
