"""What a node keeps in memory on behalf of others: what is new is refused before it is too much."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc_cluster.base.errors import UnavailableError
from svc_cluster.base.ids import TimestampMs
from svc_cluster.replica.memory_budget import LOOK_SECONDS, MemoryBudget, log_allowance


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> TimestampMs:
        return TimestampMs(0)


@given(st.lists(st.integers(0, 1000), max_size=30), st.integers(0, 5000))
def test_logs_cut_back_to_the_allowance_fit_and_no_greater_one_would(
    sizes: list[int], bytes_max: int
) -> None:
    """Cut back to it they are within the bound; one byte more each and they are not."""
    allowance = log_allowance(sizes, bytes_max)
    if allowance is None:
        assert sum(sizes) <= bytes_max
        return
    assert sum(min(size, allowance) for size in sizes) <= bytes_max
    assert sum(min(size, allowance + 1) for size in sizes) > bytes_max


def test_what_is_admitted_counts_until_the_parts_are_asked_again() -> None:
    """Between two looks the sum is what the parts had and what was admitted since; a refusal counts
    once and takes nothing."""
    clock = Clock()
    budget = MemoryBudget(100, clock)
    held = {"log": 0, "answers": 0}
    looks = 0

    def log() -> int:
        nonlocal looks
        looks += 1
        return held["log"]

    budget.add("log", log)
    budget.add("answers", lambda: held["answers"])
    budget.admit(60)
    held["log"] = 60
    with pytest.raises(UnavailableError):
        budget.admit(41)
    assert (budget.refused(), looks) == ({"requests": 1, "transfers": 0}, 1)
    budget.admit(40)
    held["log"] = 100
    for _ in range(1000):
        with pytest.raises(UnavailableError):
            budget.admit(1)
    assert (budget.refused(), looks) == ({"requests": 1001, "transfers": 0}, 1), (
        "a full node does not ask its parts each time"
    )
    held["log"], held["answers"] = 50, 45
    clock.now += LOOK_SECONDS
    budget.admit(5)
    assert budget.held() == {"transfers": 0, "log": 50, "answers": 45}
    with pytest.raises(UnavailableError):
        budget.admit(1)


def test_what_was_counted_in_steps_is_not_counted_again() -> None:
    """The caller's figures stand for those parts, which are not asked; all others are."""
    budget = MemoryBudget(100, Clock())

    def all_logs() -> int:
        raise AssertionError("it goes over all replicas in one turn")

    budget.add("log", all_logs)
    budget.add("wal", lambda: 7)
    budget.pieces.take(5)
    assert budget.held_beside({"log": 30}) == 42
