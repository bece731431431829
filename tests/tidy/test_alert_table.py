"""Every alert is fired by real processes, or it is said why not."""

from __future__ import annotations

from tests.alerts.table import FIRED, NOT_FIRED, THRESHOLDS
from tests.alerts.watch import FOR, shortened
from tests.tidy.observability import ALERTS, alerts


def test_every_alert_is_fired_or_listed_with_a_reason() -> None:
    """`make alerts-fire` leaves none out, none is in both lists, and each reason says something."""
    assert FIRED.keys() | NOT_FIRED.keys() == {rule["alert"] for rule in alerts()}
    assert not FIRED.keys() & NOT_FIRED.keys()
    assert all(len(reason) > 40 for reason in NOT_FIRED.values())


def test_nothing_but_the_wait_is_shortened() -> None:
    """The rules that are fired have the expressions, labels and words of the shipped ones, but for
    the values of two, which differ in nothing else."""
    rules = [rule for group in shortened(ALERTS)["groups"] for rule in group["rules"]]
    assert len(THRESHOLDS) == 2
    for rule in rules:
        if rule["alert"] in THRESHOLDS:
            shipped, tried = THRESHOLDS[rule["alert"]]
            rule["expr"] = rule["expr"].replace(tried, shipped)
    assert [rule | {"for": None} for rule in rules] == [rule | {"for": None} for rule in alerts()]
    assert {rule["for"] for rule in rules if "for" in rule} == {FOR}
    assert ["for" in rule for rule in rules] == ["for" in rule for rule in alerts()]
