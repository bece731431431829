"""How long a node that stops goes on giving its leads away."""

from __future__ import annotations

from functools import partial

from svc_cluster.replica.leader_handover import LIMIT_SECONDS, STALL_SECONDS, Patience

START = 1000.0


def ends(patience: Patience, led: list[int]) -> float | None:
    """Seconds from the start to the first look, one each half second, at which it is over, for a
    node that leads so many groups then; None when it is not."""
    for number, count in enumerate(led):
        if patience.is_over(START + number / 2, partial(int, count)):
            return number / 2
    return None


def test_it_goes_on_as_long_as_leads_leave() -> None:
    """Up to the limit, however slowly they leave and however many or few they are."""
    for at_first in (30, 500, 100_000):
        led = [at_first - number // 3 for number in range(60)]
        assert ends(Patience(START, at_first), led) == LIMIT_SECONDS == 10.0


def test_it_ends_when_none_leaves() -> None:
    """After the first two seconds without one."""
    assert ends(Patience(START, 500), [500] * 60) == STALL_SECONDS == 2.0
    led = [500 - 40 * number for number in range(8)] + [180] * 60
    assert ends(Patience(START, 500), led) == 6.0, "some left in the third and fourth second"


def test_what_comes_back_is_no_progress() -> None:
    """Nodes that stop together and give each other their leads do not keep one another going."""
    assert ends(Patience(START, 10), [9, 10] * 30) == 4.0
    assert ends(Patience(START, 10), [10 + number % 7 for number in range(60)]) == STALL_SECONDS


def test_once_over_it_is_over() -> None:
    """Many ask at the same time: the first answer is everybody's, whatever leaves after it."""
    patience = Patience(START, 10)
    later = START + STALL_SECONDS
    assert patience.is_over(later, lambda: 10)
    assert patience.is_over(later, lambda: 3)
    assert patience.is_over(later + 0.1, lambda: 0)


def test_leads_are_counted_once_in_a_stall() -> None:
    """Not with each of hundreds of attempts."""
    counted: list[float] = []
    patience = Patience(START, 500)
    for number in range(1000):
        now = START + number / 100

        def led(now: float = now) -> int:
            counted.append(now)
            return 500 - len(counted)

        assert not patience.is_over(now, led)
    assert counted == [START + seconds for seconds in (2, 4, 6, 8)]
