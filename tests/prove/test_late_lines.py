"""The lines of single tools count what they say they count."""

from __future__ import annotations

from typing import Any

from tests.prove.late_lines import SOAK_FAULTS, scene_names
from tests.prove.page import page
from tests.prove.test_scorecard import card_of, line


def test_planned_restarts_are_hardly_felt_and_fail_nobody() -> None:
    """A hundred within the limit are reached; two more beyond it are not, nor is one append that
    failed or is gone."""

    def row(**changes: Any) -> dict[str, Any]:
        base = {"files": "new", "gaps_ms": [60] * 50, "gateways": 5, "appends": 1000, "failed": 0}
        return {**base, "lost": 0, "doubled": 0, **changes}

    start = "planned restarts"
    assert not line(card_of(restarts=[]), start)[1]
    assert not line(card_of(restarts=[row()]), start)[1]
    assert line(card_of(restarts=[row(), row()]), start)[1]
    assert not line(card_of(restarts=[row(), row(gaps_ms=[60] * 48 + [301] * 2)]), start)[1]
    for bad in ({"failed": 1}, {"lost": 1}, {"doubled": 1}):
        assert not line(card_of(restarts=[row(), row(**bad)]), start)[1]


def test_space_is_judged_by_the_largest_run() -> None:
    """A small run in time does not stand for a large one that was late or held too much."""

    def row(**changes: Any) -> dict[str, Any]:
        base = {"files": "new", "trimmed_mib": 2048, "nodes": 3, "seconds": 40.0}
        sizes = {"before_mib": [3600], "after_mib": [290.0], "live_mib": 205.0, "floor_mib": 36.0}
        return {**base, **sizes, **changes}

    start = "space"
    assert not line(card_of(), start)[1]
    assert not line(card_of(space=[row(trimmed_mib=128)]), start)[1]
    assert line(card_of(space=[row(), row(trimmed_mib=128, seconds=500.0)]), start)[1]
    assert not line(card_of(space=[row(seconds=121.0)]), start)[1]
    assert not line(card_of(space=[row(after_mib=[100.0, 303.0])]), start)[1]
    assert line(card_of(space=[row(seconds=121.0), row()]), start)[1]
    broken = {"files": "new", "failed": "TimeoutError"}
    assert not line(card_of(space=[broken, row()]), start)[1]


def test_retries_count_together_and_any_violation_counts() -> None:
    """Two runs of a thousand are the target; one lost or unsettled write is not outnumbered."""
    half = {
        "files": "new",
        "ambiguous": 1000,
        "duplicates": 0,
        "lost": 0,
        "unresolved": 0,
        "violations": [],
    }
    assert line(card_of(ambiguous=[half]), "writes of unknown")[1] is False
    assert line(card_of(ambiguous=[half, half]), "writes of unknown") == (
        "2,000, 0 doubled, 0 lost",
        True,
    )
    for bad in ({"duplicates": 1}, {"lost": 1}, {"unresolved": 1}, {"violations": ["R1"]}):
        assert not line(card_of(ambiguous=[half, half, half | bad]), "writes of unknown")[1]


def test_usage_that_is_off_by_one_record_is_off() -> None:
    """Kills and retries add up over runs, and so does what is missing or too much."""

    def row(**changes: Any) -> dict[str, Any]:
        base = {"files": "new", "leader_kills": 25, "retries_of_answered": 500, "wrong": []}
        return {**base, "records": 7000, "counted_records": 7000.0, **changes}

    start = "usage"
    assert not line(card_of(usage=[row()]), start)[1]
    assert line(card_of(usage=[row(), row()]), start)[1]
    assert not line(card_of(usage=[row(), row(counted_records=7001.0)]), start)[1]
    assert not line(card_of(usage=[row(), row(wrong=["1 read too many"])]), start)[1]


def scene_of(name: str, **changes: Any) -> dict[str, Any]:
    base = {"files": "new", "scene": name, "scale": 3, "passed": True, "node_mib": 200}
    return {**base, **changes}


def test_every_hostile_scene_counts() -> None:
    """At the full scale; one that is missing, or that was ever out of bounds, is named."""
    names = sorted(scene_names())
    assert len(names) >= 14
    rows = [scene_of(f"{name}[True]") for name in names]
    card = card_of(hostile=[*rows, scene_of(names[0], scale=1, node_mib=900)])
    assert line(card, "hostile") == (
        f"{len(names)} scenes, 0 out of bounds, node at most 200 MiB",
        True,
    )
    found = line(card_of(hostile=rows[1:]), "hostile")
    assert not found[1]
    assert f"not run: {names[0]}" in found[0]
    failed = scene_of("a", passed=False, gateway_mib=512)
    card = card_of(hostile=[failed, *rows, scene_of("a")])
    assert not line(card, "hostile")[1]
    assert "hostile: a" in page(card, {})


def fuzz_of(target: str, inputs: int, *faults: str) -> dict[str, Any]:
    row = {"files": "new", "target": target, "targets": ["a", "b"], "inputs": inputs}
    return {**row, "faults": [*faults]}


def test_the_poorest_parser_decides() -> None:
    """Inputs of one do not stand for another's, nor for a parser that was not run."""
    rows = [fuzz_of("a", 150_000), fuzz_of("a", 150_000)]
    assert not line(card_of(fuzz=rows), "spoilt")[1]
    rows.append(fuzz_of("b", 200_000))
    assert line(card_of(fuzz=rows), "spoilt")[1]
    card = card_of(fuzz=[*rows, fuzz_of("b", 1, "IndexError")])
    assert not line(card, "spoilt")[1]
    assert card.failures == ["fuzz: b: IndexError"]


def test_verdicts_that_were_not_reached_are_not_agreements() -> None:
    """A history that the search gave up on keeps the target unreached, as a disagreement does."""
    row = {"files": "new", "histories": 500, "planted": 50, "undecided": 0, "disagreements": []}
    row |= {"seeds": [0, 500]}
    assert line(card_of(verdicts=[row]), "histories judged")[1]
    half = row | {"histories": 250, "planted": 25}
    assert not line(card_of(verdicts=[half, half]), "histories judged")[1]
    assert line(card_of(verdicts=[half, half | {"seeds": [500, 750]}]), "histories judged")[1]
    for bad in ({"planted": 49}, {"undecided": 1}, {"disagreements": ["7: stale"]}):
        assert not line(card_of(verdicts=[row | bad]), "histories judged")[1]


def test_a_short_soak_is_a_short_soak() -> None:
    """The longest counts, what it lost or what grew in any of them, and one in which hardly
    anything happened is none."""
    row: dict[str, Any] = {"files": "new", "hours": 2.0, "appends": 10_000, "p999_ms": 9, "lost": 0}
    row |= {"stall_ms": 1500, "faults": [], "reads": 1000, "followed_records": 1000}
    row |= {"injected": dict.fromkeys(SOAK_FAULTS, 3)}
    assert line(card_of(soak=[row]), "soak")[1]
    quiet = {name: 3 for name in SOAK_FAULTS if name != "kill gateway"}
    bad: dict[str, Any]
    for bad in (
        {"hours": 1.9},
        {"appends": 9999},
        {"reads": 0},
        {"followed_records": 0},
        {"injected": quiet},
        {"lost": 1},
        {"faults": ["memory grows"]},
    ):
        assert not line(card_of(soak=[row | bad]), "soak")[1]
    for bad in ({"hours": 3.0, "faults": ["memory grows"]}, {"hours": 0.1, "lost": 1}):
        assert not line(card_of(soak=[row, row | bad]), "soak")[1]


def test_load_held_is_judged_at_its_full_size() -> None:
    """A share of it, or appends that are four times as slow beside it, is not reached."""
    row: dict[str, Any] = {"files": "new", "scale": 1.0, "connections": 5000, "followers": 2000}
    row |= {"streams": 100_000, "basins": 1000, "tokens": 20_000, "p99_ms": 27.0}
    row |= {"p99_alone_ms": 9.0, "node_mib": 1, "gateway_mib": 1, "faults": []}
    row |= {"appends": 1000, "appends_alone": 1000}
    start = "held at once"
    assert line(card_of(held=[row]), start)[1]
    bad: dict[str, Any]
    faults: dict[str, Any] = {"faults": ["node 1 is over its budget"]}
    for bad in ({"scale": 0.5}, {"p99_ms": 28.0}, faults, {"appends": 9}, {"appends_alone": 9}):
        assert not line(card_of(held=[row | bad]), start)[1]
    for bad in ({"scale": 0.1, **faults}, {"scale": 1.1, **faults}):
        assert not line(card_of(held=[row, row | bad]), start)[1]
    early = {name: value for name, value in row.items() if not name.startswith("appends")}
    assert not line(card_of(held=[early]), start)[1], "nobody knows of how many appends"
    broken = {"files": "new", "scale": 1.0, "faults": ["broken off"]}
    assert not line(card_of(held=[broken, row]), start)[1]
