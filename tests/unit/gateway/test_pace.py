"""A slow client is sent small portions, a fast one large ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from svc_cluster.gateway.api.pace import (
    MOMENT_SECONDS,
    PORTION_BYTES_MAX,
    PORTION_BYTES_MIN,
    Pace,
)


def test_a_client_that_blocks_for_long_gets_the_least_after_one_portion() -> None:
    pace = Pace()
    pace.took(60.0)
    assert pace.portion_bytes == PORTION_BYTES_MIN


def test_a_client_that_reads_again_is_back_at_the_most_in_a_few_portions() -> None:
    pace = Pace()
    pace.took(60.0)
    portions = []
    while pace.portion_bytes < PORTION_BYTES_MAX:
        pace.took(0.0)
        portions.append(pace.portion_bytes)
    assert portions == [131072, 262144, 524288, 1048576]


@given(st.floats(min_value=10_000, max_value=1e8))
def test_a_steady_client_is_sent_about_a_moments_worth(bytes_per_second: float) -> None:
    """Whatever the rate: the portions settle where one takes a moment, or at an end of the range;
    between half and twice of that, as fast growth is kept in check."""
    pace = Pace()
    for _ in range(64):
        pace.took(pace.portion_bytes / bytes_per_second)
    worth = bytes_per_second * MOMENT_SECONDS
    lowest = min(max(worth / 2, PORTION_BYTES_MIN), PORTION_BYTES_MAX)
    highest = min(max(worth * 2, PORTION_BYTES_MIN), PORTION_BYTES_MAX)
    assert lowest - 1 <= pace.portion_bytes <= highest + 1
