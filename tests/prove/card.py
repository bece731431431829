"""The lines of the scorecard, out of the rows that count. A figure that was not reached is printed
as what it is, and with it what the runs so far say about the rate of failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from tests.crashpoints.sweep import SCENARIOS
from tests.prove.bounds import quantile, rate
from tests.prove.covered import kind_of
from tests.prove.late_lines import make_late_lines
from tests.prove.line import Card, Rows
from tests.prove.pieces import PIECE_SECONDS_MAX, PIECES

LOGS: Final = (
    "simulation",
    "chaos",
    "crashpoints",
    "corruption",
    "kills",
    "restarts",
    "space",
    "ambiguous",
    "usage",
    "hostile",
    "fuzz",
    "verdicts",
    "held",
    "soak",
)
HISTORY_OPERATIONS_MIN: Final = 1000
LONG_HISTORY_OPERATIONS: Final = 500_000
TURNS: Final = "turns"
_SEED_OPTIONS: Final = ("rot",)
"""With others of these a seed is another history."""


def make_card(rows: Rows, counts: Callable[[str, dict[str, Any]], bool]) -> Card:
    """`counts(kind, row)`: whether a row of this kind of run is in the figures.

    A row that was taken back, with its reason under `void`, stays where it is and is named.
    """
    card = Card()
    current: Rows = {}
    for name in LOGS:
        lines = [row for row in rows[name] if "void" not in row]
        card.voided += [(name, row) for row in rows[name] if "void" in row]
        current[name] = [row for row in lines if counts(kind_of(name, row), row)]
        card.counted[name] = len(current[name])
        card.left_out[name] = len(lines) - len(current[name])
    _simulation(card, current["simulation"])
    _kills(card, current["kills"], current["chaos"])
    _chaos(card, current["chaos"])
    _crashpoints(card, current["crashpoints"])
    _corruption(card, current["corruption"])
    make_late_lines(card, current)
    turns = [row for row in rows.get(TURNS, ()) if counts("simulation", row)]
    _failed_turns(card, turns)
    return card


def _failed_turns(card: Card, turns: list[dict[str, Any]]) -> None:
    """A run that failed may have left no row: what its piece works on is not reached."""
    for row in turns:
        hung = row.get("state") == "cut" and row["seconds"] >= PIECE_SECONDS_MAX
        if "void" in row or not (row.get("status") or hung):
            continue
        text = "was cut at its longest time" if hung else f"ended with status {row['status']}"
        card.failures.append(f"turn {row['turn']} ({row['piece']}) {text}")
        measures = [piece.measures for piece in PIECES if piece.name == row["piece"]]
        for line in card.lines:
            if line.measure.startswith(tuple(name for found in measures for name in found)):
                line.reached = False


def _simulation(card: Card, rows: list[dict[str, Any]]) -> None:
    for kind, name, wanted in (("core", "core", 15_000), ("full", "full-stack", 1_000)):
        seeds: set[int] = set()
        failed: dict[Any, set[int]] = {}
        for row in rows:
            if row.get("kind") == kind:
                first, end = row["seeds"]
                seeds.update(range(first, end))
                # with the same options a seed is the same history each time: what its last run
                # says stands, so one that was judged wrongly is cleared by running it again
                same = failed.setdefault(tuple(row.get(name) for name in _SEED_OPTIONS), set())
                same.difference_update(range(first, end))
                same.update(row["failures"])
        bad = set().union(*failed.values())
        card.add(
            f"{name} simulation, seeds without a safety or liveness failure",
            f"{wanted:,}, 0 failed",
            f"{len(seeds):,}, {len(bad)} failed",
            reached=len(seeds) >= wanted and not bad,
            bound=rate(len(bad), len(seeds)),
        )
        card.failures += [f"{name} simulation: seed {seed}" for seed in sorted(bad)]


def _kills(card: Card, kills: list[dict[str, Any]], chaos: list[dict[str, Any]]) -> None:
    """Cycles of the kill tests, and the chaos rounds without violations that do the same."""
    cycles: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    lost_in: Counter[str] = Counter()
    broken: Counter[str] = Counter()
    failover: list[float] = []
    for row in kills:
        kind = "power" if row["kind"] == "power" else "kill"
        # a cut that took no write back was none
        cycles[kind] += int(row.get("cuts_that_took", row["cycles"]))
        missing = sum(int(row.get(name, 0)) for name in ("lost", "doubled", "foreign"))
        lost[kind] += missing
        lost_in[kind] += bool(missing)
        if row.get("failed"):
            broken[kind] += 1
            card.failures.append(f"{kind} cycles broke off: {row['failed']}")
        failover += row.get("failover_ms", [])
    for row in chaos:
        if "faults" in row.get("facts", {}) or row["violations"]:
            continue  # a long history: of its faults only some are kills; or none without loss
        if row["row"] == "D1":
            cycles["kill"] += len(row["failover_ms"])
            failover += row["failover_ms"]
        elif row["row"] in ("D2", "D4"):
            cycles["kill" if row["row"] == "D2" else "power"] += 1
    for kind, name, wanted in (("kill", "kill -9", 300), ("power", "power-loss", 100)):
        card.add(
            f"{name} cycles, acknowledged records lost",
            f"{wanted}, 0 lost",
            f"{cycles[kind]}, {lost[kind]} lost",
            reached=cycles[kind] >= wanted and not lost[kind] and not broken[kind],
            bound=rate(min(lost_in[kind], cycles[kind]), cycles[kind]),
        )
    figure = "0 kills"
    reached = False
    if failover:
        p50, p99 = quantile(failover, 0.5), quantile(failover, 0.99)
        figure = (
            f"p50 {p50 / 1000:.2f} s, p99 {p99 / 1000:.2f} s, max {max(failover) / 1000:.2f} s "
            f"over {len(failover)} kills"
        )
        reached = len(failover) >= 300 and p50 <= 800 and p99 <= 1500 and not broken["kill"]
    card.add(
        "failover: kill -9 of the leader to the first append",
        "p50 <= 0.8 s, p99 <= 1.5 s over 300 kills",
        figure,
        reached=reached,
    )


def _chaos(card: Card, rows: list[dict[str, Any]]) -> None:
    good = [r for r in rows if not r["violations"] and r["ops"] >= HISTORY_OPERATIONS_MIN]
    bad = [row for row in rows if row["violations"]]
    per_row = Counter(row["row"] for row in good)
    names = ", ".join(f"{name} {per_row[name]}" for name in sorted(per_row, key=_number))
    card.add(
        f"live histories of at least {HISTORY_OPERATIONS_MIN:,} operations, linearizable",
        "100, 0 with violations",
        f"{len(good)}, {len(bad)} with violations" + (f" ({names})" if names else ""),
        reached=len(good) >= 100 and not bad,
        bound=rate(len(bad), len(good) + len(bad)),
    )
    longest = max((int(row["ops"]) for row in good), default=0)
    card.add(
        "the longest live history, linearizable",
        f"{LONG_HISTORY_OPERATIONS:,} operations",
        f"{longest:,} operations",
        reached=longest >= LONG_HISTORY_OPERATIONS,
    )
    card.failures += [
        f"chaos round {row['round']} (seed {row['seed']}, {row['row']}): {row['violations'][0]}"
        for row in bad
    ]


def _number(name: str) -> int:
    return int("".join(char for char in name if char.isdigit()) or 0)


def _crashpoints(card: Card, rows: list[dict[str, Any]]) -> None:
    tried = covered = power = 0
    violations: list[str] = []
    whole: set[str] = set()
    newest = {row["scenario"]: row for row in rows if row["stride"] == 1}
    for row in newest.values():
        tried, covered = tried + row["tried"], covered + row["covered"]
        power += row["power_cuts"]
        if row["covered"] == row["tried"] >= row["total"] > 0:
            whole.add(row["scenario"])
    for row in rows:
        violations += row["violations"]
    share = 100 * covered / tried if tried else 0.0
    names = [scenario.name for scenario in SCENARIOS]
    missing = [name for name in names if name not in newest]
    without = f", not run: {', '.join(missing)}" if missing else ""
    card.add(
        "crash points at which the node died, booted and had lost nothing",
        "100 %, 0 violations",
        f"{covered} of {tried} ({share:.0f} %), {power} of them with a power cut, "
        f"{len(violations)} violations{without}",
        reached=whole.issuperset(names) and covered == tried and not violations,
        bound=rate(min(len(violations), tried), tried),
    )
    card.failures += [f"crash points: {violation}" for violation in violations]


def _corruption(card: Card, rows: list[dict[str, Any]]) -> None:
    """Each seed's trials once, as its last run had them. A fault is a trial after which the damaged
    node, or the cluster, did not serve and did not say why."""
    last = {row["seed"]: row for row in rows}
    trials = sum(int(row["trials"]) for row in last.values())
    wrong = sum(int(row["silently_wrong"]) for row in rows)
    faults = sum(int(row["fault"]) for row in rows)
    noticed = sum(int(row["found"]) + int(row["repaired"]) for row in last.values())
    card.add(
        "corruption trials, silently wrong answers",
        "1,000, 0 wrong",
        f"{trials:,}, {wrong} wrong, {faults} faults; damage found or repaired in {noticed}",
        reached=trials >= 1000 and not wrong and not faults and noticed >= trials // 4,
        bound=rate(min(wrong + faults, trials), trials),
    )
