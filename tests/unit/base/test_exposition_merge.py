"""Pages of several processes as one: what is added, what is not, and what a dead process leaves."""

from __future__ import annotations

import pytest

from svc_cluster.base.exposition_merge import (
    ENDINGS,
    GAUGES,
    Joint,
    PageError,
    joint_of,
    merged,
)
from svc_cluster.base.metrics import Metrics

NOT_ADDED = {
    "process_start_time_seconds",
    "svc_backup_last_success_timestamp_seconds",
    "svc_build_info",
    "svc_clock_away_seconds",
    "svc_cluster_active_version",
    "svc_cluster_upgrade_outstanding",
    "svc_native_core_info",
    "svc_quota_used_ratio",
    "svc_request_outcomes_used_ratio",
    "svc_scrub_age_seconds",
    "svc_storage_capacity_bytes",
    "svc_storage_free_bytes",
    "svc_storage_read_only",
    "svc_stored_bytes_used_ratio",
    "svc_tls_cert_expiry_timestamp_seconds",
}


def page(kind: str, *samples: str, name: str = "svc_x") -> bytes:
    lines = [f"# HELP {name} What it is.", f"# TYPE {name} {kind}", *samples]
    return "".join(f"{line}\n" for line in lines).encode()


def test_counters_histograms_and_summaries_are_added_by_name_and_labels() -> None:
    """What only one of them has stays as it is; labels may have spaces and braces in them."""
    one = page("counter", 'svc_x{route="/a b}"} 3.0', 'svc_x{route="/c"} 1.0')
    two = page("counter", 'svc_x{route="/a b}"} 4.0', 'svc_x{route="/d\u2028e"} 2.5')
    assert merged({1: one, 2: two}) == page(
        "counter",
        'svc_x{route="/a b}"} 7.0',
        'svc_x{route="/c"} 1.0',
        'svc_x{route="/d\u2028e"} 2.5',
    )
    for kind in ("histogram", "summary"):
        both = page(kind, 'svc_x_bucket{le="1.0"} 2.0', "svc_x_count 2.0", "svc_x_sum 0.5")
        assert merged({1: both, 2: both}) == page(
            kind, 'svc_x_bucket{le="1.0"} 4.0', "svc_x_count 4.0", "svc_x_sum 1.0"
        )


@pytest.mark.parametrize(
    ("name", "joint"),
    [
        ("svc_http_streams_open", "12.0"),
        ("svc_build_info", "7.0"),
        ("svc_quota_used_ratio", "7.0"),
        ("svc_tls_cert_expiry_timestamp_seconds", "5.0"),
    ],
)
def test_gauges_are_added_unless_their_sum_says_nothing(name: str, joint: str) -> None:
    """The sum, the greatest by the end of the name, and the least by the table."""
    pages = {1: page("gauge", f"{name} 5.0", name=name), 2: page("gauge", f"{name} 7.0", name=name)}
    assert merged(pages) == page("gauge", f"{name} {joint}", name=name)


def test_where_nothing_can_be_said_of_all_each_is_shown() -> None:
    """With the label `process`, behind others where there are some."""
    name = "process_start_time_seconds"
    pages = {n: page("gauge", f"{name} {n}.0", f'{name}{{a="b"}} 9.0', name=name) for n in (1, 3)}
    samples = [
        f'{name}{{process="1"}} 1.0',
        f'{name}{{a="b",process="1"}} 9.0',
        f'{name}{{process="3"}} 3.0',
        f'{name}{{a="b",process="3"}} 9.0',
    ]
    assert merged(pages) == page("gauge", *samples, name=name)


def test_of_the_past_what_was_counted_lasts_and_gauges_do_not() -> None:
    """Also where nobody has that family now."""
    now = page("counter", "svc_x 1.0") + page("gauge", "svc_g 4.0", name="svc_g")
    past = (
        page("counter", "svc_x 2.0")
        + page("gauge", "svc_g 8.0", name="svc_g")
        + page("counter", "svc_y 3.0", name="svc_y")
        + page("gauge", "svc_h 8.0", name="svc_h")
    )
    assert merged({1: now}, [past]) == now.replace(b"svc_x 1.0", b"svc_x 3.0") + page(
        "counter", "svc_y 3.0", name="svc_y"
    )


def test_the_page_of_one_process_is_as_it_was() -> None:
    """A real page, but for the label of what is each process's own; twice it is twice as much."""
    metrics = Metrics(process=True)
    metrics.http_requests.labels("GET", "/v1/basins", "200").inc(3)
    metrics.http_request_duration.labels("GET", "/v1/basins").observe(0.5)
    own = metrics.expose()
    start = b"process_start_time_seconds"
    assert merged({1: own}) == own.replace(b"\n" + start + b" ", b"\n" + start + b'{process="1"} ')
    twice = merged({1: own, 2: own}).decode()
    assert 'svc_http_requests_total{code="200",method="GET",route="/v1/basins"} 6.0\n' in twice
    assert 'duration_seconds_count{method="GET",route="/v1/basins"} 2.0\n' in twice


def test_every_gauge_that_is_not_added_is_there_and_known() -> None:
    """A row of the table that no metric has is stale; a new gauge with such an end is seen here."""
    text = Metrics(process=True).expose().decode()
    kinds = dict(line.split(" ")[2:] for line in text.split("\n") if line.startswith("# TYPE"))
    found = {name for name, kind in kinds.items() if joint_of(name, kind) is not Joint.SUM}
    assert found == NOT_ADDED
    assert found >= GAUGES.keys()
    assert all(any(name.endswith(end) for name in found) for end in ENDINGS)


@pytest.mark.parametrize(
    "text",
    [
        b"svc_x 1.0\n",
        b"# HELLO svc_x x\n",
        b"# TYPE svc_x\n",
        b"# TYPE svc_x wheel\n",
        b"# TYPE svc_x counter\nsvc_x one\n",
        b"# TYPE svc_x counter\n1.0\n",
        b"\xff\n",
    ],
)
def test_what_is_no_page_is_refused(text: bytes) -> None:
    """A sample without a head, a head without a kind, a value that is no number, no text."""
    with pytest.raises(PageError):
        merged({1: text})
