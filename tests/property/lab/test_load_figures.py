"""What load has measured: figures of any latencies, from one process or several."""

from __future__ import annotations

import itertools
import math

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from svc_cluster.lab.load.figures import ERROR_KINDS_MAX, Latencies, Tally

LATENCIES = st.lists(st.floats(0, 4000, allow_nan=False), min_size=1, max_size=60)
BEGIN, END = 100.0, 102.0
MOMENTS = st.floats(BEGIN - 1, END + 1, allow_nan=False)
ANSWERS = st.lists(
    st.tuples(MOMENTS, st.floats(0, 3, allow_nan=False)).map(lambda one: (one[0], sum(one))),
    max_size=40,
)


@given(LATENCIES, st.floats(0, 1))
def test_a_quantile_is_the_sorted_list_s_or_a_little_more(all_s: list[float], share: float) -> None:
    """Never better than it was, and by 1/128 and two microseconds at most worse."""
    kept = Latencies()
    for seconds in all_s:
        kept.add(seconds)
    exact_ms = sorted(all_s)[min(len(all_s) - 1, int(share * len(all_s)))] * 1000
    told = kept.quantile_ms(share)
    assert told is not None
    assert exact_ms - 0.001 <= told <= exact_ms * (1 + 1 / 128) + 0.002
    assert len(kept.counts) <= len(all_s)


@given(st.floats(0, 1e9, allow_nan=False))
def test_what_is_kept_has_a_bound(seconds: float) -> None:
    """However long an answer takes, its bucket is one of some 4,400."""
    kept = Latencies()
    kept.add(seconds)
    assert max(kept.counts) < 4400


def _tally(answers: list[tuple[float, float]]) -> Tally:
    tally = Tally(BEGIN, END)
    for due, now in answers:
        tally.answered(due, now, records=3, metered_bytes=7)
    return tally


@given(ANSWERS, ANSWERS)
def test_processes_together_have_measured_what_one_would_have(
    some: list[tuple[float, float]], others: list[tuple[float, float]]
) -> None:
    """Merged figures are those of all answers in one tally, and survive the way as JSON."""
    merged = _tally(some)
    merged.merge(msgspec.json.decode(msgspec.json.encode(_tally(others)), type=Tally))
    assert merged.figures() == _tally(some + others).figures()


@given(ANSWERS)
def test_rates_are_of_answers_and_latencies_of_what_was_due(
    answers: list[tuple[float, float]],
) -> None:
    """An answer behind the span does not count in the rate, its latency does; what was due before
    the span is the other way about."""
    figures = _tally(answers).figures()
    in_span = [now for _, now in answers if BEGIN <= now < END]
    assert figures["requests_per_s"] == round(len(in_span) / (END - BEGIN), 1)
    assert figures["records_per_s"] == round(3 * len(in_span) / (END - BEGIN), 1)
    due = [now - due for due, now in answers if BEGIN <= due < END]
    assert _tally(answers).latencies.total == len(due)
    if due:
        assert math.isclose(figures["max_ms"], max(due) * 1000, abs_tol=0.002)


@given(ANSWERS)
def test_the_longest_hole_is_between_two_answers(answers: list[tuple[float, float]]) -> None:
    """Or between one and an end of the span; to a millisecond at each side."""
    moments = sorted(now for _, now in answers if BEGIN <= now < END)
    edges = [BEGIN, *moments, END]
    exact_ms = max(after - before for before, after in itertools.pairwise(edges)) * 1000
    assert abs(_tally(answers).longest_hole_ms() - exact_ms) <= 2


@given(st.lists(st.text(max_size=3), max_size=80))
def test_kinds_of_errors_have_a_bound_and_none_is_lost(kinds: list[str]) -> None:
    """What a service invents fills no memory."""
    tally = Tally(BEGIN, END)
    for kind in kinds:
        tally.failed(kind, BEGIN, BEGIN + 0.1)
    assert sum(tally.errors.values()) == len(kinds)
    assert len(tally.errors) <= ERROR_KINDS_MAX + 1
