"""A mean over minutes that is right from the start."""

from __future__ import annotations

import pytest

from svc_cluster.base.mean_rate import MEAN_SECONDS, WINDOW_SECONDS_MIN, MeanRate


@pytest.mark.parametrize("seconds", [20, 300, 3600])
def test_a_steady_rate_is_told_as_what_it_is(seconds: int) -> None:
    """However long it has been looked at."""
    rate = MeanRate(1000.0)
    for second in range(seconds):
        rate.note(1000.0 + second + 0.5, 7)
    assert rate.per_second(1000.0 + seconds) == pytest.approx(7.0, rel=0.02)


def test_the_past_fades() -> None:
    """To a third in MEAN_SECONDS, and to nothing."""
    rate = MeanRate(0.0)
    for second in range(3600):
        rate.note(float(second), 30)
    assert rate.per_second(3600.0) == pytest.approx(30.0, rel=0.02)
    assert rate.per_second(3600.0 + MEAN_SECONDS) == pytest.approx(30.0 / 2.718, rel=0.02)
    assert rate.per_second(3600.0 + 20 * MEAN_SECONDS) < 0.001


def test_the_first_events_are_not_taken_for_a_rate() -> None:
    rate = MeanRate(5.0)
    assert rate.per_second(5.0) == 0
    rate.note(5.0, 20)
    assert rate.per_second(5.0) == 20 / WINDOW_SECONDS_MIN
