"""The scorecard counts what it says it counts."""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import Any

import pytest

from tests.crashpoints.sweep import SCENARIOS
from tests.prove.bounds import quantile, rate, wilson
from tests.prove.card import LOGS, make_card
from tests.prove.covered import COVERED, NODE, ROOT, digest, files, native_core_is_old
from tests.prove.line import Card
from tests.prove.page import page
from tests.prove.scorecard import is_current, read_logs, was_whole


def card_of(**rows: list[dict[str, Any]]) -> Card:
    return make_card(
        {name: rows.get(name, []) for name in LOGS}, lambda _, row: row["files"] == "new"
    )


def line(card: Card, start: str) -> tuple[str, bool]:
    found = next(line for line in card.lines if line.measure.startswith(start))
    return found.figure, found.reached


def round_of(number: int, **changes: Any) -> dict[str, Any]:
    base = {"files": "new", "row": "D1", "round": number, "seed": 1, "ops": 1000}
    return {**base, "violations": [], "failover_ms": [400, 900], **changes}


def test_nothing_run_is_nothing_reached() -> None:
    """Without runs every figure is zero and no target is reached."""
    card = card_of()
    assert not any(line.reached for line in card.lines)
    assert page(card, {}).count("**not reached**") == len(card.lines)


def test_old_runs_and_changed_files_do_not_count() -> None:
    """Only rows on the files of now are in the figures; the others are counted as left out."""
    rows = [round_of(n) for n in range(100)] + [round_of(n, files="changed") for n in range(7)]
    card = card_of(chaos=rows)
    assert line(card, "live histories") == ("100, 0 with violations (D1 100)", True)
    assert (card.counted["chaos"], card.left_out["chaos"]) == (100, 7)


def test_earlier_runs_are_shown_as_earlier() -> None:
    """A change begins the count anew; what was run before stands in a table of its own."""
    rows = [round_of(n, files="old") for n in range(100)]
    now, whole = (
        card_of(chaos=rows),
        make_card({name: [] for name in LOGS} | {"chaos": rows}, lambda *_: True),
    )
    assert line(now, "live histories") == ("0, 0 with violations", False)
    text = page(now, {}, whole)
    assert text.count("100, 0 with violations (D1 100)") == 1
    assert text.index("With runs on other files") < text.index("(D1 100)")
    assert "With runs on other files" not in page(card_of(), {}, card_of())


def test_a_violation_is_not_outnumbered() -> None:
    """One bad round among many: the target is not reached and the page names the round."""
    rows = [round_of(n) for n in range(200)] + [round_of(777, violations=["R2: lost"])]
    card = card_of(chaos=rows)
    assert not line(card, "live histories")[1]
    assert "chaos round 777 (seed 1, D1): R2: lost" in page(card, {})


def test_a_seed_counts_once_by_its_last_run() -> None:
    """Run again, it replaces what it said before, for better or for worse."""

    def seeds(first: int, end: int, *failures: int) -> dict[str, Any]:
        return {"files": "new", "kind": "core", "seeds": [first, end], "failures": [*failures]}

    rows = [seeds(0, 15_000, 7)]
    assert line(card_of(simulation=rows), "core") == ("15,000, 1 failed", False)
    rows.append(seeds(0, 500))
    assert line(card_of(simulation=rows), "core") == ("15,000, 0 failed", True)
    rows.append(seeds(9, 10, 9))
    assert line(card_of(simulation=rows), "core") == ("15,000, 1 failed", False)
    rows.append(seeds(0, 500) | {"rot": True})  # another history
    assert line(card_of(simulation=rows), "core") == ("15,000, 1 failed", False)


def test_short_histories_are_not_histories() -> None:
    """Rounds of fewer operations than the target asks for are left out of that figure."""
    card = card_of(chaos=[round_of(n, ops=999) for n in range(100)])
    assert not line(card, "live histories")[1]


def test_failover_needs_enough_kills_and_both_quantiles() -> None:
    """300 kills within the limits are reached; one more in fifty beyond them is not."""
    fast = {"files": "new", "kind": "leader", "cycles": 299, "lost": 0, "failover_ms": [700] * 300}
    slow = {**fast, "cycles": 4, "failover_ms": [1600] * 4}
    assert line(card_of(kills=[fast]), "failover")[1]
    assert not line(card_of(kills=[fast, slow]), "failover")[1]
    assert line(card_of(kills=[fast]), "kill -9 cycles") == ("299, 0 lost", False)
    assert quantile([1, 2, 3, 4], 0.5) == 2


def test_a_long_history_is_no_row_of_kills() -> None:
    """What its clients saw of many kinds of faults says nothing of how long a failover takes."""
    fast = {"files": "new", "kind": "leader", "cycles": 300, "lost": 0, "failover_ms": [700] * 300}
    long = round_of(1, ops=500_000, failover_ms=[9000] * 50, facts={"faults": 50})
    card = card_of(kills=[fast], chaos=[long])
    assert line(card, "failover")[1]
    assert line(card, "kill -9 cycles") == ("300, 0 lost", True)
    assert line(card, "the longest live history")[1]


def test_crash_points_need_every_scenario_in_full() -> None:
    """A strided run, or a scenario that is missing, is not 100 %."""
    rows: list[dict[str, Any]] = [
        {
            "files": "new",
            "scenario": name,
            "stride": 1,
            "total": 50,
            "tried": 50,
            "covered": 50,
            "power_cuts": 25,
            "violations": [],
        }
        for name in (scenario.name for scenario in SCENARIOS)
    ]
    assert len(rows) >= 4
    assert line(card_of(crashpoints=rows), "crash points")[1]
    for at, row in enumerate(rows):
        others = [*rows[:at], *rows[at + 1 :]]
        assert not line(card_of(crashpoints=others), "crash points")[1]
        nothing = {"total": 0, "tried": 0, "covered": 0}
        for bad in ({"stride": 9}, {"covered": 49}, nothing, {"violations": ["lost"]}):
            assert not line(card_of(crashpoints=[*others, row | bad]), "crash points")[1]


def test_a_trial_that_does_not_serve_is_no_good_trial() -> None:
    """Nor are trials in which hardly any damage was noticed; and a seed's trials count once."""

    def row(seed: int, **changes: Any) -> dict[str, Any]:
        base = {"files": "new", "seed": seed, "trials": 500, "silently_wrong": 0, "fault": 0}
        return {**base, "found": 200, "repaired": 100, **changes}

    start = "corruption"
    assert line(card_of(corruption=[row(1), row(2)]), start)[1]
    assert not line(card_of(corruption=[row(1), row(1)]), start)[1]
    for bad in ({"silently_wrong": 1}, {"fault": 1}, {"found": 0, "repaired": 0}):
        assert not line(card_of(corruption=[row(1) | bad, row(2) | bad]), start)[1]
    assert not line(card_of(corruption=[row(1), row(2, fault=1), row(2)]), start)[1]


def test_cuts_and_kills_that_prove_nothing_are_not_counted() -> None:
    """A cut that took nothing back is none, a round with violations is no cycle without loss, what
    is doubled is not whole, and a run that broke off is not outnumbered."""
    power = {"files": "new", "kind": "power", "cycles": 1, "cuts_that_took": 1, "lost": 0}
    start = "power-loss cycles"
    assert line(card_of(kills=[power] * 100), start)[1]
    assert not line(card_of(kills=[power] * 99 + [power | {"cuts_that_took": 0}]), start)[1]
    for bad in ({"lost": 1}, {"doubled": 1}, {"foreign": 1}, {"failed": "TimeoutError"}):
        assert not line(card_of(kills=[power] * 100 + [power | bad]), start)[1]
    rounds = [round_of(n, violations=["R2: lost"]) for n in range(200)]
    assert line(card_of(chaos=rounds), "kill -9 cycles") == ("0, 0 lost", False)
    kills = {"files": "new", "kind": "leader", "cycles": 300, "lost": 0, "failover_ms": [700] * 300}
    card = card_of(kills=[kills, kills | {"cycles": 3, "failed": "no append in 30 s"}])
    assert not line(card, "kill -9 cycles")[1]
    assert not line(card, "failover")[1]
    assert "kill cycles broke off: no append in 30 s" in card.failures


@pytest.mark.parametrize(
    ("turn", "reached"),
    [
        ({"state": "ended", "status": 0}, True),
        ({"state": "cut", "status": None, "seconds": 900.0}, True),
        ({"state": "cut", "status": None, "seconds": 2400.0}, False),
        ({"state": "ended", "status": 1}, False),
        ({"state": "ended", "status": 1, "void": "the test's own client"}, True),
        ({"state": "ended", "status": 1, "files": "old"}, True),
    ],
)
def test_a_turn_that_failed_is_on_the_page(turn: dict[str, Any], reached: bool) -> None:
    """It may have left no row: what it works on is not reached, until somebody says why."""
    kills = {"files": "new", "kind": "leader", "cycles": 300, "lost": 0, "failover_ms": [700] * 300}
    row = {"files": "new", "turn": 7, "piece": "kills", "seconds": 5.0} | turn
    rows: Any = {name: [] for name in LOGS} | {"kills": [kills], "turns": [row]}
    card = make_card(rows, lambda _, row: row["files"] == "new")
    assert line(card, "kill -9 cycles")[1] == reached
    assert line(card, "failover")[1] == reached
    assert bool(card.failures) != reached
    assert ("turn 7 (kills)" in page(card, {})) != reached


def test_what_was_taken_back_is_named() -> None:
    """It is in no figure, and on the page with its reason."""
    rows = [round_of(n) for n in range(100)]
    rows.append(round_of(777, violations=["R2"], void="the client was wrong", date="2026-11-28"))
    card = card_of(chaos=rows)
    assert line(card, "live histories") == ("100, 0 with violations (D1 100)", True)
    assert "| 2026-11-28 | `chaos.jsonl` | 777 | the client was wrong |" in page(card, {})
    assert "taken back" not in page(card_of(), {})


def test_rounds_of_histories_have_no_gaps() -> None:
    """A round that failed and was thrown away is a gap in the numbers."""
    numbers = [row["round"] for row in read_logs()["chaos"] if row["round"] > 0]
    assert sorted(set(numbers)) == list(range(min(numbers), max(numbers) + 1))


def test_what_an_append_passes_through_voids_what_was_run_on_it() -> None:
    """Runs of whole clusters are about gateways and what starts the processes too, the engine's own
    runs about the engine, and a kind of run that is not listed is noticed."""
    assert set(NODE) >= {"raft", "stream", "catalog", "codec", "storage", "replica", "link"}
    clusters = ("chaos", "kills", "ambiguous", "usage", "restarts", "hostile", "held", "soak")
    for kind in (*clusters, "space"):
        assert set(COVERED[kind]) >= {*NODE, "gateway", "http", "cli/processes", "settings*.py"}
    assert set(COVERED) == {"core", *LOGS}
    text = page(card_of(), {"core": "abc", "chaos": "def"})
    assert "| simulation of the core | `abc` | `raft`, `base`, `model` |" in text
    assert "| `chaos.jsonl` | `def` | `raft`, `base`, `model`, `stream`, " in text


@pytest.mark.parametrize("kind", sorted(COVERED))
def test_what_a_run_is_about_is_closed_over_imports(kind: str) -> None:
    """What a file that is covered imports is covered, but for the command's other parts, through
    which no append goes."""
    covered = files(kind)
    missing = set()
    for path in covered:
        if "tests" in path.relative_to(ROOT).parts or "cli" in path.parts:
            continue
        if path.suffix == ".py":
            missing |= {name for name in _imported(path) if name not in covered}
    assert not missing


def _imported(path: Path) -> set[Path]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("svc_cluster."):
            base = ROOT / (node.module or "").replace(".", "/")
            for at in (base, *(base / alias.name for alias in node.names)):
                found |= {each for each in (at.with_suffix(".py"),) if each.is_file()}
    return found


def test_a_place_that_is_gone_is_noticed(tmp_path: Path) -> None:
    """A digest that leaves out a file which was renamed would stand for ever."""
    (tmp_path / "svc_cluster" / "raft").mkdir(parents=True)
    with pytest.raises(FileNotFoundError, match="base"):
        digest("core", tmp_path)


def test_a_core_that_was_built_before_its_source_is_noticed(tmp_path: Path) -> None:
    """The digest is of the source: what runs must have been built from it."""
    folder = tmp_path / "svc_cluster" / "_native"
    folder.mkdir(parents=True)
    (folder / "a.c").touch()
    assert not native_core_is_old(tmp_path)
    (folder / "_core.abi3.so").touch()
    os.utime(folder / "_core.abi3.so", (1000, 1000))
    assert native_core_is_old(tmp_path)
    os.utime(folder / "a.c", (999, 999))
    assert not native_core_is_old(tmp_path)


def test_a_run_counts_by_the_files_that_it_was_on() -> None:
    """Whatever its commit is called; not where its files changed meanwhile, nor where nobody wrote
    down which they were."""
    digests = {"core": "aa", "chaos": "bb"}
    assert is_current(digests, "chaos", {"commit": "gone+", "files": "bb"})
    assert not is_current(digests, "core", {"commit": "here", "files": "bb"})
    assert not is_current(digests, "core", {"commit": "here"})
    assert was_whole({"files": "cc"})
    assert not was_whole({"files": "changed"})
    assert was_whole({"commit": "c"})
    assert not was_whole({"commit": "c+"})


@pytest.mark.parametrize(
    ("failures", "trials", "low", "high"),
    [(0, 10, 0.0, 0.2775), (1, 10, 0.0179, 0.4042), (5, 10, 0.2366, 0.7634), (10, 10, 0.7225, 1.0)],
)
def test_wilsons_interval(failures: int, trials: int, low: float, high: float) -> None:
    """Against published values."""
    assert wilson(failures, trials) == pytest.approx((low, high), abs=1e-4)


def test_a_rate_says_what_was_shown() -> None:
    """Nothing run shows nothing; nothing failed is the rule of three; else an interval."""
    assert rate(0, 0) == "nothing run"
    assert rate(0, 2) == "at most 1e+02 %"
    assert rate(0, 300) == "at most 1 %"
    assert rate(0, 15_000) == "at most 1 in 5,000"
    assert rate(1, 10) == "1.8 % to 40 %"


def test_runs_of_the_engine_outlive_changes_elsewhere() -> None:
    """Behind a change that is not the engine's, its seeds count and those of whole clusters do
    not."""
    rows: Any = {name: [] for name in LOGS}
    rows["simulation"] = [
        {"files": "f", "kind": kind, "seeds": [0, 15_000], "failures": []}
        for kind in ("core", "full")
    ]
    card = make_card(rows, lambda kind, _: kind == "core")
    assert line(card, "core") == ("15,000, 0 failed", True)
    assert line(card, "full-stack") == ("0, 0 failed", False)
    assert (card.counted["simulation"], card.left_out["simulation"]) == (1, 1)


def test_planted_bugs_are_listed_with_what_caught_them() -> None:
    """One line a bug; nothing where none was recorded."""
    row = {"area": "raft", "name": "a-bug", "rule": "A rule.", "seconds": 6.0}
    text = page(card_of(), {}, mutants=[row | {"caught_by": "tests/unit/test_a.py::test_b[x|y]"}])
    assert "| raft | a-bug | A rule. | `unit/test_a.py::test_b[x\\|y]` | 6.0 |" in text
    assert "Planted bugs" not in page(card_of(), {})
