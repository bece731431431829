"""Which dialect a request speaks, and which basin a host name names."""

from __future__ import annotations

import itertools

import pytest

from svc_cluster.gateway.request.dialect import Dialect, detect
from svc_cluster.gateway.request.host_names import basin_of_host

SEED_MARKS = [
    ("svc-basin", "x"),
    ("svc-anything", ""),
    ("accept", "svcs/proto"),
    ("content-type", "SVCS/proto; a=b"),
]
S2_MARKS = [
    ("s2-basin", "x"),
    ("s2-anything", ""),
    ("accept", "s2s/proto"),
    ("content-type", "s2s/proto"),
    ("user-agent", "s2-sdk-rust/0.3"),
    ("user-agent", "s2-sdk-python/0.13"),
    ("user-agent", "s2-sdk-go/1"),
    ("user-agent", "s2-sdk-typescript/1"),
    ("user-agent", "s2-cli/0.2 (channel=cargo)"),
]
NO_MARKS = [
    ("content-type", "application/json"),
    ("user-agent", "curl/8.0 s2-cli/1"),
    ("user-agent", "s2-sdk-java/1"),
    ("x-s2-basin", "x"),
    ("x-svc-basin", "x"),
    ("host", "svc-basin"),
    ("svcx", "svcs/proto"),
]


def test_each_mark_alone_decides() -> None:
    """Headers and media types of either family, and the S2 clients' user agents."""
    for mark in SEED_MARKS:
        assert detect([mark], seed_path=False) is Dialect.SEED, mark
    for mark in S2_MARKS:
        assert detect([mark], seed_path=False) is Dialect.S2, mark
    for mark in NO_MARKS:
        assert detect([mark], seed_path=False) is Dialect.UNMARKED, mark
    assert detect([], seed_path=True) is Dialect.SEED
    assert detect([], seed_path=False, host_basin=True) is Dialect.S2


def test_the_seed_wins_over_s2_in_any_order() -> None:
    """Path, then the seed's headers, then everything of S2's."""
    for seed, s2 in itertools.product(SEED_MARKS, S2_MARKS):
        for headers in ([seed, s2], [s2, seed]):
            assert detect(headers, seed_path=False, host_basin=True) is Dialect.SEED
    for s2 in S2_MARKS:
        assert detect([s2], seed_path=True, host_basin=True) is Dialect.SEED


@pytest.mark.parametrize(
    ("host", "basin"),
    [
        ("basin-01.b.example", "basin-01"),
        ("basin-01.b.example.com:8080", "basin-01"),
        ("BASIN-01.B.Example.", "basin-01"),
        ("basin-01.b.", None),
        ("basin-01.b", None),
        ("basin-01.c.example", None),
        ("basin-01.c.b.example", None),
        ("short.b.example", None),
        ("under_score.b.example", None),
        (".b.example", None),
        ("b.example", None),
        ("127.0.0.1:80", None),
        ("[::1]:80", None),
        ("", None),
        (None, None),
    ],
)
def test_the_label_in_front_of_b_is_the_basin(host: str | None, basin: str | None) -> None:
    """Whatever the case and the port. What is no basin's name was not meant as one."""
    assert basin_of_host(host) == basin


def test_configured_suffixes_replace_the_default_shape() -> None:
    """One label in front of the whole suffix; none at all with none configured."""
    suffixes = ["streams.example.com", ".other.example"]
    assert basin_of_host("basin-01.streams.example.com:443", suffixes) == "basin-01"
    assert basin_of_host("Basin-01.Other.Example", suffixes) == "basin-01"
    assert basin_of_host("a.basin-01.other.example", suffixes) is None
    assert basin_of_host("basin-01other.example", suffixes) is None
    assert basin_of_host("basin-01.b.example", suffixes) is None
    assert basin_of_host("basin-01.b.example", []) is None
