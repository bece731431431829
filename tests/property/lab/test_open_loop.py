"""Moments of an open loop, and what becomes of each of them."""

from __future__ import annotations

import itertools
import random
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from svc_cluster.lab.load.figures import Tally
from svc_cluster.lab.load.order import Share
from svc_cluster.lab.load.pacing import FineTimer, OpenLoop
from svc_cluster.lab.load.requests import Bodies, LoadAccess, StampReader
from svc_cluster.lab.load.scenarios import Part
from svc_cluster.lab.load.work import Work

BEGIN, END = 50.0, 52.0
RATES = st.floats(0.5, 200)
PART = Part(name="p", kind="append")


class Hands:
    """A clock that only moves when it is moved."""

    def __init__(self, at: float) -> None:
        self.at = at

    def monotonic(self) -> float:
        return self.at

    def wall_ms(self) -> int:
        return 0


class Moving:
    """A timer for which time passes at once."""

    def __init__(self, clock: Hands) -> None:
        self._clock = clock

    async def until(self, moment: float) -> None:
        self._clock.at = max(self._clock.at, moment)


@given(RATES, st.floats(0, 0.99))
def test_moments_are_evenly_apart_whenever_they_are_taken(rate: float, phase: float) -> None:
    """They are those of the rate from begin to end, and no moment comes twice."""
    loop = OpenLoop(BEGIN, END, rate, phase)
    taken = [loop.take() for _ in range(2)]
    moments = [due for due in taken if due is not None] + list(loop.rest())
    assert loop.take() is None
    assert all(BEGIN <= due < END for due in moments)
    assert abs(len(moments) - (END - BEGIN) * rate) <= 1
    gaps = [after - before for before, after in itertools.pairwise(moments)]
    assert all(abs(gap - 1 / rate) < 1e-6 for gap in gaps)


def _run(rate: float, takes: list[float], fail_every: int) -> tuple[Tally, list[float]]:
    """One connection through a span: each request takes as long as the next of `takes` says. The
    tally, and what was due in the span."""
    clock = Hands(BEGIN)
    tally = Tally(BEGIN, END)
    work = Work(
        access=LoadAccess("http://127.0.0.1:1"),
        share=Share(PART, "basin", ["s"], [0], [0]),
        tally=tally,
        clock=clock,  # type: ignore[arg-type]
        timer=cast(FineTimer, Moving(clock)),
        pace=OpenLoop(BEGIN, END, rate),
        bodies=None,
        rng=random.Random(1),
    )
    coroutine = _serve(work, clock, takes, fail_every)
    try:
        coroutine.send(None)
    except StopIteration:
        pass
    else:
        raise AssertionError("nothing waits in virtual time")
    clock.at = max(clock.at, END)
    work.close()
    return tally, list(OpenLoop(BEGIN, END, rate).rest())


async def _serve(work: Work, clock: Hands, takes: list[float], fail_every: int) -> None:
    count = 0
    while (due := await work.next_due()) is not None:
        number = work.sent(due)
        if count >= len(takes):
            return  # the last request is never answered, and the ones behind it never sent
        clock.at += takes[count]
        count += 1
        if count % fail_every == 0:
            work.failed(number, "503", unanswered=True)
        else:
            work.answered(number)


@given(RATES, st.lists(st.floats(0, 0.5), max_size=30), st.integers(2, 9))
def test_every_moment_of_the_span_is_in_the_percentiles(
    rate: float, takes: list[float], fail_every: int
) -> None:
    """Answered, failed, unanswered or never sent: a slow service does not make them fewer. That is
    what a loop omits which asks again only when it has been answered."""
    tally, due = _run(rate, takes, fail_every)
    assert tally.latencies.total == len(due)


def test_latencies_count_from_when_a_request_was_due() -> None:
    """One answer of a second, then quick ones: at 10 a second the ten requests that were due
    meanwhile were late by up to a second each."""
    tally, due = _run(10.0, [1.0, *[0.0] * 40], 1000)
    assert len(due) == 20
    late_ms = [tally.latencies.quantile_ms(share) or 0.0 for share in (0.52, 0.72, 0.97)]
    assert all(
        abs(told - exact) < 10 for told, exact in zip(late_ms, (100, 500, 1000), strict=True)
    )
    assert tally.unsent == 0


@given(
    st.lists(st.floats(0, 1e6), min_size=1, max_size=12),
    st.sampled_from(["json", "protobuf"]),
    st.lists(st.integers(1, 97), max_size=30),
    st.integers(0, 2**32),
)
def test_stamps_are_found_however_what_comes_is_cut(
    moments: list[float], encoding: str, cuts: list[int], seed: int
) -> None:
    """Each stamp once, to a microsecond, in bodies at random."""
    part = Part(name="p", kind="append", size=64, batch=2, stamped=True, encoding=encoding)  # type: ignore[arg-type]
    bodies = Bodies(part, random.Random(seed))
    data = b"".join(bodies.next(due) for due in moments)
    reader = StampReader(encoding)
    found: list[float] = []
    for cut in cuts:
        found += reader.feed(data[:cut])
        data = data[cut:]
    found += reader.feed(data)
    assert [round(due * 1e6) for due in moments] == [round(due * 1e6) for due in found]
