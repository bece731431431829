"""The lines of the scorecard, out of the rows that count. A figure that was not reached is printed
as what it is, and with it what the runs so far say about the rate of failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from tests.prove.bounds import quantile, rate
from tests.prove.covered import kind_of
from tests.prove.late_lines import make_late_lines
from tests.prove.line import Card, Rows

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
SCENARIOS: Final = ("single", "restart", "snapshot")


def make_card(rows: Rows, counts: Callable[[str, dict[str, Any]], bool]) -> Card:
    """`counts(kind, row)`: whether a row of this kind of run is in the figures."""
    card = Card()
    current: Rows = {}
    for name, lines in rows.items():
        current[name] = [row for row in lines if counts(kind_of(name, row), row)]
        card.counted[name] = len(current[name])
        card.left_out[name] = len(lines) - len(current[name])
    _simulation(card, current["simulation"])
    _kills(card, current["kills"], current["chaos"])
    _chaos(card, current["chaos"])
    _crashpoints(card, current["crashpoints"])
    _corruption(card, current["corruption"])
    make_late_lines(card, current)
    return card


def _simulation(card: Card, rows: list[dict[str, Any]]) -> None:
    for kind, name, wanted in (("core", "core", 15_000), ("full", "full-stack", 1_000)):
        seeds: set[int] = set()
        failed: set[int] = set()
        for row in rows:
            if row.get("kind") == kind:
                first, end = row["seeds"]
                seeds.update(range(first, end))
                # a seed is the same history each time: what its last run says stands, so one that
                # was judged wrongly is cleared by running it again under the mended judge
                failed.difference_update(range(first, end))
                failed.update(row["failures"])
        card.add(
            f"{name} simulation, seeds without a safety or liveness failure",
            f"{wanted:,}, 0 failed",
            f"{len(seeds):,}, {len(failed)} failed",
            reached=len(seeds) >= wanted and not failed,
            bound=rate(len(failed), len(seeds)),
        )
        card.failures += [f"{name} simulation: seed {seed}" for seed in sorted(failed)]


def _kills(card: Card, kills: list[dict[str, Any]], chaos: list[dict[str, Any]]) -> None:
    """Cycles of the kill tests, and the chaos rounds that do the same."""
    cycles: Counter[str] = Counter()
    lost = 0
    lost_in: Counter[str] = Counter()
    failover: list[float] = []
    for row in kills:
        kind = "power" if row["kind"] == "power" else "kill"
        cycles[kind] += int(row["cycles"])
        lost += int(row["lost"])
        lost_in[kind] += bool(row["lost"])
        failover += row.get("failover_ms", [])
    for row in chaos:
        if "faults" in row.get("facts", {}):
            continue  # a long history: of its faults only some are kills
        if row["row"] == "D1":
            cycles["kill"] += len(row["failover_ms"])
            failover += row["failover_ms"]
        elif row["row"] in ("D2", "D4"):
            cycles["kill" if row["row"] == "D2" else "power"] += 1
    for kind, name, wanted in (("kill", "kill -9", 300), ("power", "power-loss", 100)):
        card.add(
            f"{name} cycles, acknowledged records lost",
            f"{wanted}, 0 lost",
            f"{cycles[kind]}, {lost} lost",
            reached=cycles[kind] >= wanted and not lost,
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
        reached = len(failover) >= 300 and p50 <= 800 and p99 <= 1500
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
        if row["covered"] == row["tried"] >= row["total"]:
            whole.add(row["scenario"])
    for row in rows:
        violations += row["violations"]
    share = 100 * covered / tried if tried else 0.0
    missing = [name for name in SCENARIOS if name not in newest]
    without = f", not run: {', '.join(missing)}" if missing else ""
    card.add(
        "crash points at which the node died, booted and had lost nothing",
        "100 %, 0 violations",
        f"{covered} of {tried} ({share:.0f} %), {power} of them with a power cut, "
        f"{len(violations)} violations{without}",
        reached=whole.issuperset(SCENARIOS) and not violations,
        bound=rate(min(len(violations), tried), tried),
    )
    card.failures += [f"crash points: {violation}" for violation in violations]


def _corruption(card: Card, rows: list[dict[str, Any]]) -> None:
    trials = sum(int(row["trials"]) for row in rows)
    wrong = sum(int(row["silently_wrong"]) for row in rows)
    card.add(
        "corruption trials, silently wrong answers",
        "1,000, 0 wrong",
        f"{trials:,}, {wrong} wrong",
        reached=trials >= 1000 and not wrong,
        bound=rate(wrong, trials),
    )
